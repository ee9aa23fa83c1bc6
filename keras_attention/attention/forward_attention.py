"""Forward attention with a transition agent, Zhang et al. 2018 (https://arxiv.org/abs/1807.06736).

    a'_t(n) = ((1 - u_{t-1}) a_{t-1}(n) + u_{t-1} a_{t-1}(n - 1)) y_t(n),  y_t = softmax(e_t)
    a_t(n)  = a'_t(n) / sum_m a'_t(m)
    c_t     = sum_n a_t(n) x_n
    u_t     = sigmoid(v . tanh(W [c_t; q_t] + b) + b_u),  u_0 = 1/2

Code name -> paper name: `query` -> q_t, `value` -> x, `weights` -> a_t, `context` -> c_t,
`transition` -> u. The agent of the paper also gets the previous output o_{t-1}; here it reaches the
agent through the query, the state of the decoder. The first formula is that of
`keras_attention.normalizers.forward`.
"""

from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import scorers, validation
from keras_attention._utils.dtypes import at_least_float32, wide_dtype
from keras_attention._utils.initializers import derive_initializer
from keras_attention._utils.loop import run_loop
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Shape,
    Size,
    TensorDict,
)
from keras_attention.attention._apply_dense import apply_dense
from keras_attention.attention.base import AttentionMechanism
from keras_attention.normalizers._masking import mask_scores
from keras_attention.normalizers.forward import forward_step, smallest_weight
from keras_attention.scorers.base import Scorer

INITIAL_TRANSITION = 0.5


@keras.saving.register_keras_serializable(package="keras_attention")
class ForwardAttention(AttentionMechanism):
    """Attention that stays on a key or moves to the next one, at a speed that an agent selects.

    Use it if source and target are in the same order and no key may be skipped, as in speech
    synthesis. Without the agent, which weighs staying and moving equally, it is
    `Attention(scorer, normalizer="forward")`. `AttentionRNN` carries the previous weights and the
    transition. In a direct call without `previous_weights` the queries are steps in time: each
    starts from the weights of the query before, the first from key 0.

    Args:
        scorer: A `Scorer`, or the name of one without required arguments; see `Attention`.
        units: Positive int, the width of the hidden layer of the agent.
        kernel_initializer: Initializer of both kernels of the agent.

    Call arguments: those of every mechanism, see `AttentionMechanism`: `query`, `value`,
        `key=None`, the masks, `return_attention_scores`, `previous_weights`. With
        `previous_weights`, each query is one step from its own weights and a transition of 1/2.

    Returns:
        The context `(batch, query, value_dim)`, or the pair of context and weights
        `(batch, query, key)` if `return_attention_scores`.

    State of steps: `transition` `(batch, query, 1)`, at least float32, beside the weights.

    Raises:
        ValueError: If `units` is not a positive int, or the tensors do not fit together.

    Masking: as in every mechanism; masked keys are skipped, and a fully masked query leaves the
        position unchanged.

    Example:

    >>> attention = ForwardAttention("general", units=8)
    >>> states, annotations = keras.ops.ones((2, 3, 6)), keras.ops.ones((2, 5, 4))
    >>> context, weights = attention(states, annotations, return_attention_scores=True)
    >>> [float(weight) for weight in weights[0, 0]]  # stay on the first key, or move on
    [0.5, 0.5, 0.0, 0.0, 0.0]

    Reference: Zhang et al. 2018, https://arxiv.org/abs/1807.06736.
    """

    def __init__(
        self,
        scorer: str | Scorer | Config,
        units: int,
        kernel_initializer: Initializer = "glorot_uniform",
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        owner = "ForwardAttention"
        validation.refuse_arguments(owner, kwargs, "normalizer", "dropout", "seed")
        super().__init__("forward", **kwargs)
        self.scorer: Scorer = scorers.get(scorer, dtype=self.dtype_policy)
        self.units: int = validation.check_positive_int(owner, "units", units)
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        super().build(query_shape, value_shape, key_shape)
        hidden, last = (derive_initializer(self.kernel_initializer, index) for index in range(2))
        width = value_shape[-1] + query_shape[-1]
        self.hidden_kernel: keras.Variable = self.add_weight(
            (width, self.units), hidden, name="hidden_kernel"
        )
        self.hidden_bias: keras.Variable = self.add_weight(
            (self.units,), "zeros", name="hidden_bias"
        )
        # A column vector, so that initializers based on fan-in see (units, 1).
        self.vector: keras.Variable = self.add_weight((self.units, 1), last, name="vector")
        self.bias: keras.Variable = self.add_weight((1,), "zeros", name="bias")

    def _check_shapes(self, query_shape, value_shape, key_shape):
        super()._check_shapes(query_shape, value_shape, key_shape)
        validation.check_built_dims(self, query=query_shape, value=value_shape)

    def state_sizes(self, num_keys: Size | None) -> dict[str, Size | None]:
        return {"transition": 1}

    def initial_state(self, batch: Size, num_keys: Size) -> TensorDict:
        dtype = wide_dtype(self.compute_dtype)
        return {"transition": ops.full((batch, 1), INITIAL_TRANSITION, dtype)}

    def _read_scores(self, scores, query, value, request):
        mask = self._score_mask(scores, request)
        scores = mask_scores(at_least_float32(scores), mask)
        if request.state is None and request.previous_weights is None:
            return *self._attend_in_time(scores, query, value, mask), {}
        transition = (request.state or {}).get("transition", INITIAL_TRANSITION)
        previous = ops.cast(request.previous_weights, scores.dtype)
        context, weights, transition = self._step(scores, query, value, previous, transition)
        return context, weights, {} if request.state is None else {"transition": transition}

    def _step(self, scores, query, value, previous, transition):
        """Returns contexts, weights and the new transitions: one step for each query."""
        min_weight = smallest_weight(self.compute_dtype)
        weights = forward_step(scores, previous, transition, min_weight)
        weights = ops.cast(weights, self.compute_dtype)
        context = ops.matmul(weights, value)
        inputs = ops.concatenate([context, query], axis=-1)
        hidden = ops.tanh(apply_dense(inputs, self.hidden_kernel, self.hidden_bias))
        transition = ops.sigmoid(apply_dense(hidden, self.vector, self.bias))
        return context, weights, ops.cast(transition, scores.dtype)

    def _attend_in_time(self, scores, query, value, mask):
        """Returns contexts and weights of queries that are steps in time."""
        (batch, _, num_keys), query_dim = get_shape(scores), query.shape[-1]

        def step(inputs, states):
            query, scores = inputs[:, None, :query_dim], inputs[:, None, query_dim:]
            query = ops.cast(query, self.compute_dtype)
            previous, transition = (state[:, None] for state in states)
            results = self._step(scores, query, value, previous, transition)
            context, weights, transition = (result[:, 0] for result in results)
            return (context, weights), [ops.cast(weights, scores.dtype), transition]

        weights = self.initial_weights(batch, num_keys)
        (transition,) = self.initial_state(batch, num_keys).values()
        initial = [ops.cast(one, scores.dtype) for one in (weights, transition)]
        valid = None if mask is None else ops.any(mask, axis=-1)
        sequence = ops.concatenate([ops.cast(query, scores.dtype), scores], axis=-1)
        return run_loop(step, sequence, initial, mask=valid)[0]

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "scorer": keras.saving.serialize_keras_object(self.scorer),
            "units": self.units,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
        }
