"""How much memory a beam search takes, estimated before it is traced.

A beam search of one text with a vocabulary of V, S source tokens and outputs of T tokens holds,
for each of its beams,

    12 V               logits, log-probabilities and what is permitted of them
    16 min(V, 2 beams) the continuations that are compared
    12 T               the tokens of every step, their parents, the output
    24 T               more, where no n-gram may stand twice
    12 T S             alignments, from step to step and in order
    24 S               scores and weights of a step, and what a coverage penalty sums up
    2 state            the decoder's state, before and after it is reordered

bytes. What a layer computes in a step is not among them.
"""

import tensorflow as tf

from keras_attention.export.graphs import MOST_ROWS, traced
from keras_attention.export.limits import SOURCE_LIMIT
from keras_attention.export.translating import IDS

MAX_BYTES = 32 * 2**30  # of all rows that search together


def check_search_memory(translating, beam_width, no_repeat_ngram=None, compilation=None):
    """Raises if a search takes more than 32 GiB for the texts that are searched together.

    These are 64, or as many as the largest batch size of a compiled search. Sources are taken to
    have 512 tokens, fewer if the export cuts them there, or the longest that is compiled.

    Args:
        translating: A `Translating`.
        beam_width: Number of hypotheses.
        no_repeat_ngram: As the search takes it.
        compilation: A `Compilation`, or None.

    Raises:
        ValueError: With the estimate and the limit.
    """
    rows, source = MOST_ROWS, min(translating.max_source_length or SOURCE_LIMIT, SOURCE_LIMIT) + 1
    if compilation is not None:
        rows, source = compilation.batch_sizes[-1], compilation.source_lengths[-1]
    vocabulary, length = translating.num_logits, translating.max_length

    def check(state):
        per_beam = 12 * vocabulary + 16 * min(vocabulary, 2 * beam_width)
        per_beam += (12 if no_repeat_ngram is None else 36) * length
        per_beam += 12 * length * source + 24 * source + 2 * state
        total = rows * beam_width * per_beam
        if total > MAX_BYTES:
            received, smaller = f"beam_width={beam_width}, max_length={length}", ""
            if compilation is not None:
                received += f", batches of {rows}, sources of {source} tokens"
                smaller = ", or smaller sizes to compile for"
            raise ValueError(
                f"A beam search is expected to take at most {MAX_BYTES / 1e9:.1f} GB for the "
                f"{rows} text(s) that are searched together. Choose a smaller `beam_width` or "
                f"`max_length`{smaller}. Received: {received}, about {total / 1e9:,.1f} GB"
            )

    check(0)  # numbers that no graph could hold are refused before one is made
    check(_state_bytes(translating, source))


def _state_bytes(translating, source):
    """The bytes of a decoder's state for one hypothesis of a source of so many tokens."""
    length = tf.TensorSpec([None], tf.int32)
    start = traced(lambda ids, length: translating.encode(ids, length)[0], IDS, length)
    total = 0
    for leaf in tf.nest.flatten(start.get_concrete_function().structured_outputs):
        size = leaf.dtype.size
        for dimension in leaf.shape[1:]:
            size *= source if dimension is None else dimension
        total += size
    return total
