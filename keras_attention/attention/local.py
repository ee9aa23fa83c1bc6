"""Local attention, Luong et al. 2015 (https://arxiv.org/abs/1508.04025), section 3.2.

    window  [p_t - D, p_t + D], clipped to the source
    local-m p_t = t
    local-p p_t = S sigmoid(v_p . tanh(W_p h_t))                            equation 9
            a_t(s) = align(h_t, hs_s) exp(-(s - p_t)^2 / (2 sigma^2))       equation 10
            sigma = D / 2

Code name -> paper name: `query` -> h_t, `value` -> hs_s, `window` -> 2 D + 1, `radius` -> D,
`position_kernel` -> W_p, transposed, `position_vector` -> v_p, `weights` -> a_t. align is the
normalizer (a softmax) over the window. S is the index of the last unmasked position plus 1.
The window is centered at floor(p_t), at most S - 1. The Gaussian uses p_t itself, which gives
W_p and v_p their gradients. In local-m p_t is at most S - 1, too.
"""

from typing import Unpack

import keras
from keras import initializers, ops

from keras_attention import scorers, validation
from keras_attention._utils.dtypes import at_least_float32, wide_dtype
from keras_attention._utils.masked_sequences import last_valid_position
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import (
    Config,
    Initializer,
    InitializerFunction,
    LayerOptions,
    Shape,
    Size,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.attention._windows import Windows, window_radius
from keras_attention.attention.base import AttentionMechanism
from keras_attention.kernels import blocks, execution_mode
from keras_attention.normalizers.base import Normalizer
from keras_attention.scorers.base import Scorer

MODES = ("monotonic", "predictive")
POSITION_RANGES = ("paper", "inside")
MIN_CHUNK = 16  # queries that share a span if the window is smaller than this
#: The dense form, which scores every key, is faster where the source has fewer keys than this many
#: spans: gathering the keys of a span takes longer than scoring as many. A span of one query costs
#: most, as it is gathered for each; eagerly, every operation has a price of its own.
DENSE_SPANS = {"eager": 24, "graph": 24, "xla": 12}  # of one query
DENSE_SHARED_SPANS = {"eager": 8, "graph": 2, "xla": 1.5}
#: Eagerly, so few dot products take less time than the operations that gather keys: the scores,
#: and the products of all of them.
FEW_SCORES, FEW_PRODUCTS = 2**18, 2**26
MAX_DENSE_SCORES = 2**24  # beyond, 64 MB, the dense form would take too much memory
TINY = 1e-9  # lower bound of the sum of weights, below the sum for any unmasked key


def predicted_positions(
    query: TensorLike, kernel: TensorLike, vector: TensorLike, lengths: TensorLike
) -> Tensor:
    """Returns p_t, real numbers `(batch, query)` between 0 and `lengths` `(batch, 1)`."""
    hidden = ops.tanh(ops.einsum("bqd,du->bqu", query, kernel))
    return lengths * ops.sigmoid(ops.einsum("bqu,u->bq", hidden, vector))


def gaussian(keys: TensorLike, positions: TensorLike, stddev: float) -> Tensor:
    """Returns `exp(-(s - p_t)^2 / (2 stddev^2))`, the tensors broadcast."""
    return ops.exp(-ops.square((keys - positions) / stddev) / 2)


@keras.saving.register_keras_serializable(package="keras_attention")
class LocalAttention(AttentionMechanism):
    """Attention to a window of the source, around a moving or predicted position.

    Use it for long sources: time and memory depend on the window, not on the source. It suits
    tasks where target and source are in the same order, such as transliteration, speech and
    summaries. A scorer that needs all keys at once (`LocationScorer`, or one that uses earlier
    weights) and a normalizer that uses earlier weights use the dense form, whose cost depends on
    the source.

    Args:
        window: Odd int, the number of positions in the window, the paper's 2 D + 1. It may
            be wider than the source.
        mode: "monotonic" (local-m) centers the window of query t at source position t;
            "predictive" (local-p) predicts a position from the query and favors keys near it.
        scorer: A `Scorer` or the name of one, as in `Attention`.
        units: Positive int, the hidden size of the predictor; None is the width of the
            query, as in the paper. Only with mode "predictive".
        position_range: "paper" predicts between 0 and S, "inside" between 0 and S - 1, as
            the authors' code does.
        renormalize: Whether to scale the weights to a sum of 1 after the Gaussian; in the
            paper they sum to less. Only with mode "predictive".
        normalizer: A `Normalizer` or its name, applied inside the window.
        dropout: Float in [0, 1), the fraction of weights dropped while training.
        kernel_initializer: Initializer of W_p.
        vector_initializer: Initializer of v_p.
        seed: Optional int, the seed of the dropout.

    Call arguments: those of every mechanism, see `AttentionMechanism`. `position_offset` is t
        of the first query. Gaps in a mask do not change positions, which count all keys up to
        the last unmasked one.

    Returns:
        The context `(batch, query, value_dim)`, followed by the requested outputs: the weights
        `(batch, query, key)`, 0 outside of the window, and the auxiliary outputs: with mode
        "predictive" `position` `(batch, query)`, the p_t.

    Raises:
        ValueError: If `window` is even or too small, an argument does not apply to `mode`, or
            the tensors do not fit together.

    Example:

    >>> attention = LocalAttention(window=3, scorer="dot")
    >>> values = keras.ops.ones((1, 5, 4))
    >>> context, weights = attention(values, values, return_attention_scores=True)
    >>> [float(weight) for weight in weights[0, 0]]
    [0.5, 0.5, 0.0, 0.0, 0.0]

    Reference: Luong et al. 2015, https://arxiv.org/abs/1508.04025, section 3.2.
    """

    def __init__(
        self,
        window: int,
        mode: str = "monotonic",
        scorer: str | Scorer | Config = "general",
        units: int | None = None,
        position_range: str = "paper",
        renormalize: bool = False,
        normalizer: str | Normalizer | Config = "softmax",
        dropout: float = 0.0,
        kernel_initializer: Initializer = "glorot_uniform",
        vector_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(normalizer, dropout, seed, **kwargs)
        owner = "LocalAttention"
        self.mode: str = validation.check_one_of(owner, "mode", mode, MODES)
        # With a window of one position the Gaussian would have a standard deviation of 0.
        self.radius: int = window_radius(owner, window, minimum=3 if mode == "predictive" else 1)
        self.window = window
        self.scorer: Scorer = scorers.get(scorer, dtype=self.dtype_policy)
        if mode == "monotonic" and (units is not None or renormalize):
            raise ValueError(
                f"{owner} uses `units` and `renormalize` only with mode='predictive'. "
                f"Received: mode='monotonic', units={units!r}, renormalize={renormalize!r}"
            )
        self.units: int | None = (
            units if units is None else validation.check_positive_int(owner, "units", units)
        )
        self.position_range: str = validation.check_one_of(
            owner, "position_range", position_range, POSITION_RANGES
        )
        self.renormalize = renormalize
        self.kernel_initializer: InitializerFunction = initializers.get(kernel_initializer)
        self.vector_initializer: InitializerFunction = initializers.get(vector_initializer)

    @property
    def auxiliary_outputs(self) -> tuple[str, ...]:
        """Names of the outputs besides context and weights."""
        return ("position",) if self.mode == "predictive" else ()

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        super().build(query_shape, value_shape, key_shape)
        if self.mode == "predictive":
            units = self.units or query_shape[-1]
            self.position_kernel: keras.Variable = self.add_weight(
                (query_shape[-1], units), self.kernel_initializer, name="position_kernel"
            )
            # A column vector, so that initializers based on fan-in see (units, 1).
            self.position_vector: keras.Variable = self.add_weight(
                (units, 1), self.vector_initializer, name="position_vector"
            )

    def noise(
        self, batch: Size, num_queries: Size, num_keys: Size, training: bool | None = None
    ) -> TensorDict:
        # One number per place in the window is enough, unless every key is scored anyway.
        return super().noise(
            batch, num_queries, self.window if self._gathers_windows else num_keys, training
        )

    def _compute_context(self, query, prepared, request):
        batch, num_queries = get_shape(query)[:2]
        num_keys = get_shape(prepared["value"])[1]
        last = last_valid_position(request.source_mask, batch, num_keys)
        if self.mode == "predictive":
            position = self._predict_positions(query, last, request)
            centers = ops.cast(ops.floor(ops.stop_gradient(position)), "int32")
        else:
            position, centers = None, request.positions(num_queries)
        centers = ops.broadcast_to(ops.minimum(centers, last), (batch, num_queries))
        # One decoder step has few queries, so their windows fit into memory.
        is_step = query.shape[1] == 1 or _has_query_positions(request)
        chunk = self._choose_chunk(num_queries, request)

        def attend(chunk):
            gather_in_blocks = chunk == 1 and not is_step
            windows = Windows(centers, self.radius, num_keys, chunk, gather_in_blocks)
            inner = windows.localize_request(request, noise_by_offset=self._gathers_windows)
            previous = None if self._gathers_windows else request.previous_weights
            scores = windows.scores(self.scorer, query, prepared["key"], previous)
            if inner.attention_bias is not None:
                scores = inner.add_bias(scores)
            weights = self.compute_weights(scores, inner)
            if position is not None:
                weights = self._weight_by_gaussian(weights, windows, position)
            context = windows.context(self._apply_dropout(weights, inner), prepared["value"])
            if not request.return_attention_scores:
                return (context,)
            return context, windows.scatter_pairs(weights)

        results = blocks.smart_cond(
            self._should_score_all_keys(query, num_keys, chunk, is_step),
            lambda: attend(None),
            lambda: attend(chunk),
        )
        auxiliary_outputs = {} if position is None else {"position": ops.cast(position, "float32")}
        return results[0], results[1] if len(results) == 2 else None, auxiliary_outputs

    def _predict_positions(self, query, last, request):
        """Returns p_t of every query, `(batch, query)` in at least float32; 0 if masked."""
        # Rounded to the compute dtype, then widened: `call` and `attend` get the same numbers.
        query, kernel, vector = (
            ops.cast(ops.cast(tensor, self.compute_dtype), wide_dtype(self.compute_dtype))
            for tensor in (query, self.position_kernel, self.position_vector[:, 0])
        )
        lengths = ops.cast(last, wide_dtype(self.compute_dtype))
        if self.position_range == "paper":
            lengths = lengths + 1
        position = predicted_positions(query, kernel, vector, lengths)
        if request.query_mask is None:
            return position
        return ops.where(request.query_mask, position, 0)

    def _weight_by_gaussian(self, weights, windows, position):
        """Returns the weights times the Gaussian around p_t."""
        keys = ops.cast(windows.keys, wide_dtype(self.compute_dtype))
        position = windows.split_queries(position)[:, :, None]
        favored = at_least_float32(weights) * gaussian(keys, position, self.radius / 2)
        if self.renormalize:
            total = ops.sum(favored, axis=-1, keepdims=True)
            favored = favored / ops.maximum(total, TINY)
        return ops.cast(favored, self.compute_dtype)

    @property
    def _gathers_windows(self):
        """Whether scorer and normalizer work on a subset of the keys as on all of them."""
        scorer = self.scorer
        reads_weights = scorer.reads_weights is not None or self.normalizer.reads_weights
        return not (reads_weights or scorer.reads_positions)

    def _choose_chunk(self, num_queries, request):
        """Returns how many queries share a span of keys."""
        anywhere = self.mode == "predictive" or _has_query_positions(request)
        chunk = 1 if anywhere else max(self.window, MIN_CHUNK)
        return max(1, min(chunk, num_queries)) if isinstance(num_queries, int) else chunk

    def _should_score_all_keys(self, query, num_keys, chunk, is_step):
        """Returns whether the dense form is faster, a bool or, for unknown sizes, a tensor."""
        if not self._gathers_windows:
            return True
        mode, span = execution_mode.get_execution_mode(query), chunk + 2 * self.radius
        num_scores = blocks.count_values(*get_shape(query)[:2], num_keys)
        if not isinstance(num_scores, int):
            # XLA cannot differentiate a condition on sizes, and a decoding loop needs none.
            if is_step or mode == "xla":
                return isinstance(num_keys, int) and num_keys <= span
        spans = (DENSE_SPANS if chunk == 1 else DENSE_SHARED_SPANS)[mode]
        is_covered, is_near = num_keys <= span, num_keys <= spans * span
        is_small = num_scores <= MAX_DENSE_SCORES
        is_few = mode == "eager" and self._has_few_products(query, num_scores)
        return is_covered | is_few | (is_near & is_small)

    def _has_few_products(self, query, num_scores):
        is_few = num_scores <= FEW_SCORES and num_scores * query.shape[-1] <= FEW_PRODUCTS
        return is_few and self.scorer.query_for_dot(query) is not None

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            "window": self.window,
            "mode": self.mode,
            "scorer": keras.saving.serialize_keras_object(self.scorer),
            "units": self.units,
            "position_range": self.position_range,
            "renormalize": self.renormalize,
            "kernel_initializer": initializers.serialize(self.kernel_initializer),
            "vector_initializer": initializers.serialize(self.vector_initializer),
            **self.get_pieces_config(),
        }


def _has_query_positions(request):
    """Whether every query has its own position, as the beams of a step do."""
    return request.position is not None and len(request.position.shape) == 2
