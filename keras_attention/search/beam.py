"""Beam search, Graves 2012 (https://arxiv.org/abs/1211.3711) to Wu et al. 2016.

    score(y) = log p(y) / lp(|y|) + cp(y)

With a language model, `fusion`, log p(y) + weight * log p_LM(y) takes the place of log p(y).

Each step compares the `2 * beam` most probable continuations of a batch element, and `beam` more
for each further EOS token. Those that end go to a pool of finished hypotheses, either if they are
among the best `beam` (fairseq, Hugging Face) or among the best `2 * beam` (tensor2tensor, t5x), and
`beam` others stay alive. A batch element stops once no live hypothesis can beat the worst of `beam`
finished ones. At its length limit the live ones are ranked too.
"""

from keras_attention._utils.tensor_types import Step, Structure, Tensor
from keras_attention.search._beam_loop import BeamLoop
from keras_attention.search._log_probs import IMPOSSIBLE
from keras_attention.search.beam_options import BeamOptions
from keras_attention.search.constraints import Constraints
from keras_attention.search.penalties import LengthPenalty
from keras_attention.search.shallow_fusion import ShallowFusion

#: The score and log-probability of a padding hypothesis; those of real ones are higher.
PADDING_SCORE = IMPOSSIBLE


def beam_search(
    step: Step,
    state: Structure,
    memory: Structure,
    *,
    max_length: int,
    beam_width: int = 4,
    length_penalty: LengthPenalty | float | None = None,
    constraints: Constraints = Constraints(),
    options: BeamOptions = BeamOptions(),
    fusion: ShallowFusion | None = None,
    return_alignments: bool = True,
) -> dict[str, Tensor]:
    """Returns the best `beam_width` sequences of each batch element, found by beam search.

    Compile it; eagerly it is 10 to 100 times slower. Call it in a function under
    `@tf.function(autograph=False, jit_compile=True)`, on JAX under `@jax.jit`.

    It works with any model: `step` maps ids and a state to logits, the next state and an
    alignment; see `BahdanauDecoder.step` for one. The whole search is one loop, for any batch size
    and source length.

    Batch elements never influence each other. A log-probability is that of exactly the returned
    ids, including EOS, as `score_sequences` computes it, unless `constraints` change the logits;
    nothing is added after the end.

    Args:
        step: Callable `(ids, state, memory) -> (logits, state, alignment)`. `ids` are int32 of
            shape `(rows,)`, the BOS token at first; the logits are `(rows, vocabulary)` with a
            static vocabulary, the alignment is `(rows, source)`. The first call has
            `rows == batch`, the later ones `rows == batch * beam_width`, with the beams of a
            batch element next to each other.
        state: Nest (dicts, lists, tuples) of tensors of shape `(batch, ...)`. The search repeats
            every leaf for the beams and reorders it as hypotheses are dropped. Shapes and
            dtypes must stay the same from step to step.
        memory: The source's tensors that `step` needs. Passed to it unchanged.
        max_length: Positive int, the length limit and the width of the result. The EOS token
            counts.
        beam_width: Positive int, the number of hypotheses to keep and to return.
        length_penalty: None to rank by log-probability, the alpha of a `GNMTLengthPenalty`, or a
            callable such as one or `AverageLengthPenalty`.
        constraints: What a hypothesis may contain, and the special ids: a `Constraints`.
        options: How the beam ranks and stops: a `BeamOptions`.
        fusion: None, or a `ShallowFusion`: a language model that ranks hypotheses too.
        return_alignments: Bool. Without alignments the search needs less memory.

    Returns:
        Dict of tensors, the best hypothesis of a batch element first:

        * `ids`: int32 `(batch, beam_width, max_length)`, padding after the end;
        * `lengths`: int32 `(batch, beam_width)`, including EOS; a hypothesis that reached
          the limit has no EOS;
        * `log_probs`: float32 `(batch, beam_width)`, summed;
        * `scores`: float32 `(batch, beam_width)`, with the language model and the penalties
          applied, at least -9e8, which a strongly negative exponent of a length penalty could
          exceed;
        * `token_log_probs`: float32 `(batch, beam_width, max_length)`, whose sum is `log_probs`, 0
          after the end;
        * `alignments`: float32 `(batch, beam_width, max_length, source)`, 0 after the end.

        With `options.return_tree` also three of shape `(batch, max_length, 2 * beam_width)`: int32
        `tree_ids`, int32 `tree_parents` and float32 `tree_log_probs`. In each step the first
        `beam_width` entries are the hypotheses that stay alive, the others those that ended there
        and are returned. An entry is its last token, the place of its parent in the step before,
        and its log-probability so far; -1e9 marks places without a hypothesis.

        If there are fewer hypotheses than `beam_width`, padding hypotheses come last: length -1,
        no ids, log-probability and score -1e9, token log-probabilities 0. A token with a logit of
        -1e9 or less beside larger ones is impossible.

    Raises:
        ValueError: If an argument is out of range, `step` violates its protocol, or it forbids a
            token of a prefix.

    Example:

    >>> import keras
    >>> from keras_attention.search import beam_search
    >>> table = keras.ops.log(keras.ops.array(  # p(next | last): 4 follows the start, 3 ends
    ...     [[.2] * 5, [.2] * 5, [.0, .1, .0, .3, .6], [.2] * 5, [.0, .1, .0, .7, .2]]) + 1e-9)
    >>> def step(ids, state, memory):
    ...     return keras.ops.take(table, ids, axis=0), state, keras.ops.zeros((len(ids), 1))
    >>> result = beam_search(step, {}, keras.ops.zeros((1, 1)), beam_width=2, max_length=5)
    >>> keras.ops.convert_to_numpy(result["ids"])[0].tolist()
    [[4, 3, 0, 0, 0], [3, 0, 0, 0, 0]]

    Source: Wu et al. 2016 (https://arxiv.org/abs/1609.08144), section 7.
    """
    loop = BeamLoop(
        step,
        state,
        memory,
        max_length=max_length,
        beam_width=beam_width,
        length_penalty=length_penalty,
        constraints=constraints,
        options=options,
        fusion=fusion,
        return_alignments=return_alignments,
    )
    return loop.run()
