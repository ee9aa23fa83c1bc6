"""Windows: each query attends to keys near one position, in linear time and memory.

    query i attends to keys j with |j - c_i| <= radius,  c_i its center,  window = 2 radius + 1

Luong et al. 2015 (https://arxiv.org/abs/1508.04025), section 3.2, with radius D; Vaswani et al.
2017 (https://arxiv.org/abs/1706.03762), section 4, restricted self-attention. Queries are split
into chunks of `chunk`, and all windows of a chunk lie in one span of keys. Chunks are folded into
the batch axis, `rows = batch * chunks`, so that every scorer and normalizer works on
`(rows, chunk, ...)` and `(rows, span, ...)` as it does on whole sequences.
"""

import dataclasses
import functools

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.shapes import get_shape
from keras_attention.kernels.custom_gradients import custom_gradient
from keras_attention.kernels.window_products import WindowRows, window_dot, window_sum


def window_radius(owner: str, window, minimum: int = 1) -> int:
    """Returns the number of keys on each side of the center of an odd `window`."""
    validation.check_int_at_least(owner, "window", window, minimum)
    if window % 2 == 0:
        raise ValueError(
            f"{owner} expects `window` to be odd: it counts the center and the same number of "
            f"positions on either side. Use {window - 1} or {window + 1}. Received: window={window}"
        )
    return int(window) // 2


class Windows:
    """The positions of the windows of one call.

    Args:
        centers: Int32 tensor `(batch, query)`, c_i, between 0 and `num_keys - 1`.
        radius: Int.
        num_keys: Int or int tensor.
        chunk: Positive int, the number of queries that share a span. Their centers must be at
            most `chunk - 1` after the first one's. None is the dense form: all queries share
            all keys.
        gather_in_blocks: Whether to gather windows a few places at a time, for many queries with
            a chunk of 1.
    """

    def __init__(self, centers, radius, num_keys, chunk, gather_in_blocks=False):
        self.batch, self.num_queries = get_shape(centers)
        self.radius, self.num_keys, self.chunk = radius, num_keys, chunk
        self.gather_in_blocks = gather_in_blocks
        self.centers = self.split_queries(centers)[:, :, None]  # (rows, chunk, 1)
        if chunk is None:
            self.keys = ops.arange(num_keys, dtype="int32")[None, None, :]
            return
        # All spans have one static size for the compiler; places outside of the source are masked.
        self.first = self.centers[:, 0] - radius  # (rows, 1)
        span = ops.arange(chunk + 2 * radius, dtype="int32")
        self.keys = (self.first + span)[:, None, :]  # (rows, 1, span)

    def split_queries(self, tensor):
        """Returns `(batch, query, ...)` as `(rows, chunk, ...)`; the last chunk is zero-padded."""
        if self.chunk is None:
            return tensor
        rest = get_shape(tensor)[2:]
        chunks = -(-self.num_queries // self.chunk)
        missing = chunks * self.chunk - self.num_queries
        if not (isinstance(missing, int) and missing == 0):
            padding = ops.zeros((self.batch, missing, *rest), dtype=tensor.dtype)
            tensor = ops.concatenate([tensor, padding], axis=1)
        return ops.reshape(tensor, (-1, self.chunk, *rest))

    def gather_keys(self, tensor):
        """Returns `(batch, key, ...)` as `(rows, span, ...)`, the keys of each span."""
        if self.chunk is None:
            return tensor
        index = self._source()[:, None] * self.num_keys + self._clip_keys(self.keys[:, 0])
        return ops.take(ops.reshape(tensor, (-1, *get_shape(tensor)[2:])), index, axis=0)

    def scores(self, scorer, query, key, previous_weights=None):
        """Returns the scorer's scores of each span, `(rows, chunk, span)`."""
        query_for_dot = scorer.query_for_dot(query) if self.gather_in_blocks else None
        if query_for_dot is not None:
            return window_dot(
                _flatten_batch(query_for_dot), _flatten_batch(key), self._window_rows()
            )[:, None]
        key = keras.tree.map_structure(self.gather_keys, key)
        query = self.split_queries(query)
        scores = scorer.score(query, key, previous_weights)
        scorer.check_scores(scores, query, self.keys.shape[-1])
        return scores

    def context(self, weights, value):
        """Returns the contexts for weights `(rows, chunk, span)`, `(batch, query, value_dim)`."""
        if self.gather_in_blocks:
            sums = window_sum(weights[:, 0], _flatten_batch(value), self._window_rows())[:, None]
        else:
            sums = ops.matmul(weights, self.gather_keys(value))
        return self.merge_queries(sums)

    def _window_rows(self):
        return WindowRows(self.first[:, 0], self._source(), self.num_keys, 2 * self.radius + 1)

    def gather_pairs(self, tensor):
        """Returns `(batch, query, key)` as `(rows, chunk, span)`."""
        if self.chunk is None:
            return tensor
        return self._take_along_keys(self.split_queries(tensor), self._clip_keys(self.keys))

    def gather_offsets(self, tensor):
        """Returns `(batch, query, window)`, one entry per place in the window, by key."""
        index = ops.clip(self.keys - self.centers + self.radius, 0, 2 * self.radius)
        return self._take_along_keys(self.split_queries(tensor), index)

    def merge_queries(self, tensor):
        """Returns `(rows, chunk, ...)` as `(batch, query, ...)`: the inverse of `split_queries`."""
        if self.chunk is None:
            return tensor
        rest = get_shape(tensor)[2:]
        chunks = -(-self.num_queries // self.chunk)
        tensor = ops.reshape(tensor, (self.batch, chunks * self.chunk, *rest))
        return tensor[:, : self.num_queries]

    def scatter_pairs(self, tensor):
        """Returns `(rows, chunk, span)` as `(batch, query, key)`, 0 outside of the windows."""
        if self.chunk is None:
            return tensor
        tensor = self.merge_queries(tensor)
        first = self.merge_queries(
            ops.broadcast_to(self.first, (get_shape(self.first)[0], self.chunk))
        )
        return scatter_spans(tensor, first[:, :, None], self.num_keys)

    def localize_request(self, request, noise_by_offset):
        """Returns the request with masks and noise of shape `(rows, chunk, span)`.

        `noise_by_offset` is True if the noise is `(batch, query, window)`. For the dense form it
        may be False: `(batch, query, key)`.
        """
        noise, bias = request.noise, request.attention_bias
        if noise and noise_by_offset:
            noise = {name: self.gather_offsets(tensor) for name, tensor in noise.items()}
        if bias is not None:
            bias = ops.broadcast_to(bias, (self.batch, self.num_queries, self.num_keys))
            bias = self.gather_pairs(bias)
        return dataclasses.replace(
            request,
            source_mask=None,
            query_mask=None,
            attention_mask=self._window_mask(request),
            attention_bias=bias,
            use_causal_mask=False,
            position=None,
            noise=noise,
        )

    def _window_mask(self, request):
        """Returns all masks of the request and the windows, boolean `(rows, chunk, span)`."""
        batch, queries, keys = self.batch, self.num_queries, self.num_keys
        mask = ops.abs(self.keys - self.centers) <= self.radius
        mask = ops.logical_and(mask, self.keys == self._clip_keys(self.keys))
        if request.source_mask is not None:
            source = self.gather_keys(ops.broadcast_to(request.source_mask, (batch, keys)))
            mask = ops.logical_and(mask, source[:, None, :])
        if request.query_mask is not None:
            valid = self.split_queries(request.query_mask)
            mask = ops.logical_and(mask, valid[:, :, None])
        if request.attention_mask is not None:
            pairs = ops.broadcast_to(request.attention_mask, (batch, queries, keys))
            mask = ops.logical_and(mask, self.gather_pairs(pairs))
        if request.use_causal_mask:
            positions = ops.broadcast_to(request.positions(queries), (batch, queries))
            mask = ops.logical_and(mask, self.keys <= self.split_queries(positions)[:, :, None])
        return mask

    def _source(self):
        """Returns the batch element that each row belongs to, int32 `(rows,)`."""
        chunks = -(-self.num_queries // self.chunk)
        return ops.arange(get_shape(self.keys)[0], dtype="int32") // chunks

    def _clip_keys(self, keys):
        return ops.clip(keys, 0, self.num_keys - 1)

    def _take_along_keys(self, tensor, index):
        shape = (*get_shape(tensor)[:2], get_shape(index)[2])
        return ops.take_along_axis(tensor, ops.broadcast_to(index, shape), axis=2)


def scatter_spans(tensor, first, size):
    """Scatters `(batch, query, span)` into a last axis of `size`, from `first` on.

    Args:
        tensor: Float tensor `(batch, query, span)`; entries outside of `size` are dropped.
        first: Int32 `(batch, query, 1)`.
        size: Int or int tensor.
    """
    span = tensor.shape[2]

    @functools.partial(custom_gradient, reads_inputs_alone=True)
    def run(tensor):
        place = ops.arange(size, dtype="int32") - first

        def gradient(upstream):
            # Each entry has one destination: no sum, which would be slow under XLA.
            return _take_or_zero(upstream, first + ops.arange(span, dtype="int32"), size)

        return _take_or_zero(tensor, place, span), gradient

    return run(tensor)


def _take_or_zero(tensor, index, size):
    """Returns the entries of the last axis, of `size`, at `index`; 0 outside of it."""
    existing = ops.clip(index, 0, size - 1)
    return ops.where(index == existing, ops.take_along_axis(tensor, existing, axis=2), 0)


def _flatten_batch(tensor):
    """Returns `(batch, time, dim)` as `(batch * time, dim)`."""
    return ops.reshape(tensor, (-1, tensor.shape[-1]))
