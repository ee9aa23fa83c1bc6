"""Estimates the memory of a beam search before it is traced.

A beam search of one text with a vocabulary of V, S source tokens and outputs of T tokens holds,
for each beam,

    12 V               logits, log-probabilities and constrained log-probabilities
    16 min(V, 2 beams) the candidates; 3 beams with two EOS tokens, and so on
    12 T               the tokens of every step, their parents, the output
    24 T               in addition, with an n-gram size, a repetition penalty or a processor
    48 T               in addition, with the tree: its ids, parents, log-probabilities, and packed
    12 T S             alignments, as written by the steps and as returned
    16 V               in addition, with a language model: its logits, log-probabilities, their
                       terms, and the sums
    24 S               scores and weights of a step, and the sums of a coverage penalty
    2 state            the states of the decoder and the language model, before and after they are
                       reordered

bytes. The estimate excludes the intermediate results of layers.
"""

import tensorflow as tf

from keras_attention.export._pipeline import IDS
from keras_attention.export._tf_functions import MAX_CHUNK_SIZE, make_tf_function
from keras_attention.export.length_limits import DEFAULT_MAX_SOURCE_LENGTH

MAX_SEARCH_BYTES = 32 * 2**30  # of all examples of a batch


def check_search_ram(pipeline, search, xla_buckets=None):
    """Raises if a search takes more than 32 GiB for the largest batch.

    The largest batch has 64 texts, or the largest batch size of a compiled search. Sources have 512
    tokens, or fewer if the export truncates them, or the longest compiled length.

    Args:
        pipeline: A `TranslationPipeline`.
        search: The `SearchOptions`.
        xla_buckets: An `XLABuckets`, or None.

    Raises:
        ValueError: With the estimate and the limit.
    """
    rows, source = (
        MAX_CHUNK_SIZE,
        min(pipeline.max_source_length or DEFAULT_MAX_SOURCE_LENGTH, DEFAULT_MAX_SOURCE_LENGTH) + 1,
    )
    if xla_buckets is not None:
        rows, source = xla_buckets.batch_sizes[-1], xla_buckets.source_lengths[-1]
    vocabulary, length = pipeline.num_logits, pipeline.max_length
    beam_width, needs_ids = search.beam_width, search.constraints.needs_ids(length)
    compared = (1 + len(search.constraints.special_ids.end_ids)) * beam_width
    fusion = search.fusion

    def check(state):
        per_beam = (12 if fusion is None else 28) * vocabulary + 16 * min(vocabulary, compared)
        per_beam += (36 if needs_ids else 12) * length
        per_beam += 48 * length if search.options.return_tree else 0
        per_beam += 12 * length * source + 24 * source + 2 * state
        total = rows * beam_width * per_beam
        if total > MAX_SEARCH_BYTES:
            received, smaller = f"beam_width={beam_width}, max_length={length}", ""
            if xla_buckets is not None:
                received += f", batches of {rows}, sources of {source} tokens"
                smaller = ", or smaller sizes to compile for"
            raise ValueError(
                f"A beam search is expected to take at most {MAX_SEARCH_BYTES / 1e9:.1f} GB for "
                f"a batch of {rows} text(s). Choose a smaller `beam_width` or "
                f"`max_length`{smaller}. Received: {received}, about {total / 1e9:,.1f} GB"
            )

    check(0)  # refuse sizes that are too large to trace
    state = _count_state_bytes(pipeline, source)
    if fusion is not None:
        leaves = map(tf.convert_to_tensor, tf.nest.flatten(fusion.language_model.start(1)))
        state += sum(leaf.dtype.size * leaf.shape.num_elements() for leaf in leaves)
    check(state)


def _count_state_bytes(pipeline, source):
    """Returns the bytes of a decoder's state for one hypothesis; `source` is in tokens."""
    length = tf.TensorSpec([None], tf.int32)
    start = make_tf_function(
        lambda ids, length: pipeline.start_decoding(ids, length)[0], IDS, length
    )
    total = 0
    for leaf in tf.nest.flatten(start.get_concrete_function().structured_outputs):
        size = leaf.dtype.size
        for dimension in leaf.shape[1:]:
            size *= source if dimension is None else dimension
        total += size
    return total
