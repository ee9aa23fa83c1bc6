"""What a beam search remembers of its steps, and the way back through it.

Each step writes the codes of the alive hypotheses (see `hypotheses`), and the winners are read
backwards from them at the end. So a step moves the decoder's state and a few integers, never
`(batch, beam, target, source)`.
"""

from typing import NamedTuple

from keras import ops

from keras_attention.decoding.hypotheses import by_beam
from keras_attention.decoding.steps import pick, write


class History(NamedTuple):
    """What each step wrote: `codes` `(target, batch, beam)`, `alignments` `(…, source)` or ()."""

    codes: object
    alignments: object


def no_history(max_length, batch, beam_width, alignment, keep_alignments):
    """Returns an empty history; the source length is that of the first `alignment`."""
    codes = ops.zeros((max_length, batch, beam_width), dtype="int32")
    if not keep_alignments:
        return History(codes, ())
    source = ops.shape(alignment)[1]
    return History(codes, ops.zeros((max_length, batch, beam_width, source), dtype="float32"))


def record(history, time, codes, alignment, beams):
    """Returns the history with a step written.

    The alignment `(batch * beams, source)` of a beam is that of the hypothesis it held before
    the step. In the first step there is one a row, and every hypothesis grows from it.
    """
    batch, beam_width = ops.shape(codes)
    codes = write(history.codes, time, codes)
    if isinstance(history.alignments, tuple):
        return History(codes, ())
    alignment = by_beam(alignment, batch, beams)
    if beams != beam_width:
        alignment = ops.repeat(alignment, beam_width, axis=1)
    return History(codes, write(history.alignments, time, alignment))


def trace_back(history, finished, steps, pad_id):
    """Returns the ids and alignments of the finished hypotheses, read from their ends.

    Args:
        history: `History` of a search.
        finished: `Finished`; its codes are where each hypothesis ends.
        steps: Scalar int tensor, the number of steps written.
        pad_id: Id for places past the end.

    Returns:
        Ids `(batch, beam, target)`, and alignments `(batch, beam, target, source)` or None.
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
    if isinstance(history.alignments, tuple):
        return ids, None

    _, batch, _, source = ops.shape(history.alignments)
    times = ops.expand_dims(ops.arange(max_length, dtype="int32"), (0, 1))  # (1, 1, target)
    rows = ops.expand_dims(ops.arange(batch, dtype="int32"), (1, 2))  # (batch, 1, 1)
    places = (times * batch + rows) * beam_width + path % beam_width
    flat = ops.reshape(history.alignments, (max_length * batch * beam_width, source))
    inside = times < ops.expand_dims(finished.lengths, 2)
    alignments = ops.take(flat, places, axis=0)
    return ids, ops.where(ops.expand_dims(inside, 3), alignments, 0.0)
