"""A decoder's two ways of computing the same thing, held against each other.

    decoder(target_ids, encoder_outputs)[:, t] == step(target_ids[:, t], state_t, memory)

Training uses the left side, search the right one.
"""

import keras
import numpy as np
from keras import ops

from keras_attention import checks
from keras_attention.beams import follow
from keras_attention.decoder import Decoder
from keras_attention.decoding.steps import CheckedStep, concrete, int_tensor
from keras_attention.protocol import started

TOLERANCES = {"float64": 1e-5, "float32": 1e-5, "bfloat16": 2e-2, "float16": 2e-2}
BEAMS = 2


def check_decoder(
    decoder,
    target_ids,
    encoder_outputs,
    memory_mask=None,
    initial_state=None,
    *,
    padding: int = 2,
    tolerance: float | None = None,
    pad_id: int = 0,
) -> float:
    """Raises unless a decoder's `step`, repeated, equals its full call.

    For the tests of a decoder of your own. Each row of the batch is decoded as two beams, the
    given ids and ids derived from them; half way the beams change places or one of them takes
    over both, as in a beam search that gathers the rows of the state, or that asks the decoder's
    own `reorder` if it has one. Columns of junk that the mask leaves out are appended to
    the memory, and masked ones are overwritten, so that whatever reads padding is found out.

    Args:
        decoder: Layer with `prepare`, `start`, `step` and a full call, as `BahdanauDecoder`.
        target_ids: Int tensor of shape `(batch, target)`, what the decoder is fed:
            `[start, y_1 .. y_{T-1}]`, padded with `pad_id`; at least two columns.
        encoder_outputs: What `decoder` attends to: a float tensor `(batch, source, dim)`, or
            whatever it takes (then no junk is appended).
        memory_mask: Boolean tensor of shape `(batch, source)`, True to keep, or None.
        initial_state: Passed to the full call and to `start`, unless it is None.
        padding: Int of at least 0, the columns of junk appended to the memory.
        tolerance: Number, the largest difference of logits relative to the largest logit, or to
            1 where all are smaller. By default 1e-5 for float32, 2e-2 for bfloat16 and float16.
        pad_id: Int. Nothing is compared where `target_ids` has it.

    Returns:
        The largest relative difference found, a float.

    Raises:
        AssertionError: If the two differ, with the row and the step where they differ most; if
            the best token differs where it leads by more than the tolerance; or if an alignment
            is not float32, negative, sums to more than 1, or is not 0 at masked positions.
        ValueError: If an argument is wrong, or `step` breaks its protocol.

    Example:

    >>> import keras
    >>> from keras_attention.decoding import check_decoder
    >>> class LastToken:  # a decoder without memory: logits depend on the last id alone
    ...     compute_dtype = "float32"
    ...     def prepare(self, encoder_outputs, memory_mask=None):
    ...         return {"values": encoder_outputs}
    ...     def start(self, memory, initial_state=None):
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
    checks.int_at_least("check_decoder", "padding", padding, 0)
    dtype = keras.backend.standardize_dtype(getattr(decoder, "compute_dtype", "float32"))
    tolerance = TOLERANCES.get(dtype, 1e-5) if tolerance is None else tolerance
    start_options = {} if initial_state is None else {"initial_state": initial_state}
    options = {} if memory_mask is None else {"memory_mask": memory_mask}

    def full_call(ids):
        return decoder(ops.convert_to_tensor(ids), encoder_outputs, **start_options, **options)

    ids = concrete(ops.convert_to_tensor(target_ids)).astype("int32")
    inputs = np.stack([ids, _other_ids(ids, full_call(ids).shape[-1], pad_id)], axis=1)
    parents = np.where(np.arange(len(ids))[:, None] % 2 == 0, [[1, 0]], [[1, 1]])
    half = ids.shape[1] // 2
    paths = np.concatenate([_reordered(inputs, parents)[..., :half], inputs[..., half:]], axis=2)
    full = np.stack([_float64(full_call(paths[:, beam])) for beam in range(BEAMS)], axis=1)

    encoder_outputs, memory_mask = _with_junk(encoder_outputs, memory_mask, padding)
    options = {} if memory_mask is None else {"memory_mask": memory_mask}
    memory = decoder.prepare(encoder_outputs, **options)
    state = started(decoder, memory, initial_state, ids.shape[1])
    run = CheckedStep("check_decoder", _float32_step(decoder), state, memory)
    found = []
    for reorder in _ways_to_reorder(decoder):
        before, after, alignments = _decode(run, inputs, parents, half, reorder)
        _check_alignments(alignments, memory_mask, max(tolerance, 1e-4))
        stepped = np.concatenate([_reordered(before, parents), after], axis=2)
        found.append(_compare(full, stepped, ids != pad_id, tolerance))
    return max(found)


def _ways_to_reorder(decoder):
    """Returns the ways a search may reorder the state: None gathers rows, others are its own."""
    own = getattr(type(decoder), "reorder", Decoder.reorder)
    return [None] if own is Decoder.reorder else [None, decoder.reorder]


def _decode(run, inputs, parents, half, reorder):
    """Returns logits before and after the beams were reordered, and all alignments.

    As in a search, the first step has one row for each batch row.
    """
    batch, _, length = inputs.shape
    logits, leaves, alignment = run(ops.convert_to_tensor(inputs[:, 0, 0]), run.leaves)
    leaves = [ops.repeat(leaf, BEAMS, axis=0) for leaf in leaves]
    outputs = [[np.repeat(_float64(x), BEAMS, axis=0) for x in (logits, alignment)]]
    parents = ops.convert_to_tensor(parents.astype("int32"))
    for time in range(1, length):
        if time == half and reorder is None:
            leaves = follow(list(leaves), parents)
        elif time == half:
            leaves = run.reordered(reorder, leaves, parents)
        ids = ops.convert_to_tensor(inputs[:, :, time].reshape(-1))
        logits, leaves, alignment = run(ids, leaves)
        outputs.append([_float64(logits), _float64(alignment)])
    logits, alignments = (np.stack(x, axis=1) for x in zip(*outputs, strict=True))
    logits = logits.reshape(batch, BEAMS, *logits.shape[1:])
    alignments = alignments.reshape(batch, BEAMS, *alignments.shape[1:])
    return logits[:, :, :half], logits[:, :, half:], alignments


def _compare(full, stepped, compared, tolerance):
    """Returns the largest relative difference, or raises where it exceeds `tolerance`."""
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
            f"in row {row}, beam {beam}, step {time}: full call {full[worst][:4]}, "
            f"steps {stepped[worst][:4]} ..."
        )
    second, first = np.sort(full, axis=-1)[:, -2:].T
    changed = (first - second > tolerance * scale) & (full.argmax(-1) != stepped.argmax(-1))
    if changed.any():
        row, beam, time = np.argwhere(compared)[changed.argmax()]
        raise AssertionError(
            f"check_decoder found another best token in `step` than in the full call in row "
            f"{row}, beam {beam}, step {time}, though it leads by more than the tolerance."
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
    outside = ~concrete(memory_mask)[:, None, None, :]
    attended = np.where(outside, alignments, 0.0).max(initial=0.0)
    if attended > 0.0:
        raise AssertionError(
            "check_decoder expects alignments of exactly 0 where `memory_mask` is False. "
            f"Received: a weight of {attended:.3g}"
        )


def _other_ids(ids, vocabulary, pad_id):
    """Returns ids that start as `ids` do, differ from them afterwards, and are padded alike."""
    times = np.arange(ids.shape[1])
    other = (ids + times) % vocabulary
    other = np.where(other == pad_id, (pad_id + 1) % vocabulary, other)
    return np.where(ids == pad_id, pad_id, np.where(times == 0, ids, other)).astype("int32")


def _reordered(values, parents):
    return np.stack([row[parent] for row, parent in zip(values, parents, strict=True)])


def _with_junk(encoder_outputs, memory_mask, padding):
    """Returns the memory with its masked positions overwritten and `padding` columns more."""
    if not ops.is_tensor(encoder_outputs) or len(encoder_outputs.shape) != 3:
        return encoder_outputs, memory_mask
    if memory_mask is None and not padding:
        return encoder_outputs, None
    batch, source, dim = encoder_outputs.shape
    if memory_mask is None:
        memory_mask = ops.ones((batch, source), dtype="bool")
    junk = ops.full((batch, source + padding, dim), 3.0, dtype=encoder_outputs.dtype)
    encoder_outputs = ops.where(memory_mask[:, :, None], encoder_outputs, junk[:, :source])
    outside = ops.zeros((batch, padding), dtype="bool")
    return (
        ops.concatenate([encoder_outputs, junk[:, source:]], axis=1),
        ops.concatenate([ops.convert_to_tensor(memory_mask), outside], axis=1),
    )


def _float32_step(decoder):
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


def _float64(tensor):
    return ops.convert_to_numpy(ops.cast(tensor, "float32")).astype("float64")


def _check_arguments(decoder, target_ids, encoder_outputs, memory_mask):
    owner = "check_decoder"
    missing = [m for m in ("prepare", "start", "step") if not hasattr(decoder, m)]
    if missing or not callable(decoder):
        raise ValueError(
            f"{owner} expects a decoder with `prepare`, `start`, `step` and a full call. "
            f"Received: {decoder!r} without {', '.join(missing) or '__call__'}"
        )
    ids = int_tensor(owner, "target_ids", target_ids, 2, "int ids (batch, target)")
    if ids.shape[1] < 2:
        raise ValueError(
            f"{owner} expects at least two columns of `target_ids`, to reorder beams between "
            f"them. Received: target_ids.shape={tuple(ids.shape)}"
        )
    if ops.is_tensor(encoder_outputs) and len(encoder_outputs.shape) == 3:
        shape = tuple(encoder_outputs.shape[:2])
        checks.same_dim(owner, 0, target_ids=ids, encoder_outputs=encoder_outputs)
        checks.boolean_mask(owner, "memory_mask", memory_mask, shape, "(batch, source)")
