"""What one call of a mechanism asks for, besides query, key and value.

A `Reading` is a plain Python object that lives as long as one call: it collects what the
stages need, so that a mechanism which reads differently overrides one method with three
arguments. It never crosses a layer's call.
"""

import dataclasses

from keras import KerasTensor, ops

from keras_attention import checks


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


def pair_mask(owner: str, rows: tuple, num_keys, mask, num_heads=None):
    """Returns a checked `attention_mask` as booleans with an axis for the batch; None for None.

    Args:
        owner: The name of the class the user called.
        rows: The shape of the query without its last axis.
        num_keys: Int, or None where it is not known.
        mask: `(batch, query, key)` or `(query, key)`; `(batch, key)` for a query of rank 2. The
            rank tells them apart.
        num_heads: Int where a mask may have an axis of heads behind the batch, or None.
    """
    if mask is None:
        return None
    step = len(rows) == 1
    shapes = {"(batch, key)" if step else "(batch, query, key)": (*rows, num_keys)}
    if not step:
        shapes["(query, key)"] = (rows[1], num_keys)
    if num_heads is not None:
        axes = "(batch, 1 or heads, key)" if step else "(batch, 1 or heads, query, key)"
        shapes[axes] = (rows[0], num_heads, *rows[1:], num_keys)
    hint = "A mask of keys alone, (batch, key), is `value_mask`."
    if num_heads is None and not step:
        hint += (
            " Heads have `MultiHeadAttention` alone: pass one of theirs, `attention_mask[:, 0]`."
        )
    fits = [axes for axes, shape in shapes.items() if _fits(getattr(mask, "shape", shape), shape)]
    if not fits:
        raise ValueError(
            f"{owner} expects `attention_mask` of shape {' or '.join(shapes)}, here "
            f"{' or '.join(str(shape) for shape in shapes.values())}. {hint} "
            f"Received: attention_mask.shape={tuple(mask.shape)}"
        )
    mask = checks.boolean_mask(owner, "attention_mask", mask)
    return ops.expand_dims(mask, 0) if fits == ["(query, key)"] else mask


def _fits(given, shape):
    """Whether a mask of one shape broadcasts to another of the same rank."""
    pairs = zip(given, shape, strict=False)
    return len(given) == len(shape) and all(
        None in pair or pair[0] in (1, pair[1]) for pair in pairs
    )
