"""The masks and options of one call of an attention layer, besides query, key and value.

An `AttentionRequest` is a plain Python object that lives for one call. It bundles what the stages
need, so that a subclass that computes contexts differently overrides one method with three
arguments. It is never passed through a layer's `__call__`.
"""

import dataclasses

from keras import ops

from keras_attention import validation
from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.position_ids import compute_position_ids
from keras_attention._utils.tensor_types import Size, Tensor, TensorDict


@dataclasses.dataclass(frozen=True)
class AttentionRequest:
    """The masks and options of one call.

    Attributes:
        source_mask: Boolean `(batch, key)`, or None if every key may be attended to.
        query_mask: Boolean `(batch, query)`, or None.
        attention_mask: Boolean `(batch, query, key)`, or with an axis of heads after the batch
            axis, or None.
        attention_bias: Float tensor that broadcasts to the scores and is added to them, or None.
        use_causal_mask: Whether the query at position p attends only to keys 0 to p.
        position: Int `(batch,)`, the position of the first query, or `(batch, query)`, that
            of each; None starts at 0.
        previous_weights: Float tensor like the weights, or None.
        state: Dict of float tensors `(batch, query, size)`, what the mechanism carries from step to
            step, see `AttentionMechanism.state_sizes`; each query is one step from its own. None
            if all queries are steps in time, from the first on.
        noise: Dict of noise sampled before a loop, see `AttentionMechanism.noise`; None samples
            the noise when it is needed.
        training: Whether this is training.
        return_attention_scores: Whether to return the weights. If not, an implementation that
            never builds them may be used.
        is_layer_call: Whether the layer itself was called rather than `attend`, which loops use.
            Only then may a loss be added.
        has_all_queries: Whether the call has all queries rather than those of one step.
    """

    source_mask: Tensor | None = None
    query_mask: Tensor | None = None
    attention_mask: Tensor | None = None
    attention_bias: Tensor | None = None
    use_causal_mask: bool = False
    position: Tensor | None = None
    previous_weights: Tensor | None = None
    state: TensorDict | None = None
    noise: TensorDict | None = None
    training: bool | None = None
    return_attention_scores: bool = True
    is_layer_call: bool = False
    has_all_queries: bool = False

    def positions(self, num_queries: Size) -> Tensor:
        """Returns the position of each query, int32 `(1 or batch, query)`."""
        return compute_position_ids(num_queries, self.position)

    def mask(self, num_queries: Size, num_keys: Size) -> Tensor | None:
        """Returns all masks as one that broadcasts to `(batch, query, key)`, or None.

        If `attention_mask` has an axis of heads, so has the result.
        """
        mask = None if self.source_mask is None else self.source_mask[:, None, :]
        if self.query_mask is not None:
            mask = combine_masks(mask, self.query_mask[:, :, None])
        if self.use_causal_mask:
            keys = ops.arange(num_keys, dtype="int32")[None, None, :]
            mask = combine_masks(mask, keys <= self.positions(num_queries)[:, :, None])
        if mask is not None and self.has_head_masks:
            mask = mask[:, None]
        return combine_masks(mask, self.attention_mask)

    @property
    def has_head_masks(self) -> bool:
        """Whether heads have masks of their own."""
        return self.attention_mask is not None and len(self.attention_mask.shape) == 4

    def find_attending_queries(self, num_queries: Size, num_keys: Size) -> Tensor | None:
        """Returns which queries may attend to any key, boolean `(1 or batch, query)`, or None."""
        if self.attention_mask is not None:
            mask = self.mask(num_queries, num_keys)
            return ops.any(mask, axis=(1, 3) if self.has_head_masks else -1)
        rows = self.query_mask
        if self.source_mask is not None:
            valid = ops.any(self.source_mask, axis=-1, keepdims=True)
            if self.use_causal_mask:  # a query attends to some key if it attends to the first
                first = ops.argmax(ops.cast(self.source_mask, "int32"), axis=-1)[:, None]
                is_reached = ops.cast(first, "int32") <= self.positions(num_queries)
                valid = ops.logical_and(valid, is_reached)
            rows = valid if rows is None else ops.logical_and(rows, valid)
        return rows

    def add_bias(self, scores: Tensor) -> Tensor:
        """Returns the scores plus the bias, in at least float32."""
        scores = at_least_float32(scores)
        return scores + ops.cast(self.attention_bias, scores.dtype)

    def add_query_axis(self) -> "AttentionRequest":
        """Returns the request of one decoder step with a query axis of length 1."""
        noise, state = (
            one and {name: ops.expand_dims(tensor, 1) for name, tensor in one.items()}
            for one in (self.noise, self.state)
        )
        query_mask = None if self.query_mask is None else ops.expand_dims(self.query_mask, 1)
        names = ("attention_mask", "attention_bias", "previous_weights")
        pairs = {name: getattr(self, name) for name in names}
        pairs = {
            name: None if one is None else ops.expand_dims(one, -2) for name, one in pairs.items()
        }
        return dataclasses.replace(self, noise=noise, state=state, query_mask=query_mask, **pairs)


def combine_masks(one, other):
    """Returns `one & other`; None attends everywhere."""
    if one is None or other is None:
        return one if other is None else other
    return ops.logical_and(one, other)


def check_attention_mask(owner: str, rows: tuple, num_keys, mask, num_heads=None):
    """Returns a checked boolean `attention_mask` with a batch axis; None for None.

    Args:
        owner: The name of the class the user called.
        rows: The shape of the query without its last axis.
        num_keys: Int, or None if unknown.
        mask: `(batch, query, key)` or `(query, key)`; `(batch, key)` for a query of rank 2. The
            rank distinguishes them.
        num_heads: Int if a mask may have an axis of heads after the batch axis, or None.
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
            " Only `MultiHeadAttention` has heads. Pass the mask of one, `attention_mask[:, 0]`."
        )
    fits = [axes for axes, shape in shapes.items() if _fits(getattr(mask, "shape", shape), shape)]
    if not fits:
        raise ValueError(
            f"{owner} expects `attention_mask` of shape {' or '.join(shapes)}, here "
            f"{' or '.join(str(shape) for shape in shapes.values())}. {hint} "
            f"Received: attention_mask.shape={tuple(mask.shape)}"
        )
    mask = validation.convert_mask(owner, "attention_mask", mask)
    if fits == ["(query, key)"]:
        return ops.expand_dims(mask, 0)
    serves_all_heads = "heads" in fits[0] and mask.shape[1] == 1
    return ops.squeeze(mask, 1) if serves_all_heads else mask


def check_attention_bias(owner: str, attention_bias, shape: tuple, axes: str) -> None:
    """Raises unless the bias is None or broadcasts to `shape`, that of the weights."""
    if attention_bias is not None and not _fits(attention_bias.shape, shape):
        raise ValueError(
            f"{owner} expects `attention_bias` of shape {axes}, here {shape}. "
            f"Received: attention_bias.shape={tuple(attention_bias.shape)}"
        )


def refuse_attention_bias(owner: str, attention_bias) -> None:
    """Raises if a bias is given to a mechanism whose scores are not one tensor."""
    if attention_bias is not None:
        raise ValueError(
            f"{owner} does not compute its scores as one tensor, so `attention_bias` cannot be "
            "added. To mask, use `attention_mask`. "
            f"Received: attention_bias.shape={tuple(attention_bias.shape)}"
        )


def _fits(given, shape):
    """Whether a mask of one shape broadcasts to another of the same rank."""
    pairs = zip(given, shape, strict=False)
    return len(given) == len(shape) and all(
        None in pair or pair[0] in (1, pair[1]) for pair in pairs
    )
