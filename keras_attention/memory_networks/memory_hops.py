"""End-to-end memory network, Sukhbaatar et al. 2015 (https://arxiv.org/abs/1503.08895).

    m_i = sum_j l_j * A x_ij + T_A(i)       c_i = sum_j l_j * C x_ij + T_C(i)
    u   = sum_j l_j * B q_j                 p_i = softmax_i(u . m_i)
    u'  = u + sum_i p_i c_i                 "adjacent": A' = C, B = A^1, W^T = C^K
    u'  = H u + sum_i p_i c_i               "layer_wise": one A and one C for all hops

Code name -> paper name: `tables` -> A^1, C^1, C^2, ... (hop k uses the tables k and k + 1) or A, C;
`temporal` -> T in the same order, `weights` -> p, `state` -> u, the result -> u after the last hop.
Position encodings and the ages of memories are in `_sentence_encoding`.
"""

from typing import Unpack

import keras
from keras import activations, initializers, ops

from keras_attention import normalizers, validation
from keras_attention._utils.base_layer import Layer, bind_call, select_outputs
from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.initializers import derive_initializer
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Activation,
    ActivationFunction,
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Mask,
    Outputs,
    OutputShape,
    Shape,
    Spec,
    Structure,
    Tensor,
    TensorLike,
)
from keras_attention.memory_networks import _sentence_encoding as encoding
from keras_attention.normalizers.base import Normalizer

CONSTANT_QUERY = 0.1  # u of the paper's language model


@keras.saving.register_keras_serializable(package="keras_attention")
def half_relu(inputs: TensorLike) -> Tensor:
    """Returns the inputs with a ReLU on the second half of their last axis.

    It is the `activation` of the paper's language model (section 5).

    Example:

    >>> [float(value) for value in half_relu(ops.array([-1.0, 2.0, -3.0, 4.0]))]
    [-1.0, 2.0, 0.0, 4.0]
    """
    first = ops.arange(inputs.shape[-1]) < inputs.shape[-1] // 2
    return ops.where(first, inputs, ops.relu(inputs))


@keras.saving.register_keras_serializable(package="keras_attention")
class MemoryHops(Layer):
    """Answers a question about a story by attending to its sentences several times.

    Use it if an answer needs several separate facts: each hop uses the results of the previous
    hops. It takes ids, because every hop embeds the memories with a different matrix.

    Args:
        vocabulary_size: Positive int; id 0 is the null word, whose vector is always 0.
        units: Positive int, d.
        num_hops: Positive int, K.
        weight_tying: "adjacent" or "layer_wise".
        position_encoding: "paper", "centered" (the authors' code; its weights depend on the
            padded length, so pad all stories alike) or "bag".
        max_memories: Positive int, the number of temporal rows; of longer stories only the most
            recent sentences are used. None uses all, without their order.
        empty_memory_rate: Float in [0, 1), the rate of empty memories that are inserted between
            the sentences while training, so that temporal rows vary. The paper uses 0.1.
        linear_start: Whether the layer starts without the softmax, see `set_linear`.
        activation: Function of u after every hop: None, or `half_relu` for language models.
        normalizer: A `Normalizer` or its name.
        embeddings_initializer: Initializer of all tables; None is the paper's, a normal
            distribution with standard deviation 0.1.
        seed: Optional int, the seed of the noise.
        pad_to_max_memories: Whether a story of fewer sentences than `max_memories` is filled up
            with empty memories, as in the authors' code. Their keys and values are 0, and they
            take part in the softmax: a question can read nothing where no sentence fits.

    Call arguments:
        story_ids: Int tensor `(batch, memories, words)`, oldest first, or `(batch, memories)`
            for memories of one word. A memory without a word is padding, at any position.
        question_ids: Int tensor `(batch, words)`; None uses the constant 0.1 as query, as the
            language model does.
        return_logits: Whether to return the answer's logits as well. Adjacent tying only.
        return_attention_scores: Whether to return the weights as well (Keras' name).
        training: Whether to insert empty memories.

    Returns:
        The state `(batch, units)`, followed by the requested outputs: logits
        `(batch, vocabulary_size)` in float32, and weights `(batch, num_hops, memories)`. With
        empty memories the weights sum to less than 1: the empty memories have the rest.

    Raises:
        ValueError: If an argument is out of range, `empty_memory_rate` or `pad_to_max_memories` is
            passed without `max_memories`, logits are requested with layer-wise tying, or the
            tensors do not fit together.

    Masking: by ids: 0 is padding. A story without a word gives context 0. No mask is propagated.

    Example:

    >>> reader = MemoryHops(vocabulary_size=11, units=4, num_hops=2)
    >>> story, question = keras.ops.ones((3, 5, 7), "int32"), keras.ops.ones((3, 6), "int32")
    >>> state, weights = reader(story, question, return_attention_scores=True)
    >>> tuple(state.shape), tuple(weights.shape)
    ((3, 4), (3, 2, 5))

    Reference: Sukhbaatar et al. 2015, https://arxiv.org/abs/1503.08895, sections 2 to 5.
    """

    def __init__(
        self,
        vocabulary_size: int,
        units: int,
        num_hops: int = 3,
        weight_tying: str = "adjacent",
        position_encoding: str = "paper",
        max_memories: int = 50,
        empty_memory_rate: float = 0.0,
        linear_start: bool = False,
        activation: Activation = None,
        normalizer: str | Normalizer | Config = "softmax",
        embeddings_initializer: Initializer | None = None,
        seed: int | None = None,
        pad_to_max_memories: bool = False,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        owner = "MemoryHops"
        self.supports_masking = True
        self.vocabulary_size: int = validation.check_positive_int(
            owner, "vocabulary_size", vocabulary_size
        )
        self.units: int = validation.check_positive_int(owner, "units", units)
        self.num_hops: int = validation.check_positive_int(owner, "num_hops", num_hops)
        self.weight_tying: str = validation.check_one_of(
            owner, "weight_tying", weight_tying, ("adjacent", "layer_wise")
        )
        self.position_encoding: str = validation.check_one_of(
            owner, "position_encoding", position_encoding, encoding.ENCODINGS
        )
        if max_memories is not None:
            validation.check_positive_int(owner, "max_memories", max_memories)
        self.max_memories = max_memories
        self.empty_memory_rate: float = validation.check_number_in_range(
            owner, "empty_memory_rate", empty_memory_rate, 0, 1, exclude_high=True
        )
        if empty_memory_rate > 0 and max_memories is None:
            raise ValueError(
                f"{owner} inserts empty memories to vary temporal rows and expects "
                "`max_memories` with `empty_memory_rate`. Received: "
                f"empty_memory_rate={empty_memory_rate}, max_memories=None"
            )
        if pad_to_max_memories and max_memories is None:
            raise ValueError(
                f"{owner} pads stories to `max_memories` and expects it with "
                "`pad_to_max_memories`. Received: pad_to_max_memories=True, max_memories=None"
            )
        self.pad_to_max_memories = pad_to_max_memories
        self.linear_start = linear_start
        self.activation: ActivationFunction = (
            None if activation is None else activations.get(activation)
        )
        self.normalizer: Normalizer = normalizers.get(normalizer, dtype=self.dtype_policy)
        if embeddings_initializer is None:
            embeddings_initializer = initializers.RandomNormal(stddev=0.1, seed=seed)
        self.embeddings_initializer: InitializerFunction = initializers.get(embeddings_initializer)
        self.seed = seed
        if self.empty_memory_rate > 0:
            self.seed_generator: keras.random.SeedGenerator = keras.random.SeedGenerator(seed)

    def build(self, story_ids_shape: Shape, question_ids_shape: Shape | None = None) -> None:
        self._check_shapes(story_ids_shape, question_ids_shape)
        count = self.num_hops + 1 if self.weight_tying == "adjacent" else 2
        shape = (self.vocabulary_size, self.units)
        self.tables: list[keras.Variable] = [
            self._add_matrix(shape, f"embeddings_{i}", i) for i in range(count)
        ]
        self.temporal: list[keras.Variable] = []
        if self.max_memories is not None:
            shape = (self.max_memories, self.units)
            self.temporal = [
                self._add_matrix(shape, f"temporal_{i}", count + i) for i in range(count)
            ]
        self.question_table: keras.Variable | None = None
        if self.weight_tying == "layer_wise":
            shape = (self.units, self.units)
            self.hop_kernel: keras.Variable = self._add_matrix(shape, "hop_kernel", 2 * count)
            if question_ids_shape is not None:
                shape = (self.vocabulary_size, self.units)
                self.question_table = self._add_matrix(shape, "question", 2 * count + 1)
        start = "ones" if self.linear_start else "zeros"
        self.linear: keras.Variable = self.add_weight(
            (), start, dtype="bool", trainable=False, name="linear"
        )
        if not self.normalizer.built:
            self.normalizer.build(tuple(story_ids_shape)[:2])
        self.built = True

    def _add_matrix(self, shape, name, index):
        initializer = derive_initializer(self.embeddings_initializer, index)
        return self.add_weight(shape, initializer, name=name)

    def set_linear(self, linear: bool) -> None:
        """Removes the softmax over memories (True) or inserts it again (False).

        A compiled model follows without being traced again. Without the softmax a memory's
        weight is its score. `LinearStart` calls this method during `fit`.
        """
        if not self.built:
            raise ValueError(
                "MemoryHops.set_linear needs a built layer: call it once before, or pass "
                f"`linear_start`. Received: built={self.built}"
            )
        self.linear.assign(bool(linear))

    def is_linear(self) -> bool:
        """Returns whether the softmax is removed."""
        return bool(ops.convert_to_numpy(self.linear))

    def call(
        self,
        story_ids: Tensor,
        question_ids: Tensor | None = None,
        return_logits: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Outputs:
        self._check_inputs(story_ids, question_ids, return_logits)
        if len(story_ids.shape) == 2:
            story_ids = ops.expand_dims(story_ids, 2)
        keys, values, mask = self._memories(story_ids, training)
        state = self._question(story_ids, question_ids)
        weights = []
        for key, value in zip(keys, values, strict=True):
            state, hop_weights = self._hop(state, key, value, mask, training)
            weights.append(hop_weights)
        logits = self._logits(state) if return_logits else None
        if return_attention_scores:
            weights = ops.stack(weights, axis=1)[:, :, : get_shape(story_ids)[1]]
        return select_outputs(state, (return_logits, logits), (return_attention_scores, weights))

    def _memories(self, story_ids, training):
        """Returns the keys and values of each hop, and the mask of the memories."""
        mask = ops.any(story_ids != 0, axis=2)
        encoded = [self._encode(table, story_ids) for table in self.tables]
        if self.max_memories is not None:
            mask = ops.logical_and(mask, encoding.memory_ages(mask) < self.max_memories)
            age, empty_age, empty = encoding.memory_ages(mask), None, None
            if training and self.empty_memory_rate > 0:
                age, empty_age, empty = encoding.insert_empty_memories(
                    mask, self.empty_memory_rate, self.seed_generator
                )
            encoded = [
                encoding.add_temporal_rows(memories, self._cast(rows), age, empty_age)
                for memories, rows in zip(encoded, self.temporal, strict=True)
            ]
            mask = mask if empty is None else ops.concatenate([mask, empty], axis=1)
        encoded = [ops.where(mask[:, :, None], memories, 0) for memories in encoded]
        if self.weight_tying == "adjacent":
            return encoded[:-1], encoded[1:], mask
        return encoded[:1] * self.num_hops, encoded[1:] * self.num_hops, mask

    def _question(self, story_ids, question_ids):
        if question_ids is None:
            shape = (get_shape(story_ids)[0], self.units)
            return ops.full(shape, CONSTANT_QUERY, dtype=self.compute_dtype)
        table = self.tables[0] if self.weight_tying == "adjacent" else self.question_table
        return self._encode(table, question_ids)

    def _hop(self, state, key, value, mask, training):
        scores = ops.einsum("bd,bmd->bm", state, key)
        weights = self._normalize(scores, mask, training)
        linear = ops.convert_to_tensor(self.linear)
        # Masked memories are zeros, and so are their scores.
        weights = ops.where(linear, scores, ops.cast(weights, scores.dtype))
        if self.weight_tying == "layer_wise":
            state = ops.einsum("bd,de->be", state, self._cast(self.hop_kernel))
        state = state + ops.einsum("bm,bmd->bd", weights, value)
        return state if self.activation is None else self.activation(state), weights

    def _normalize(self, scores, mask, training):
        """Returns the weights of the memories, beside the empty ones that fill up the rest."""
        if not self.pad_to_max_memories:
            return self.normalizer(scores, mask=mask, training=training)
        batch, memories = get_shape(scores)
        taken = ops.sum(ops.cast(mask, "int32"), axis=1, keepdims=True)
        empty = ops.arange(self.max_memories, dtype="int32") >= taken
        scores = ops.concatenate([scores, ops.zeros((batch, self.max_memories), scores.dtype)], 1)
        mask = ops.concatenate([mask, empty], axis=1)
        return self.normalizer(scores, mask=mask, training=training)[:, :memories]

    def _logits(self, state):
        """Returns `C^K u`: the null word's row is 0, as in the story."""
        logits = ops.einsum("bd,vd->bv", state, self._cast(self.tables[-1]))
        word = ops.arange(self.vocabulary_size) != 0
        return ops.where(word, ops.cast(logits, wide_dtype(self.compute_dtype)), 0)

    def _encode(self, table, ids):
        weights = encoding.position_weights(
            ids != 0, self.units, self.position_encoding, wide_dtype(self.compute_dtype)
        )
        return encoding.encode_sentences(self._cast(table), ids, weights)

    def _cast(self, variable):
        return ops.cast(variable, self.compute_dtype)

    def _check_inputs(self, story_ids, question_ids, return_logits):
        owner = "MemoryHops"
        if return_logits and self.weight_tying != "adjacent":
            raise ValueError(
                f"{owner} has an answer matrix, W^T = C^K, only with weight_tying='adjacent'. "
                f"Apply a `keras.layers.Dense` to the state. "
                f"Received: weight_tying={self.weight_tying!r}"
            )
        is_layer_wise = self.built and self.weight_tying == "layer_wise"
        if is_layer_wise and question_ids is not None and self.question_table is None:
            raise ValueError(
                f"{owner} with weight_tying='layer_wise' was built without a question and has no "
                "embeddings for one. Pass `question_ids` in the first call. "
                f"Received: question_ids.shape={tuple(question_ids.shape)}"
            )
        question_shape_or_none = None if question_ids is None else question_ids.shape
        self._check_shapes(story_ids.shape, question_shape_or_none)
        validation.check_ids_in_vocabulary(owner, "story_ids", story_ids, self.vocabulary_size)
        if question_ids is not None:
            validation.check_ids_in_vocabulary(
                owner, "question_ids", question_ids, self.vocabulary_size
            )

    def _check_shapes(self, story_shape, question_shape):
        owner, story_shape = "MemoryHops", tuple(story_shape)
        axes = "(batch, memories, words) or (batch, memories)"
        validation.check_axes(owner, "story_ids", story_shape, axes, known_width=False)
        if question_shape is not None:
            axes = "(batch, words)"
            validation.check_axes(owner, "question_ids", question_shape, axes, known_width=False)
            validation.check_same_size(owner, 0, story_ids=story_shape, question_ids=question_shape)

    def compute_mask(self, *args: Mask, **kwargs: Mask) -> Mask:
        return None

    def compute_output_shape(
        self, story_ids_shape: Shape, question_ids_shape: Shape | None = None
    ) -> OutputShape:
        self._check_shapes(story_ids_shape, question_ids_shape)
        return (story_ids_shape[0], self.units)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        self._check_inputs(call.story_ids, call.question_ids, call.return_logits)
        batch, memories = tuple(call.story_ids.shape)[:2]
        state = keras.KerasTensor((batch, self.units), self.compute_dtype)
        shape = (batch, self.vocabulary_size)
        logits = call.return_logits, keras.KerasTensor(shape, wide_dtype(self.compute_dtype))
        shape = (batch, self.num_hops, memories)
        weights = call.return_attention_scores, keras.KerasTensor(shape, self.compute_dtype)
        return select_outputs(state, logits, weights)

    def get_config(self) -> Config:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "units": self.units,
            "num_hops": self.num_hops,
            "weight_tying": self.weight_tying,
            "position_encoding": self.position_encoding,
            "max_memories": self.max_memories,
            "empty_memory_rate": self.empty_memory_rate,
            "linear_start": self.linear_start,
            "activation": self.activation and activations.serialize(self.activation),
            "normalizer": serialize(self.normalizer),
            "embeddings_initializer": initializers.serialize(self.embeddings_initializer),
            "seed": self.seed,
            "pad_to_max_memories": self.pad_to_max_memories,
        }
