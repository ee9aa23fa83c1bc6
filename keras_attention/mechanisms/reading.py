"""What one call of a mechanism asks for, besides query, key and value.

A `Reading` is a plain Python object that lives as long as one call: it collects what the
stages need, so that a mechanism which reads differently overrides one method with three
arguments. It never crosses a layer's call.
"""

import dataclasses

from keras import KerasTensor, ops


@dataclasses.dataclass(frozen=True)
class Reading:
    """The masks and the extras of one call.

    Attributes:
        source_mask: Boolean `(batch, key)`, or None where every key may be read.
        query_mask: Boolean `(batch, query)`, or None.
        attention_mask: Boolean `(batch, query, key)`, or None.
        causal: Whether the query at position p reads only keys 0 to p.
        position: Int `(batch,)`, the position of the first query, or `(batch, query)`, that
            of each; None begins at 0.
        previous_weights: Float `(batch, query, key)`, or None.
        noise: Dict of what was drawn before a loop, see `AttentionMechanism.noise`; None draws
            what is needed.
        training: Whether this is training.
        wants_weights: Whether the weights are returned; a reader that never builds them may
            be used where they are not.
        in_call: Whether the layer was called, and not `attend`, which loops use: the place where
            a loss may be added.
        whole: Whether it was called with all queries, and not with one step's.
    """

    source_mask: KerasTensor | None = None
    query_mask: KerasTensor | None = None
    attention_mask: KerasTensor | None = None
    causal: bool = False
    position: KerasTensor | None = None
    previous_weights: KerasTensor | None = None
    noise: dict | None = None
    training: bool | None = None
    wants_weights: bool = True
    in_call: bool = False
    whole: bool = False

    def positions(self, num_queries):
        """Returns the position of each query, int32 `(1 or batch, query)`."""
        if self.position is not None and len(self.position.shape) == 2:
            return ops.cast(self.position, "int32")
        positions = ops.arange(num_queries, dtype="int32")[None, :]
        if self.position is None:
            return positions
        return positions + ops.cast(self.position, "int32")[:, None]

    def mask(self, num_queries, num_keys):
        """Returns all masks as one that broadcasts to `(batch, query, key)`, or None."""
        mask = None if self.source_mask is None else self.source_mask[:, None, :]
        mask = joined(mask, self.attention_mask)
        if self.query_mask is not None:
            mask = joined(mask, self.query_mask[:, :, None])
        if self.causal:
            keys = ops.arange(num_keys, dtype="int32")[None, None, :]
            mask = joined(mask, keys <= self.positions(num_queries)[:, :, None])
        return mask


def joined(one, other):
    """Returns the mask that keeps what both keep; None keeps everything."""
    if one is None or other is None:
        return one if other is None else other
    return ops.logical_and(one, other)
