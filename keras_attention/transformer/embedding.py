"""What enters the Transformer, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762).

    x_0 = drop(sqrt(d) E[token] + PE)                        sections 3.4 and 3.5

Code name -> paper name: `dim` -> d_model, `table` -> E. Encoder, decoder and logits may share one
E: they are given one `keras.layers.Embedding`, and a `.keras` file holds it once.
"""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.dropout import CounterDropout
from keras_attention.layer import Layer
from keras_attention.products import product
from keras_attention.transformer.learned_positional_embedding import LearnedPositionalEmbedding
from keras_attention.transformer.positional_encoding import PositionalEncoding

POSITIONS = ("sinusoidal", "learned", "rotary")
MAX_LENGTH = 256


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerEmbedding(Layer):
    """Turns ids into scaled embeddings that know their positions.

    Use it in front of `TransformerEncoderLayer`s. `TransformerDecoder` has one of its own; give
    both the same `embedding` to share it.

    Args:
        vocabulary_size: Positive int, the number of ids; 0 is padding.
        dim: Positive int, the width of the embedding.
        positions: "sinusoidal", "learned", or "rotary": then nothing is added here, and the
            layers turn queries and keys.
        dropout: Float in [0, 1), the share of entries dropped.
        max_length: Positive int, the number of learned positions.
        embedding: Optional `keras.layers.Embedding` of `vocabulary_size` and `dim`, to be
            shared; None makes one.
        mask_zero: Whether id 0 is masked.
        seed: Optional int, the seed of the dropout.

    Call arguments:
        ids: Int tensor `(batch, length)`, or `(batch,)`, one position of each row.
        position: Optional int `(batch,)`, the position of the (first) id of each row, or
            `(batch, length)`, that of each; by default they are 0, 1, 2, ...
        training: Whether dropout is applied.

    Returns:
        A float tensor `(batch, length, dim)`, or `(batch, dim)`, in the compute dtype.

    Raises:
        ValueError: If an argument is out of range, or `embedding` has other sizes.

    Masking: with `mask_zero` attaches a mask to its output, False where the id is 0.

    Example:

    >>> layer = TransformerEmbedding(vocabulary_size=11, dim=4)
    >>> tuple(layer(keras.ops.array([[5, 3, 0]])).shape)
    (1, 3, 4)

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.4.
    """

    def __init__(
        self,
        vocabulary_size,
        dim,
        positions="sinusoidal",
        dropout=0.1,
        max_length=MAX_LENGTH,
        embedding=None,
        mask_zero=True,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        owner = "TransformerEmbedding"
        self.supports_masking = True
        self.vocabulary_size = checks.positive_int(owner, "vocabulary_size", vocabulary_size)
        self.dim = checks.positive_int(owner, "dim", dim)
        self.positions = checks.one_of(owner, "positions", positions, POSITIONS)
        self.dropout, self.seed = dropout, seed
        self.max_length = checks.positive_int(owner, "max_length", max_length)
        self.mask_zero = bool(mask_zero)
        self.embedding = shared_layer(embedding)
        self.table = self.embedding or keras.layers.Embedding(
            vocabulary_size,
            dim,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=dim**-0.5),
            dtype=self.dtype_policy,
            name="table",
        )
        self._check_sizes()
        self.position_layer = None
        if positions == "sinusoidal":
            self.position_layer = PositionalEncoding(dtype=self.dtype_policy, name="positions")
        elif positions == "learned":
            self.position_layer = LearnedPositionalEmbedding(
                max_length, dtype=self.dtype_policy, name="positions"
            )
        self.drop = CounterDropout(dropout, seed=seed, dtype=self.dtype_policy, name="dropout")

    def _check_sizes(self):
        sizes = (getattr(self.table, "input_dim", None), getattr(self.table, "output_dim", None))
        if sizes != (self.vocabulary_size, self.dim):
            raise ValueError(
                "TransformerEmbedding expects `embedding` to be a `keras.layers.Embedding"
                f"({self.vocabulary_size}, {self.dim})`, the sizes of its owner. "
                f"Received: embedding={self.embedding!r} of sizes {sizes}"
            )

    def build(self, ids_shape):
        if not self.table.built:
            self.table.build(ids_shape)
        if self.position_layer is not None and not self.position_layer.built:
            self.position_layer.build((*tuple(ids_shape), self.dim))
        self.built = True

    def call(self, ids, position=None, training=None):
        checks.ids_in_vocabulary("TransformerEmbedding", "ids", ids, self.vocabulary_size)
        # The table may have another policy than its owner, for which it was not made.
        embedded = ops.cast(self.table(ids), self.compute_dtype) * self.dim**0.5
        if self.position_layer is not None:
            embedded = self.position_layer(embedded, position)
        return self.drop(embedded, training=training)

    def check_length(self, name: str, length) -> None:
        """Raises `ValueError` if `length`, where it is known, exceeds learned positions."""
        if self.positions == "learned":
            self.position_layer.check_length(name, length)

    def project(self, states):
        """Returns the products of states `(rows, dim)` with every embedding: tied logits."""
        if self.table.quantization_mode is None:
            table = self.table.embeddings
        else:  # the stored table is integers without their scale; the layer knows both
            table = self.table(ops.arange(self.vocabulary_size, dtype="int32"))
        return product(states, ops.cast(table, states.dtype), transposed=True)

    def compute_mask(self, ids, previous_mask=None):
        return ops.not_equal(ids, 0) if self.mask_zero else None

    def compute_output_shape(self, ids_shape, position_shape=None):
        return (*tuple(ids_shape), self.dim)

    def compute_output_spec(self, ids, position=None, training=None):
        if len(ids.shape) == 2:
            self.check_length("length", ids.shape[1])
        return keras.KerasTensor(self.compute_output_shape(ids.shape), dtype=self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "dim": self.dim,
            "positions": self.positions,
            "dropout": self.dropout,
            "max_length": self.max_length,
            "embedding": shared_config(self.embedding),
            "mask_zero": self.mask_zero,
            "seed": self.seed,
        }


def shared_layer(given):
    """Returns a layer, or the one that a config of `shared_config` stands for; None stays None."""
    return keras.saving.deserialize_keras_object(given) if isinstance(given, dict) else given


def shared_config(layer):
    """Returns the config of a layer that several owners share; None stays None.

    Loading a file, Keras takes objects of one `shared_object_id` for one object. It gives that
    id when it meets an object for the second time, which is too late for a layer inside of a
    nested model, whose config was copied by then. So it is given at once.
    """
    if layer is None:
        return None
    return {**keras.saving.serialize_keras_object(layer), "shared_object_id": id(layer)}
