"""Local attention, Luong et al. 2015 (https://arxiv.org/abs/1508.04025), section 3.2.

    window  [p_t - D, p_t + D], cut at the borders of the source
    local-m p_t = t
    local-p p_t = S sigmoid(v_p . tanh(W_p h_t))                            equation 9
            a_t(s) = align(h_t, hs_s) exp(-(s - p_t)^2 / (2 sigma^2))       equation 10
            sigma = D / 2

Code name -> paper name: `query` -> h_t, `value` -> hs_s, `window` -> 2 D + 1, `radius` -> D,
`position_kernel` -> W_p, transposed, `position_vector` -> v_p, `weights` -> a_t. align is the
normalizer (a softmax) over the window. S counts a row's positions up to its last kept one.
The window stands around floor(p_t), at most S - 1; the Gaussian uses p_t itself, which is how
W_p and v_p are trained. In local-m p_t is at most S - 1, too.
"""

import keras
from keras import initializers, ops

from keras_attention import checks, scorers
from keras_attention.mechanisms.base import AttentionMechanism
from keras_attention.mechanisms.windows import Windows, last_kept, radius_of
from keras_attention.precision import at_least_float32, wide_dtype

MODES = ("monotonic", "predictive")
RANGES = ("paper", "inside")
SMALLEST_CHUNK = 16  # queries that share a span, where the window is smaller than this
TINY = 1e-9  # renormalized weights of a row with a kept key sum to more


def predicted_positions(query, kernel, vector, lengths):
    """Returns p_t, real numbers `(batch, query)` between 0 and `lengths` `(batch, 1)`."""
    hidden = ops.tanh(ops.einsum("bqd,du->bqu", query, kernel))
    return lengths * ops.sigmoid(ops.einsum("bqu,u->bq", hidden, vector))


def gaussian(keys, positions, deviation):
    """Returns `exp(-(s - p_t)^2 / (2 deviation^2))`, the tensors broadcast."""
    return ops.exp(-ops.square((keys - positions) / deviation) / 2)


@keras.saving.register_keras_serializable(package="keras_attention")
class LocalAttention(AttentionMechanism):
    """Attention to a window of the source, around a position that moves or is predicted.

    Use it for long sources, where it costs time and memory by the window, not by the source,
    and where query and source run side by side: transliteration, speech, summaries.
    A scorer that needs all keys at once (`LocationScorer`, or one that reads earlier weights)
    and a normalizer that reads earlier weights work too, in the dense form: by the source.

    Args:
        window: Odd int, the number of positions in the window, the paper's 2 D + 1. It may
            be wider than the source.
        mode: "monotonic" (local-m) puts query t at source position t; "predictive" (local-p)
            predicts a position from the query and prefers keys near it.
        scorer: A `Scorer` or the name of one, as in `Attention`.
        units: Positive int, the hidden size of the predictor; None is the width of the
            query, as in the paper. Only with mode "predictive".
        position_range: "paper" predicts between 0 and S, "inside" between 0 and S - 1, as
            the authors' code does.
        renormalize: Whether the weights are made to sum to 1 after the Gaussian; in the
            paper they sum to less. Only with mode "predictive".
        normalizer: A `Normalizer` or its name, applied inside the window.
        dropout: Float in [0, 1), the share of weights dropped while training.
        kernel_initializer: Initializer of W_p.
        vector_initializer: Initializer of v_p.
        seed: Optional int, the seed of the dropout.

    Call arguments: those of every mechanism, see `AttentionMechanism`. `query_position` is t
        of the first query. A mask with holes does not move positions: they count all
        keys up to the last kept one.

    Returns:
        The context `(batch, query, value_dim)`, followed by what was asked for: the weights
        `(batch, query, key)`, 0 outside of the window, and the details: with mode
        "predictive" `position` `(batch, query)`, the p_t.

    Raises:
        ValueError: If `window` is even or too small, an argument does not go with `mode`, or
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
        window,
        mode="monotonic",
        scorer="general",
        units=None,
        position_range="paper",
        renormalize=False,
        normalizer="softmax",
        dropout=0.0,
        kernel_initializer="glorot_uniform",
        vector_initializer="glorot_uniform",
        seed=None,
        **kwargs,
    ):
        super().__init__(normalizer, dropout, seed, **kwargs)
        owner = "LocalAttention"
        self.mode = checks.one_of(owner, "mode", mode, MODES)
        # A window of one position would leave the Gaussian without a width.
        self.radius = radius_of(owner, window, minimum=3 if mode == "predictive" else 1)
        self.window = window
        self.scorer = scorers.get(scorer, dtype=self.dtype_policy)
        if mode == "monotonic" and (units is not None or renormalize):
            raise ValueError(
                f"{owner} uses `units` and `renormalize` only with mode='predictive'. "
                f"Received: mode='monotonic', units={units!r}, renormalize={renormalize!r}"
            )
        self.units = units if units is None else checks.positive_int(owner, "units", units)
        self.position_range = checks.one_of(owner, "position_range", position_range, RANGES)
        self.renormalize = renormalize
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.vector_initializer = initializers.get(vector_initializer)

    @property
    def details(self):
        """Names of what a reading tells besides context and weights."""
        return ("position",) if self.mode == "predictive" else ()

    def build(self, query_shape, value_shape, key_shape=None):
        super().build(query_shape, value_shape, key_shape)
        if self.mode == "predictive":
            units = self.units or query_shape[-1]
            self.position_kernel = self.add_weight(
                (query_shape[-1], units), self.kernel_initializer, name="position_kernel"
            )
            # A column, so that an initializer that reads fans sees (units, 1).
            self.position_vector = self.add_weight(
                (units, 1), self.vector_initializer, name="position_vector"
            )

    def noise(self, batch, num_queries, num_keys, training=None):
        # One number a place in the window is enough, unless every key is scored anyway.
        return super().noise(
            batch, num_queries, self.window if self._gathers else num_keys, training
        )

    def _read(self, query, prepared, reading):
        batch, num_queries = ops.shape(query)[:2]
        num_keys = ops.shape(prepared["value"])[1]
        last = last_kept(reading.source_mask, batch, num_keys)
        if self.mode == "predictive":
            position = self._predicted(query, last, reading)
            centers = ops.cast(ops.floor(ops.stop_gradient(position)), "int32")
        else:
            position, centers = None, reading.positions(num_queries)
        centers = ops.broadcast_to(ops.minimum(centers, last), (batch, num_queries))
        chunk = self._chunk(num_queries, num_keys, reading)
        # A step, and the beams of one, are few queries: their windows fit.
        by_piece = chunk == 1 and query.shape[1] != 1 and not _one_by_one(reading)
        windows = Windows(centers, self.radius, num_keys, chunk, by_piece)
        inner = windows.reading(reading, noise_by_offset=self._gathers)
        previous = None if self._gathers else reading.previous_weights
        weights = self._weigh(windows.scores(self.scorer, query, prepared["key"], previous), inner)
        if position is not None:
            weights = self._favored(weights, windows, position)
        context = windows.context(self._dropped(weights, inner), prepared["value"])
        details = {} if position is None else {"position": ops.cast(position, "float32")}
        return context, windows.to_pairs(weights) if reading.wants_weights else None, details

    def _predicted(self, query, last, reading):
        """Returns p_t of every query, `(batch, query)` in at least float32; 0 where masked."""
        # Rounded to the compute dtype, then widened: the same numbers in and out of `call`.
        query, kernel, vector = (
            ops.cast(ops.cast(tensor, self.compute_dtype), wide_dtype(self.compute_dtype))
            for tensor in (query, self.position_kernel, self.position_vector[:, 0])
        )
        lengths = ops.cast(last, wide_dtype(self.compute_dtype))
        if self.position_range == "paper":
            lengths = lengths + 1
        position = predicted_positions(query, kernel, vector, lengths)
        if reading.query_mask is None:
            return position
        return ops.where(reading.query_mask, position, 0)

    def _favored(self, weights, windows, position):
        """Returns the weights times the Gaussian around p_t."""
        keys = ops.cast(windows.keys, wide_dtype(self.compute_dtype))
        position = windows.of_queries(position)[:, :, None]
        favored = at_least_float32(weights) * gaussian(keys, position, self.radius / 2)
        if self.renormalize:
            total = ops.sum(favored, axis=-1, keepdims=True)
            favored = favored / ops.maximum(total, TINY)
        return ops.cast(favored, self.compute_dtype)

    @property
    def _gathers(self):
        """Whether the pieces work on some of the keys as they do on all."""
        scorer = self.scorer
        reads_weights = scorer.reads_weights is not None or self.normalizer.reads_weights
        return not (reads_weights or scorer.reads_positions)

    def _chunk(self, num_queries, num_keys, reading):
        """Returns how many queries share a span of keys; None for the dense form."""
        anywhere = self.mode == "predictive" or _one_by_one(reading)
        chunk = 1 if anywhere else max(self.window, SMALLEST_CHUNK)
        if isinstance(num_queries, int):
            chunk = max(1, min(chunk, num_queries))
        covered = isinstance(num_keys, int) and num_keys <= chunk + 2 * self.radius
        return None if covered or not self._gathers else chunk

    def get_config(self):
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
            **self.pieces_config(),
        }


def _one_by_one(reading):
    """Whether every query has a position of its own, as the beams of a step do."""
    return reading.position is not None and len(reading.position.shape) == 2
