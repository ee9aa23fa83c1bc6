"""Windows: each query reads the keys near one position, in time and memory linear in length.

    query i reads the keys j with |j - c_i| <= radius,  c_i its center,  window = 2 radius + 1

Luong et al. 2015 (https://arxiv.org/abs/1508.04025), section 3.2, with radius D; Vaswani et al.
2017 (https://arxiv.org/abs/1706.03762), section 4, restricted self-attention. Queries are taken
`chunk` at a time, and a chunk reads one span of keys that holds all of its windows. Chunks stand
in the batch axis, `rows = batch * chunks`, so that every scorer and normalizer works on
`(rows, chunk, ...)` and `(rows, span, ...)` as it does on whole sequences.
"""

import dataclasses

import keras
from keras import ops

from keras_attention import checks
from keras_attention.mechanisms.window_products import Places, window_dot, window_sum
from keras_attention.shapes import reduce_rows
from keras_attention.written_gradient import custom_gradient


def radius_of(owner: str, window, minimum: int = 1) -> int:
    """Returns how far an odd `window` reaches to each side of its center."""
    checks.int_at_least(owner, "window", window, minimum)
    if window % 2 == 0:
        raise ValueError(
            f"{owner} expects `window` to be odd: it counts all positions, the center and as many "
            f"on either side. Take {window - 1} or {window + 1}. Received: window={window}"
        )
    return int(window) // 2


class Windows:
    """Where the windows of one reading lie.

    Args:
        centers: Int32 tensor `(batch, query)`, c_i, between 0 and `num_keys - 1`.
        radius: Int.
        num_keys: Int or int tensor.
        chunk: Positive int, how many queries share a span. Their centers must not lie
            further than `chunk - 1` after the first one's. None reads all keys for all
            queries, the dense form.
        by_piece: Whether windows are gathered a few places at a time, for many queries with a
            chunk of 1.
    """

    def __init__(self, centers, radius, num_keys, chunk, by_piece=False):
        self.batch, self.num_queries = ops.shape(centers)
        self.radius, self.num_keys, self.chunk = radius, num_keys, chunk
        self.by_piece = by_piece
        self.centers = self.of_queries(centers)[:, :, None]  # (rows, chunk, 1)
        if chunk is None:
            self.keys = ops.arange(num_keys, dtype="int32")[None, None, :]
            return
        # A span has one size, known to a compiler; what lies outside of the source is masked.
        self.first = self.centers[:, 0] - radius  # (rows, 1)
        span = ops.arange(chunk + 2 * radius, dtype="int32")
        self.keys = (self.first + span)[:, None, :]  # (rows, 1, span)

    def of_queries(self, tensor):
        """Returns `(batch, query, ...)` as `(rows, chunk, ...)`; the last chunk ends in zeros."""
        if self.chunk is None:
            return tensor
        rest = ops.shape(tensor)[2:]
        chunks = -(-self.num_queries // self.chunk)
        missing = chunks * self.chunk - self.num_queries
        if not (isinstance(missing, int) and missing == 0):
            padding = ops.zeros((self.batch, missing, *rest), dtype=tensor.dtype)
            tensor = ops.concatenate([tensor, padding], axis=1)
        return ops.reshape(tensor, (-1, self.chunk, *rest))

    def of_keys(self, tensor):
        """Returns `(batch, key, ...)` as `(rows, span, ...)`, the keys of each span."""
        if self.chunk is None:
            return tensor
        index = self._source()[:, None] * self.num_keys + self._existing(self.keys[:, 0])
        return ops.take(ops.reshape(tensor, (-1, *ops.shape(tensor)[2:])), index, axis=0)

    def scores(self, scorer, query, key, previous_weights=None):
        """Returns what the scorer makes of each span, `(rows, chunk, span)`."""
        dot_query = scorer.dot_query(query) if self.by_piece else None
        if dot_query is not None:
            return window_dot(_flat(dot_query), _flat(key), self._places())[:, None]
        key = keras.tree.map_structure(self.of_keys, key)
        num_keys = self.keys.shape[-1]
        return scorer.compare(self.of_queries(query), key, previous_weights, num_keys)

    def context(self, weights, value):
        """Returns the sums of values that weights `(rows, chunk, span)` make, by query."""
        if self.by_piece:
            sums = window_sum(weights[:, 0], _flat(value), self._places())[:, None]
        else:
            sums = ops.matmul(weights, self.of_keys(value))
        return self.to_queries(sums)

    def _places(self):
        return Places(self.first[:, 0], self._source(), self.num_keys, 2 * self.radius + 1)

    def of_pairs(self, tensor):
        """Returns `(batch, query, key)` as `(rows, chunk, span)`."""
        if self.chunk is None:
            return tensor
        return self._taken(self.of_queries(tensor), self._existing(self.keys))

    def of_offsets(self, tensor):
        """Returns `(batch, query, window)`, one entry a place in the window, by its key."""
        index = ops.clip(self.keys - self.centers + self.radius, 0, 2 * self.radius)
        return self._taken(self.of_queries(tensor), index)

    def to_queries(self, tensor):
        """Returns `(rows, chunk, ...)` as `(batch, query, ...)`: the inverse of `of_queries`."""
        if self.chunk is None:
            return tensor
        rest = ops.shape(tensor)[2:]
        chunks = -(-self.num_queries // self.chunk)
        tensor = ops.reshape(tensor, (self.batch, chunks * self.chunk, *rest))
        return tensor[:, : self.num_queries]

    def to_pairs(self, tensor):
        """Returns `(rows, chunk, span)` as `(batch, query, key)`, 0 outside of the windows."""
        if self.chunk is None:
            return tensor
        tensor = self.to_queries(tensor)
        first = self.to_queries(
            ops.broadcast_to(self.first, (ops.shape(self.first)[0], self.chunk))
        )
        return spread(tensor, first[:, :, None], self.num_keys)

    def reading(self, reading, noise_by_offset):
        """Returns the reading with masks and noise by `(rows, chunk, span)`.

        `noise_by_offset` says whether the noise is `(batch, query, window)` or, for the dense
        form alone, `(batch, query, key)`.
        """
        noise = reading.noise
        if noise and noise_by_offset:
            noise = {name: self.of_offsets(tensor) for name, tensor in noise.items()}
        return dataclasses.replace(
            reading,
            source_mask=None,
            query_mask=None,
            attention_mask=self._mask(reading),
            causal=False,
            position=None,
            noise=noise,
        )

    def _mask(self, reading):
        """Returns all masks of the reading and the windows, boolean `(rows, chunk, span)`."""
        batch, queries, keys = self.batch, self.num_queries, self.num_keys
        mask = ops.abs(self.keys - self.centers) <= self.radius
        mask = ops.logical_and(mask, self.keys == self._existing(self.keys))
        if reading.source_mask is not None:
            source = self.of_keys(ops.broadcast_to(reading.source_mask, (batch, keys)))
            mask = ops.logical_and(mask, source[:, None, :])
        if reading.query_mask is not None:
            kept = self.of_queries(ops.broadcast_to(reading.query_mask, (batch, queries)))
            mask = ops.logical_and(mask, kept[:, :, None])
        if reading.attention_mask is not None:
            pairs = ops.broadcast_to(reading.attention_mask, (batch, queries, keys))
            mask = ops.logical_and(mask, self.of_pairs(pairs))
        if reading.causal:
            positions = ops.broadcast_to(reading.positions(queries), (batch, queries))
            mask = ops.logical_and(mask, self.keys <= self.of_queries(positions)[:, :, None])
        return mask

    def _source(self):
        """Returns the batch row that each row reads, int32 `(rows,)`."""
        chunks = -(-self.num_queries // self.chunk)
        return ops.arange(ops.shape(self.keys)[0], dtype="int32") // chunks

    def _existing(self, keys):
        return ops.clip(keys, 0, self.num_keys - 1)

    def _taken(self, tensor, index):
        shape = (*ops.shape(tensor)[:2], ops.shape(index)[2])
        return ops.take_along_axis(tensor, ops.broadcast_to(index, shape), axis=2)


def spread(tensor, first, size):
    """Returns `(batch, query, span)` on a last axis of `size`, each row from `first` on.

    Args:
        tensor: Float tensor `(batch, query, span)`; what falls outside of `size` is left out.
        first: Int32 `(batch, query, 1)`.
        size: Int or int tensor.
    """
    span = tensor.shape[2]

    @custom_gradient
    def run(tensor):
        place = ops.arange(size, dtype="int32") - first

        def gradient(upstream):
            # Each entry went to one place: no sum, which would be slow under XLA.
            return _picked(upstream, first + ops.arange(span, dtype="int32"), size)

        return _picked(tensor, place, span), gradient

    return run(tensor)


def _picked(tensor, index, size):
    """Returns the entries of the last axis, of `size`, at `index`; 0 where there is none."""
    existing = ops.clip(index, 0, size - 1)
    return ops.where(index == existing, ops.take_along_axis(tensor, existing, axis=2), 0)


def last_kept(mask, batch, num_keys):
    """Returns the index of each row's last kept key, int32 `(batch, 1)`; 0 for an empty row.

    Args:
        mask: Boolean `(batch, key)`, or None where every key is kept.
        batch: Int or int tensor.
        num_keys: Int or int tensor.
    """
    positions = ops.arange(num_keys, dtype="int32")[None, :]
    if mask is not None:
        positions = ops.where(mask, positions, 0)
    last = reduce_rows(ops.max, positions, axis=1, keepdims=True)
    return ops.broadcast_to(last, (batch, 1))


def _flat(tensor):
    """Returns `(batch, time, dim)` as `(batch * time, dim)`."""
    return ops.reshape(tensor, (-1, tensor.shape[-1]))
