"""Checks that the two ways of running a decoder agree.

    decoder(target_ids, encoder_outputs)[:, t] == step(target_ids[:, t], state_t, memory)

Training uses the left side, a search the right side.
"""

import keras
import numpy as np
from keras import ops

from keras_attention import validation
from keras_attention._utils.flat_beams import gather_beams
from keras_attention._utils.tensor_types import Structure, TensorLike
from keras_attention.decoders.base import Decoder
from keras_attention.decoders.protocol import start_decoder

# The searches are loaded when they are first used, so the functions here import them.

TOLERANCES = {"float64": 1e-5, "float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-2}
NUM_BEAMS = 2


def check_decoder(
    decoder: keras.layers.Layer,
    target_ids: TensorLike,
    encoder_outputs: TensorLike,
    memory_mask: TensorLike | None = None,
    initial_state: Structure = None,
    *,
    num_padding: int = 2,
    tolerance: float | None = None,
    pad_id: int = 0,
) -> float:
    """Raises unless a decoder's `step`, repeated, equals its full call.

    Use it to test your own decoder. Each batch element is decoded as two beams, the passed ids and
    ids derived from them. Halfway the beams are swapped, or one of them replaces both, as in a
    beam search. The state is reordered by gathering and by the decoder's `reorder_cache`, if it
    has one. Masked columns of random values are appended to the memory, and its masked positions
    are overwritten, which reveals any use of padding.

    Args:
        decoder: Layer with `prepare`, `start`, `step` and a full call, as `BahdanauDecoder`.
        target_ids: Int tensor of shape `(batch, target)`, the input ids:
            `[BOS, y_1 .. y_{T-1}]`, padded with `pad_id`; at least two columns.
        encoder_outputs: The memory of `decoder`: a float tensor `(batch, source, dim)`, or any
            other structure it accepts (then no columns are appended).
        memory_mask: Boolean tensor of shape `(batch, source)`; `True` means attend. Or None.
        initial_state: Passed to the full call and to `start`, unless it is None.
        num_padding: Int of at least 0, the number of random columns appended to the memory.
        tolerance: Number, the maximum difference of logits relative to the largest logit, or to
            1 if all are smaller. By default 1e-5 for float32, 2e-2 for bfloat16 and float16.
        pad_id: Int. Positions at which `target_ids` has it are not compared.

    Returns:
        The largest relative difference found, a float.

    Raises:
        AssertionError: If the two differ, with the batch element and the step of the largest
            difference; if the best token differs although it leads by more than the tolerance;
            or if an alignment is not float32, negative, sums to more than 1, or is not 0 at
            masked positions.
        ValueError: If an argument is invalid, or `step` breaks its protocol.

    Example:

    >>> import keras
    >>> from keras_attention.decoders import check_decoder
    >>> class LastToken:  # a decoder without memory: logits depend on the last id alone
    ...     compute_dtype = "float32"
    ...     def prepare(self, encoder_outputs, memory_mask=None):
    ...         return {"values": encoder_outputs}
    ...     def start(self, memory, initial_state=None, max_length=None):
    ...         return {}
    ...     def step(self, ids, state, memory):
    ...         source = keras.ops.shape(memory["values"])[1]
    ...         return keras.ops.one_hot(ids, 7), state, keras.ops.zeros((len(ids), source))
    ...     def __call__(self, target_ids, encoder_outputs, memory_mask=None):
    ...         return keras.ops.one_hot(target_ids, 7)
    >>> check_decoder(LastToken(), keras.ops.array([[2, 5, 4]]), keras.ops.zeros((1, 3, 2)))
    0.0
    """
    _check_arguments(decoder, target_ids, encoder_outputs, memory_mask)
    validation.check_int_at_least("check_decoder", "num_padding", num_padding, 0)
    dtype = keras.backend.standardize_dtype(getattr(decoder, "compute_dtype", "float32"))
    tolerance = TOLERANCES.get(dtype, 1e-5) if tolerance is None else tolerance
    start_options = {} if initial_state is None else {"initial_state": initial_state}
    options = {} if memory_mask is None else {"memory_mask": memory_mask}

    def full_call(ids):
        return decoder(ops.convert_to_tensor(ids), encoder_outputs, **start_options, **options)

    from keras_attention.search._argument_tensors import get_static_value
    from keras_attention.search._checked_step import CheckedStep

    ids = get_static_value(ops.convert_to_tensor(target_ids)).astype("int32")
    inputs = np.stack([ids, _make_other_ids(ids, full_call(ids).shape[-1], pad_id)], axis=1)
    parents = np.where(np.arange(len(ids))[:, None] % 2 == 0, [[1, 0]], [[1, 1]])
    half = ids.shape[1] // 2
    paths = np.concatenate(
        [_gather_parents(inputs, parents)[..., :half], inputs[..., half:]], axis=2
    )
    full = np.stack([_to_float64(full_call(paths[:, beam])) for beam in range(NUM_BEAMS)], axis=1)

    encoder_outputs, memory_mask = _append_junk(encoder_outputs, memory_mask, num_padding)
    options = {} if memory_mask is None else {"memory_mask": memory_mask}
    memory = decoder.prepare(encoder_outputs, **options)
    state = start_decoder(decoder, memory, initial_state, ids.shape[1])
    checked_step = CheckedStep("check_decoder", _require_float32(decoder), state, memory)
    found = []
    for reorder_cache in _list_reorderings(decoder):
        before, after, alignments = _decode(checked_step, inputs, parents, half, reorder_cache)
        _check_alignments(alignments, memory_mask, max(tolerance, 1e-4))
        stepped = np.concatenate([_gather_parents(before, parents), after], axis=2)
        found.append(_compare(full, stepped, ids != pad_id, tolerance))
    return max(found)


def _list_reorderings(decoder):
    """Returns the ways to reorder the state: None gathers it, others are the decoder's own."""
    own = getattr(type(decoder), "reorder_cache", Decoder.reorder_cache)
    return [None] if own is Decoder.reorder_cache else [None, decoder.reorder_cache]


def _decode(checked_step, inputs, parents, half, reorder_cache):
    """Returns logits before and after the beams were reordered, and all alignments.

    As in a search, the first step has one hypothesis per batch element.
    """
    batch, _, length = inputs.shape
    logits, leaves, alignment = checked_step(
        ops.convert_to_tensor(inputs[:, 0, 0]), checked_step.leaves
    )
    leaves = [ops.repeat(leaf, NUM_BEAMS, axis=0) for leaf in leaves]
    outputs = [[np.repeat(_to_float64(x), NUM_BEAMS, axis=0) for x in (logits, alignment)]]
    parents = ops.convert_to_tensor(parents.astype("int32"))
    for time in range(1, length):
        if time == half and reorder_cache is None:
            leaves = gather_beams(list(leaves), parents)
        elif time == half:
            leaves = checked_step.reorder_leaves(reorder_cache, leaves, parents)
        ids = ops.convert_to_tensor(inputs[:, :, time].reshape(-1))
        logits, leaves, alignment = checked_step(ids, leaves)
        outputs.append([_to_float64(logits), _to_float64(alignment)])
    logits, alignments = (np.stack(x, axis=1) for x in zip(*outputs, strict=True))
    logits = logits.reshape(batch, NUM_BEAMS, *logits.shape[1:])
    alignments = alignments.reshape(batch, NUM_BEAMS, *alignments.shape[1:])
    return logits[:, :, :half], logits[:, :, half:], alignments


def _compare(full, stepped, compared, tolerance):
    """Returns the largest relative difference; raises if it exceeds `tolerance`."""
    compared = np.broadcast_to(compared[:, None], full.shape[:3])
    full, stepped = full[compared], stepped[compared]
    if not np.isfinite(full).all() or not np.isfinite(stepped).all():
        raise AssertionError("check_decoder found logits that are not finite.")
    scale = max(1.0, np.abs(full).max(initial=0.0))
    differences = np.abs(full - stepped).max(axis=-1, initial=0.0) / scale
    if not differences.size:
        raise ValueError("check_decoder expects ids that are not all padding.")
    worst = differences.argmax()
    row, beam, time = np.argwhere(compared)[worst]
    if differences[worst] > tolerance:
        raise AssertionError(
            f"check_decoder found that `step` differs from the full call by "
            f"{differences[worst]:.3g} of the largest logit, tolerance {tolerance:g}. It is worst "
            f"in batch element {row}, beam {beam}, step {time}: full call {full[worst][:4]}, "
            f"steps {stepped[worst][:4]} ..."
        )
    second, first = np.sort(full, axis=-1)[:, -2:].T
    changed = (first - second > tolerance * scale) & (full.argmax(-1) != stepped.argmax(-1))
    if changed.any():
        row, beam, time = np.argwhere(compared)[changed.argmax()]
        raise AssertionError(
            f"check_decoder found a different best token in `step` than in the full call in batch "
            f"element {row}, beam {beam}, step {time}, though it leads by more than the tolerance."
        )
    return float(differences[worst])


def _check_alignments(alignments, memory_mask, rounding):
    sums = alignments.sum(axis=-1)
    if not (alignments.min(initial=0.0) >= 0.0 and sums.max(initial=0.0) <= 1.0 + rounding):
        raise AssertionError(
            "check_decoder expects alignments of at least 0 that sum to at most 1 over the source. "
            f"Received: smallest {alignments.min():.3g}, largest sum {sums.max():.5g}"
        )
    if memory_mask is None:
        return
    from keras_attention.search._argument_tensors import get_static_value

    outside = ~get_static_value(memory_mask)[:, None, None, :]
    attended = np.where(outside, alignments, 0.0).max(initial=0.0)
    if attended > 0.0:
        raise AssertionError(
            "check_decoder expects alignments of exactly 0 where `memory_mask` is False. "
            f"Received: a weight of {attended:.3g}"
        )


def _make_other_ids(ids, vocabulary, pad_id):
    """Returns ids that start like `ids`, then differ from them, and are padded alike."""
    times = np.arange(ids.shape[1])
    other = (ids + times) % vocabulary
    other = np.where(other == pad_id, (pad_id + 1) % vocabulary, other)
    return np.where(ids == pad_id, pad_id, np.where(times == 0, ids, other)).astype("int32")


def _gather_parents(values, parents):
    return np.stack([row[parent] for row, parent in zip(values, parents, strict=True)])


def _append_junk(encoder_outputs, memory_mask, num_padding):
    """Returns the memory with masked positions overwritten and `num_padding` more columns."""
    if not ops.is_tensor(encoder_outputs) or len(encoder_outputs.shape) != 3:
        return encoder_outputs, memory_mask
    if memory_mask is None and not num_padding:
        return encoder_outputs, None
    batch, source, dim = encoder_outputs.shape
    if memory_mask is None:
        memory_mask = ops.ones((batch, source), dtype="bool")
    junk = ops.full((batch, source + num_padding, dim), 3.0, dtype=encoder_outputs.dtype)
    encoder_outputs = ops.where(memory_mask[:, :, None], encoder_outputs, junk[:, :source])
    outside = ops.zeros((batch, num_padding), dtype="bool")
    return (
        ops.concatenate([encoder_outputs, junk[:, source:]], axis=1),
        ops.concatenate([ops.convert_to_tensor(memory_mask), outside], axis=1),
    )


def _require_float32(decoder):
    def step(ids, state, memory):
        logits, state, alignment = decoder.step(ids, state, memory)
        for name, tensor in (("logits", logits), ("alignment", alignment)):
            if keras.backend.standardize_dtype(tensor.dtype) != "float32":
                raise AssertionError(
                    f"check_decoder expects the {name} of `step` in float32 under every dtype "
                    f"policy. Received: {keras.backend.standardize_dtype(tensor.dtype)}"
                )
        return logits, state, alignment

    return step


def _to_float64(tensor):
    return ops.convert_to_numpy(ops.cast(tensor, "float32")).astype("float64")


def _check_arguments(decoder, target_ids, encoder_outputs, memory_mask):
    owner = "check_decoder"
    missing = [m for m in ("prepare", "start", "step") if not hasattr(decoder, m)]
    if missing or not callable(decoder):
        raise ValueError(
            f"{owner} expects a decoder with `prepare`, `start`, `step` and a full call. "
            f"Received: {decoder!r} without {', '.join(missing) or '__call__'}"
        )
    from keras_attention.search._argument_tensors import to_int32_tensor

    ids = to_int32_tensor(owner, "target_ids", target_ids, 2, "int ids (batch, target)")
    if ids.shape[1] < 2:
        raise ValueError(
            f"{owner} expects at least two columns of `target_ids`, to reorder beams between "
            f"them. Received: target_ids.shape={tuple(ids.shape)}"
        )
    if ops.is_tensor(encoder_outputs) and len(encoder_outputs.shape) == 3:
        shape = tuple(encoder_outputs.shape[:2])
        validation.check_same_size(owner, 0, target_ids=ids, encoder_outputs=encoder_outputs)
        validation.convert_mask(owner, "memory_mask", memory_mask, shape, "(batch, source)")
