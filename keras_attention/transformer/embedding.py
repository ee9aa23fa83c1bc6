"""The input embedding of the Transformer, Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762).

    x_0 = drop(sqrt(d) E[token] + PE)                        sections 3.4 and 3.5

Code name -> paper name: `dim` -> d_model, `table` -> E. To share E between encoder, decoder and
logits, pass one `keras.layers.Embedding` to all; a `.keras` file contains it once.
"""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    LayerOrConfig,
    Mask,
    OutputShape,
    Shape,
    Size,
    Spec,
    Structure,
    Tensor,
    TensorLike,
)
from keras_attention.core.counter_dropout import CounterDropout
from keras_attention.kernels.matmul_precision import kernel_matmul
from keras_attention.transformer.learned_positional_embedding import LearnedPositionalEmbedding
from keras_attention.transformer.positional_encoding import PositionalEncoding

POSITIONS = ("sinusoidal", "learned", "rotary", "relative")
MAX_LENGTH = 256


@keras.saving.register_keras_serializable(package="keras_attention")
class TransformerEmbedding(Layer):
    """Maps ids to scaled embeddings with positions.

    Use it in front of `TransformerEncoderLayer`s. `TransformerDecoder` has its own; pass both the
    same `embedding` to share it.

    Args:
        vocabulary_size: Positive int, the number of ids; 0 is padding.
        dim: Positive int, the width of the embedding.
        positions: "sinusoidal", "learned", or "rotary" or "relative": then nothing is added here,
            and the attention of the layers distinguishes positions.
        dropout: Float in [0, 1), the fraction of entries dropped.
        max_length: Positive int, the number of learned positions.
        embedding: Optional `keras.layers.Embedding` of `vocabulary_size` and `dim`, to share it;
            None creates one.
        mask_zero: Whether id 0 is masked.
        seed: Optional int, the seed of the dropout.

    Call arguments:
        ids: Int tensor `(batch, length)`, or `(batch,)` for a single position.
        position: Optional int `(batch,)`, the position of the (first) id of each sequence, or
            `(batch, length)`, that of each; by default they are 0, 1, 2, ...
        training: Whether dropout is applied.

    Returns:
        A float tensor `(batch, length, dim)`, or `(batch, dim)`, in the compute dtype.

    Raises:
        ValueError: If an argument is out of range, or `embedding` has different sizes.

    Masking: with `mask_zero` attaches a mask to its output, False where the id is 0.

    Example:

    >>> layer = TransformerEmbedding(vocabulary_size=11, dim=4)
    >>> tuple(layer(keras.ops.array([[5, 3, 0]])).shape)
    (1, 3, 4)

    Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.4.
    """

    dropout: float
    seed: int | None

    def __init__(
        self,
        vocabulary_size: int,
        dim: int,
        positions: str = "sinusoidal",
        dropout: float = 0.1,
        max_length: int = MAX_LENGTH,
        embedding: keras.layers.Embedding | Config | None = None,
        mask_zero: bool = True,
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        owner = "TransformerEmbedding"
        self.supports_masking = True
        self.vocabulary_size: int = validation.check_positive_int(
            owner, "vocabulary_size", vocabulary_size
        )
        self.dim: int = validation.check_positive_int(owner, "dim", dim)
        self.positions: str = validation.check_one_of(owner, "positions", positions, POSITIONS)
        self.dropout, self.seed = dropout, seed
        self.max_length: int = validation.check_positive_int(owner, "max_length", max_length)
        self.mask_zero: bool = bool(mask_zero)
        self.embedding: keras.layers.Embedding | None = deserialize_shared(embedding)
        self.table: keras.layers.Embedding = self.embedding or keras.layers.Embedding(
            vocabulary_size,
            dim,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=dim**-0.5),
            dtype=self.dtype_policy,
            name="table",
        )
        self._check_sizes()
        self.position_layer: PositionalEncoding | LearnedPositionalEmbedding | None = None
        if positions == "sinusoidal":
            if dim % 2:
                raise ValueError(
                    "TransformerEmbedding expects an even `dim` for `positions='sinusoidal'`, "
                    f"because sines and cosines alternate. Received: dim={dim}"
                )
            self.position_layer = PositionalEncoding(dtype=self.dtype_policy, name="positions")
        elif positions == "learned":
            self.position_layer = LearnedPositionalEmbedding(
                max_length, dtype=self.dtype_policy, name="positions"
            )
        self.drop: CounterDropout = CounterDropout(
            dropout, seed=seed, dtype=self.dtype_policy, name="dropout"
        )

    def _check_sizes(self):
        sizes = (getattr(self.table, "input_dim", None), getattr(self.table, "output_dim", None))
        if sizes != (self.vocabulary_size, self.dim):
            raise ValueError(
                "TransformerEmbedding expects `embedding` to be a `keras.layers.Embedding"
                f"({self.vocabulary_size}, {self.dim})`, the sizes of its owner. "
                f"Received: embedding={self.embedding!r} of sizes {sizes}"
            )

    def build(self, ids_shape: Shape) -> None:
        self._check_rank(ids_shape)
        if not self.table.built:
            self.table.build(ids_shape)
        if self.position_layer is not None and not self.position_layer.built:
            self.position_layer.build((*tuple(ids_shape), self.dim))
        self.built = True

    def _check_rank(self, ids):
        axes = "(batch,) or (batch, length)"
        validation.check_rank("TransformerEmbedding", "ids", ids, (1, 2), axes)

    def call(
        self, ids: Tensor, position: Tensor | None = None, training: bool | None = None
    ) -> TensorLike:
        self._check_rank(ids)
        validation.check_ids_in_vocabulary("TransformerEmbedding", "ids", ids, self.vocabulary_size)
        # The table may have a different dtype policy than this layer, for which it was not created.
        embedded = ops.cast(self.table(ids), self.compute_dtype) * self.dim**0.5
        if self.position_layer is not None:
            embedded = self.position_layer(embedded, position)
        return self.drop(embedded, training=training)

    def check_length(self, name: str, length: Size) -> None:
        """Raises `ValueError` if a known `length` exceeds the learned positions."""
        if self.positions == "learned":
            self.position_layer.check_length(name, length)

    def project(self, states: TensorLike, is_step: bool = False) -> Tensor:
        """Returns the products of states `(rows, dim)` with every embedding: tied logits.

        Args:
            states: Float tensor `(rows, dim)`.
            is_step: Whether they are those of a decoder's step, few rows.
        """
        if self.table.quantization_mode is None:
            table = self.table.embeddings
        else:  # a quantized table has integers without scale; the layer applies the scale
            table = self.table(ops.arange(self.vocabulary_size, dtype="int32"))
        return kernel_matmul(
            states, ops.cast(table, states.dtype), transposed=True, is_step=is_step
        )

    def compute_mask(self, ids: Tensor, previous_mask: Mask = None) -> Mask:
        return ops.not_equal(ids, 0) if self.mask_zero else None

    def compute_output_shape(
        self, ids_shape: Shape, position_shape: Shape | None = None
    ) -> OutputShape:
        self._check_rank(ids_shape)
        return (*tuple(ids_shape), self.dim)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        ids = bind_call(self, args, kwargs).ids
        if len(ids.shape) == 2:
            self.check_length("length", ids.shape[1])
        return keras.KerasTensor(self.compute_output_shape(ids.shape), dtype=self.compute_dtype)

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "dim": self.dim,
            "positions": self.positions,
            "dropout": self.dropout,
            "max_length": self.max_length,
            "embedding": serialize_shared(self.embedding),
            "mask_zero": self.mask_zero,
            "seed": self.seed,
        }


def deserialize_shared(given: LayerOrConfig | None) -> keras.layers.Layer | None:
    """Returns a layer, or the one from a config of `serialize_shared`; None stays None."""
    return keras.saving.deserialize_keras_object(given) if isinstance(given, dict) else given


def serialize_shared(layer: keras.layers.Layer | None) -> Config | None:
    """Returns the config of a layer that several owners share; None stays None.

    When loading a file, Keras treats objects with the same `shared_object_id` as one object. It
    assigns that id when it meets an object for the second time. This is too late for a layer in a
    nested model, whose config has been copied by then, so this function assigns it immediately.
    """
    if layer is None:
        return None
    return {**keras.saving.serialize_keras_object(layer), "shared_object_id": id(layer)}
