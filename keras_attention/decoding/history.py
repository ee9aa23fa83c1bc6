"""What a beam search remembers of its steps, and the way back through it.

Each step writes the codes of the alive hypotheses (see `hypotheses`) and the log-probabilities
they had before it, and the winners are read backwards from them at the end. So a step moves the
decoder's state and a few numbers, never `(batch, beam, target, source)`.
"""

from typing import NamedTuple

from keras import ops

from keras_attention.decoding.hypotheses import EXISTS, by_beam
from keras_attention.decoding.steps import pick, write


class History(NamedTuple):
    """What each step wrote.

    `codes` and `log_probs` are `(target, batch, beam)`, `alignments` `(…, source)` or (). Codes are
    those after the step, the others belong to the beams before it.
    """

    codes: object
    log_probs: object
    alignments: object


def no_history(max_length, batch, beam_width, alignment, keep_alignments):
    """Returns an empty history; the source length is that of the first `alignment`."""
    codes = ops.zeros((max_length, batch, beam_width), dtype="int32")
    log_probs = ops.zeros((max_length, batch, beam_width), dtype="float32")
    if not keep_alignments:
        return History(codes, log_probs, ())
    source = ops.shape(alignment)[1]
    alignments = ops.zeros((max_length, batch, beam_width, source), dtype="float32")
    return History(codes, log_probs, alignments)


def record(history, time, codes, log_probs, alignment):
    """Returns the history with a step written.

    Args:
        history: `History` so far.
        time: Scalar int tensor, the step.
        codes: Int32 `(batch, beam)`, after the step.
        log_probs: Float32 `(batch, beams)`, of the hypotheses before the step. In the first one
            there is one a row, and every hypothesis grows from it.
        alignment: Float32 `(batch * beams, source)`, of the same.
    """
    batch, beam_width = ops.shape(codes)
    beams = log_probs.shape[1]
    codes = write(history.codes, time, codes)
    alignments = history.alignments
    if not isinstance(alignments, tuple):
        alignment = by_beam(alignment, batch, beams)
        if beams != beam_width:
            alignment = ops.repeat(alignment, beam_width, axis=1)
        alignments = write(alignments, time, alignment)
    if beams != beam_width:
        log_probs = ops.repeat(log_probs, beam_width, axis=1)
    return History(codes, write(history.log_probs, time, log_probs), alignments)


def count_taken(history, finished, steps):
    """Returns how many tokens each row could take, int32 `(batch,)`, for a beam of one hypothesis.

    That is the length of its best finished one, or else the steps after which there was none alive.
    """
    written = ops.expand_dims(ops.arange(history.log_probs.shape[0], dtype="int32") < steps, 1)
    alive = written & (history.log_probs[:, :, 0] > EXISTS)
    alive = ops.sum(ops.cast(alive, "int32"), axis=0) - 1  # the first step has its root
    return ops.where(finished.lengths[:, 0] < 0, alive, finished.lengths[:, 0])


def trace_back(history, finished, steps, pad_id):
    """Returns what the finished hypotheses are made of, read from their ends.

    Args:
        history: `History` of a search.
        finished: `Finished`; its codes are where each hypothesis ends.
        steps: Scalar int tensor, the number of steps written.
        pad_id: Id for places past the end.

    Returns:
        Ids and the log-probabilities of the tokens, `(batch, beam, target)`, and alignments
        `(batch, beam, target, source)` or None.
    """
    max_length, _, beam_width = history.codes.shape

    def body(time, place, path):
        here = ops.take(history.codes, time, axis=0)
        code = ops.where(time == finished.lengths - 1, finished.codes, pick(here, place))
        inside = time < finished.lengths
        place = ops.where(inside, code % beam_width, place)
        return time - 1, place, write(path, time, ops.where(inside, code, pad_id * beam_width))

    path = ops.full(ops.shape(history.codes), pad_id * beam_width, dtype="int32")
    loop = (steps - 1, ops.zeros_like(finished.lengths), path)
    _, _, path = ops.while_loop(lambda time, place, path: time >= 0, body, loop)
    path = ops.transpose(path, (1, 2, 0))
    ids = path // beam_width
    batch = ops.shape(path)[0]
    times = ops.expand_dims(ops.arange(max_length, dtype="int32"), (0, 1))  # (1, 1, target)
    rows = ops.expand_dims(ops.arange(batch, dtype="int32"), (1, 2))  # (batch, 1, 1)
    places = (times * batch + rows) * beam_width + path % beam_width
    lengths = ops.expand_dims(finished.lengths, 2)
    before = ops.take(ops.reshape(history.log_probs, (-1,)), places, axis=0)
    after = ops.concatenate([before[:, :, 1:], before[:, :, :1]], axis=2)
    after = ops.where(times == lengths - 1, ops.expand_dims(finished.log_probs, 2), after)
    token_log_probs = ops.where(times < lengths, after - before, 0.0)
    if isinstance(history.alignments, tuple):
        return ids, token_log_probs, None

    source = ops.shape(history.alignments)[3]
    flat = ops.reshape(history.alignments, (max_length * batch * beam_width, source))
    alignments = ops.take(flat, places, axis=0)
    inside = ops.expand_dims(times < lengths, 3)
    return ids, token_log_probs, ops.where(inside, alignments, 0.0)
