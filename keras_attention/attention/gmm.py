"""GMM attention, Graves 2013 (https://arxiv.org/abs/1308.0850), equations 46 to 51, with the
stable forms of Battenberg et al. 2020 (https://arxiv.org/abs/1910.10288), table 1.

    (w^, d^, s^) = V tanh(W q_i + b) + c                          or a linear map of q_i
    m_i  = m_{i-1} + d_i                                          the means, 0 before the first step
    a_ij = sum_k w_ik / Z_ik exp(-(j - m_ik)^2 / (2 s_ik^2))      j = 1, 2, ...

    version    w            Z                  d              s
    "v0"       exp w^       1                  exp d^         sqrt(exp(-s^) / 2)      Graves
    "v1"       softmax w^   sqrt(2 pi s^2)     exp d^         sqrt(exp s^)
    "v2"       softmax w^   sqrt(2 pi s^2)     softplus d^    softplus s^

Code name -> symbol: `query` -> q, `means` -> m (Graves: kappa), `steps` -> d, `widths` -> s,
`amplitudes` -> w / Z. Our additions: arguments of `exp` are clipped to [-8, 8], and s to at least
1e-3.
"""

import math
from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import validation
from keras_attention._utils.dtypes import wide_dtype
from keras_attention._utils.initializers import derive_initializer
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Shape,
    Size,
    Tensor,
    TensorLike,
)
from keras_attention.attention._apply_dense import apply_dense
from keras_attention.attention._request import refuse_attention_bias
from keras_attention.attention.base import AttentionMechanism
from keras_attention.normalizers.softmax import masked_softmax
from keras_attention.scorers import UniformScorer

VERSIONS = ("v0", "v1", "v2")
MAX_EXPONENT = 8.0  # float16 can hold the sum of a few exponentials
MIN_WIDTH = 1e-3  # far below the distance of two keys


def mixture_parameters(projected: TensorLike, version: str) -> tuple[Tensor, Tensor, Tensor]:
    """Returns amplitudes `w / Z`, steps d and widths s, each `(..., mixtures)`.

    Args:
        projected: Float tensor `(..., 3 * mixtures)`: w^, d^ and s^.
        version: "v0", "v1" or "v2".
    """
    amplitudes, steps, widths = ops.split(projected, 3, axis=-1)
    if version == "v0":
        return _exp(amplitudes), _exp(steps), ops.maximum(_exp(-widths / 2) / 2**0.5, MIN_WIDTH)
    if version == "v1":
        steps, widths = _exp(steps), _exp(widths / 2)
    else:
        steps, widths = ops.softplus(steps), ops.softplus(widths)
    widths = ops.maximum(widths, MIN_WIDTH)
    return masked_softmax(amplitudes, None) / (math.sqrt(2 * math.pi) * widths), steps, widths


def _exp(exponent):
    return ops.exp(ops.clip(exponent, -MAX_EXPONENT, MAX_EXPONENT))


def mixture_weights(
    amplitudes: TensorLike, means: TensorLike, widths: TensorLike, num_keys: Size
) -> Tensor:
    """Returns the weights `(..., key)` of keys 1, 2, ... from parameters `(..., mixtures)`."""
    positions = ops.cast(ops.arange(1, num_keys + 1), means.dtype)[:, None]
    distances = (positions - means[..., None, :]) / widths[..., None, :]
    return ops.sum(amplitudes[..., None, :] * ops.exp(-0.5 * ops.square(distances)), axis=-1)


@keras.saving.register_keras_serializable(package="keras_attention")
class GMMAttention(AttentionMechanism):
    """Attention through a mixture of Gaussians whose means only move forward.

    Use it if source and target are long and in the same order, as in handwriting and speech
    synthesis: the query selects how far to move, no key is compared, and the alignment does not
    depend on the length of the source. `AttentionRNN` carries the means. In a direct call the
    queries are steps in time: each starts from the means of the query before, the first from 0,
    the place before the first key. It needs `query * key * num_mixtures` memory.

    Args:
        num_mixtures: Positive int, the number of Gaussians.
        version: "v0" has the functions of Graves, whose weights have any sum: in float16, their
            contexts may overflow. "v1" and "v2" have weights that sum to about 1 while the
            Gaussians lie inside of the source; "v2" learns most stably.
        units: Positive int, the width of a hidden tanh layer between query and parameters. None
            is a linear map, as in Graves.
        initial_step: Positive number, the step of every mean for a zero query before training.
            None leaves the biases at 0.
        initial_width: Positive number, likewise the standard deviation of every Gaussian.
            Battenberg et al. recommend a step of 1 and a width of 10 for "v1" and "v2".
        dropout: Float in [0, 1), the fraction of weights dropped while training.
        kernel_initializer: Initializer of the projections.
        seed: Optional int, the seed of the dropout.

    Call arguments: those of every mechanism, see `AttentionMechanism`: `query`, `value`,
        `key=None`, the masks, `return_attention_scores`, `training`, `use_causal_mask`. Of the
        keys only their number is used. It has no scores, so it refuses `attention_bias`.

    Returns:
        The context `(batch, query, value_dim)`, or the pair of context and weights
        `(batch, query, key)` if `return_attention_scores`.

    State of steps: `means` `(batch, query, num_mixtures)`, at least float32.

    Raises:
        ValueError: If an argument is not as above, or the tensors do not fit together.

    Masking: as in every mechanism; masked keys count as positions, and weights are not
        renormalized. A fully masked query does not move the means.

    Example:

    >>> attention = GMMAttention(num_mixtures=2, initial_step=1.0, initial_width=0.25)
    >>> states, annotations = keras.ops.zeros((1, 3, 6)), keras.ops.ones((1, 4, 5))
    >>> context, weights = attention(states, annotations, return_attention_scores=True)
    >>> [int(keras.ops.argmax(row)) for row in weights[0]]  # one key further at every step
    [0, 1, 2]

    Reference: Graves 2013, https://arxiv.org/abs/1308.0850, section 5.1; Battenberg et al. 2020,
    https://arxiv.org/abs/1910.10288, table 1.
    """

    def __init__(
        self,
        num_mixtures: int,
        version: str = "v2",
        units: int | None = None,
        initial_step: float | None = None,
        initial_width: float | None = None,
        dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        owner = "GMMAttention"
        validation.refuse_arguments(owner, kwargs, "normalizer")
        super().__init__(dropout=dropout, seed=seed, **kwargs)
        self.num_mixtures: int = validation.check_positive_int(owner, "num_mixtures", num_mixtures)
        self.version: str = validation.check_one_of(owner, "version", version, VERSIONS)
        self.units: int | None = (
            units if units is None else validation.check_positive_int(owner, "units", units)
        )
        self.initial_step: float | None = initial_step
        self.initial_width: float | None = initial_width
        for name in ("initial_step", "initial_width"):
            if getattr(self, name) is not None:
                validation.check_number_in_range(
                    owner, name, getattr(self, name), 0, exclude_low=True
                )
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)
        self.scorer: UniformScorer = UniformScorer(dtype=self.dtype_policy)

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        super().build(query_shape, value_shape, key_shape)
        hidden, last = (derive_initializer(self.kernel_initializer, index) for index in range(2))
        width, size = query_shape[-1], 3 * self.num_mixtures
        if self.units is not None:
            self.hidden_kernel: keras.Variable = self.add_weight(
                (width, self.units), hidden, name="hidden_kernel"
            )
            self.hidden_bias: keras.Variable = self.add_weight(
                (self.units,), "zeros", name="hidden_bias"
            )
            width = self.units
        self.kernel: keras.Variable = self.add_weight((width, size), last, name="kernel")
        self.bias: keras.Variable = self.add_weight((size,), self._make_initial_bias, name="bias")

    def _make_initial_bias(self, shape, dtype=None):
        """Returns the bias for which `initial_step` and `initial_width` are the parameters."""
        step, width = self.initial_step, self.initial_width
        if self.version == "v2":
            step, width = (one and one + math.log(-math.expm1(-one)) for one in (step, width))
        else:
            sign, shift = (-2, -math.log(2)) if self.version == "v0" else (2, 0.0)
            step, width = step and math.log(step), width and sign * math.log(width) + shift
        return ops.repeat(ops.cast([0.0, step or 0.0, width or 0.0], dtype), self.num_mixtures)

    def state_sizes(self, num_keys: Size | None) -> dict[str, Size | None]:
        return {"means": self.num_mixtures}

    def _compute_context(self, query, prepared, request):
        num_queries, num_keys = get_shape(query)[1], get_shape(prepared["mask"])[1]
        if self.units is not None:
            query = ops.tanh(apply_dense(query, self.hidden_kernel, self.hidden_bias))
        projected = apply_dense(query, self.kernel, self.bias)
        projected = ops.cast(projected, wide_dtype(self.compute_dtype))
        amplitudes, steps, widths = mixture_parameters(projected, self.version)
        valid = request.find_attending_queries(num_queries, num_keys)
        if valid is not None:
            steps = ops.where(valid[:, :, None], steps, 0)
        if request.state is None:
            means = ops.cumsum(steps, axis=1)
        else:
            means = ops.cast(request.state["means"], steps.dtype) + steps
        weights = mixture_weights(amplitudes, means, widths, num_keys)
        mask = request.mask(num_queries, num_keys)
        if mask is not None:
            weights = ops.where(mask, weights, 0)
        weights = ops.cast(weights, self.compute_dtype)
        context = ops.matmul(self._apply_dropout(weights, request), prepared["value"])
        return context, weights, {} if request.state is None else {"means": means}

    def _check_shapes(self, query_shape, value_shape, key_shape):
        super()._check_shapes(query_shape, value_shape, key_shape)
        validation.check_built_dims(self, query=query_shape)

    def _check_bias(self, query, num_keys, attention_bias):
        refuse_attention_bias("GMMAttention", attention_bias)

    def get_config(self) -> Config:
        names = ("num_mixtures", "version", "units", "initial_step", "initial_width")
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in names},
            "dropout": self.dropout,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "seed": self.seed,
        }
