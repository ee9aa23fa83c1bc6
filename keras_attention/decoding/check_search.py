"""A beam search over a step function of one's own, held against what it promises.

Each promise is checked by computing the same thing in another way: feeding the tokens one after
another, searching without early stopping, a row alone, greedily, exhaustively, compiled.
"""

from keras_attention import checks
from keras_attention.decoding.eager import expect_eager_searches
from keras_attention.decoding.promises import Inputs, Promises


def check_beam_search(
    step,
    state,
    memory,
    *,
    beam_width: int = 3,
    max_length: int = 6,
    length_penalty=None,
    coverage_penalty=None,
    memory_mask=None,
    reorder=None,
    take_rows=None,
    jit_compile: bool = False,
    tolerance: float = 1e-4,
    start_id: int = 2,
    end_id: int = 3,
    pad_id: int = 0,
) -> float:
    """Raises unless a beam search over `step` keeps its promises.

    For the tests of a decoder of your own, beside `check_decoder`. The promises:

    * every log-probability, of a token and in all, score and alignment is that of feeding the
      returned ids to `step`;
    * hypotheses are sorted, distinct, and well formed, with fillers only at the end;
    * stopping early changes nothing;
    * a row is answered alone as in any batch;
    * a beam of one is the greedy search;
    * where there are few sequences, a wide beam finds them all, in order;
    * a compiled search answers as an eager one (on the TensorFlow backend).

    Where a promise fails, `step` mixes up rows or beams, keeps something between calls, or reads
    its position from somewhere else than its state, far more often than the search is wrong.

    Args:
        step: Callable `(ids, state, memory) -> (logits, state, alignment)`, as in `beam_search`.
        state: Nest of tensors of shape `(batch, ...)`; two rows or more find more.
        memory: Handed to `step`.
        beam_width: Positive int.
        max_length: Positive int. A few steps suffice.
        length_penalty: As in `beam_search`.
        coverage_penalty: As in `beam_search`.
        memory_mask: Boolean tensor of shape `(batch, source)`, or None. With it, alignments
            have to be 0 where it is False.
        reorder: As in `beam_search`: a decoder's own way to reorder its state, or None.
        take_rows: Callable `(memory, rows) -> memory` with only some batch rows, `rows` a list
            of ints. By default every tensor in `memory` whose first axis is the batch is taken
            apart, and the rest is left alone.
        jit_compile: Bool, whether XLA compiles the search as well, which takes some seconds.
        tolerance: Number, the largest difference of a log-probability, relative where it is
            large. Ids may differ only where scores are closer than that.
        start_id: Int, as in `beam_search`.
        end_id: Int, as in `beam_search`.
        pad_id: Int, as in `beam_search`.

    Returns:
        The largest difference between a log-probability and teacher forcing, a float.

    Raises:
        AssertionError: If a promise is broken; the message names it, with the row and the place.
        ValueError: If an argument is wrong, or `step` breaks its protocol.

    Example:

    >>> import keras
    >>> from keras_attention.decoding import check_beam_search
    >>> table = keras.random.normal((7, 7), seed=1)
    >>> def step(ids, state, memory):
    ...     logits = keras.ops.take(table, (ids + state["sum"]) % 7, axis=0)
    ...     return logits, {"sum": state["sum"] + ids}, logits[:, :1] * 0.0
    >>> state = {"sum": keras.ops.array([0, 3])}
    >>> check_beam_search(step, state, None, max_length=4) < 1e-5
    True
    """
    checks.positive_int("check_beam_search", "beam_width", beam_width)
    checks.number_in_range("check_beam_search", "tolerance", tolerance, 0)
    special = {"start_id": start_id, "end_id": end_id, "pad_id": pad_id}
    ranked = {"length_penalty": length_penalty, "coverage_penalty": coverage_penalty}
    checked = Promises(step, reorder, tolerance, special)
    inputs = Inputs(state, memory, memory_mask, take_rows)
    options = {"beam_width": beam_width, "max_length": max_length, **ranked}

    with expect_eager_searches():
        found = checked.search(inputs, **options)
        worst = checked.teacher_forcing(inputs, found, ranked)
        checked.well_formed(found, max_length)
        checked.stopping(inputs, found, options, ranked)
        checked.batches(inputs, found, options, ranked)
        checked.greedy(inputs, max_length)
        checked.exhaustive(inputs, max_length, ranked)
        checked.compiled(inputs, found, options, ranked, jit_compile)
    return worst
