"""Sampling: sequences drawn from what a step function says, a seed a row.

    y_t = argmax_v (logit_v + temperature * gumbel_v)     v among the tokens that are kept

which is a draw from softmax(logits / temperature) (Gumbel 1954), and at temperature 0 the
likeliest token, exactly. `drawing` says what is kept, `row_noise` where the noise comes from.
"""

from keras_attention.decoding import row_noise, steps
from keras_attention.decoding.drawing import Drawing
from keras_attention.decoding.hypotheses import EXISTS
from keras_attention.decoding.single import Choice, search_singly
from keras_attention.decoding.task import Task


def sample_search(
    step,
    state,
    memory,
    *,
    seed,
    temperature=1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    max_length: int,
    row_max_length=None,
    min_length=0,
    banned_ids=(),
    no_repeat_ngram: int | None = None,
    prefix=None,
    prefix_lengths=None,
    return_alignments: bool = True,
    start_id: int = 2,
    end_id: int = 3,
    pad_id: int = 0,
) -> dict:
    """Returns one sequence a row, drawn token by token.

    Compile it; eagerly it is 10 to 250 times slower. Call it in a function under
    `@tf.function(autograph=False, jit_compile=True)`, on JAX under `@jax.jit`.

    A row's answer depends on its own seed, state and memory alone: not on its place in the
    batch, its neighbors, the length limit of others, or whether the search is compiled. For
    several samples of a source, repeat its row with different seeds.

    Args:
        step: Callable `(ids, state, memory) -> (logits, state, alignment)`, as in `beam_search`,
            always called with `rows == batch`.
        state: Nest of tensors of shape `(batch, ...)`.
        memory: Handed to `step` as it is.
        seed: Int tensor of shape `(batch,)`, or `(batch, 2)` for 64 bits a row.
        temperature: Number from 0 to 1e6, or a float tensor of shape `(batch,)`, clipped to that
            range inside a compiled graph. Below 1 likely tokens become likelier; 0 is
            `greedy_search`.
        top_k: None, or a positive int: only so many tokens, the likeliest, can be drawn.
        top_p: None, or a number in (0, 1]: only the likeliest tokens can be drawn, the fewest
            whose tempered probabilities sum to at least `top_p`.
        max_length: Positive int, the length limit and the width of the result. The end mark
            counts.
        row_max_length: Optional int tensor of shape `(batch,)`, as in `beam_search`.
        min_length: Int, or an int tensor of shape `(batch,)`: no row ends with fewer tokens.
            A row's own `row_max_length` wins over it.
        banned_ids: Ids never drawn, as in `beam_search`.
        no_repeat_ngram: None or a positive int, as in `beam_search`.
        prefix: None, or int ids `(batch, prefix)` to start with, as in `beam_search`.
        prefix_lengths: None, or an int tensor of shape `(batch,)`, as in `beam_search`.
        return_alignments: Bool. Without alignments the search needs less memory.
        start_id: Int, fed at the first step. Never produced, unless it is the end id too.
        end_id: Int, ends a row.
        pad_id: Int, fills the ids after the end. Never produced.

    Returns:
        Dict of tensors: `ids` int32 `(batch, max_length)`; `lengths` int32 `(batch,)`, the end
        mark counted; `log_probs` float32 `(batch,)`, what the model says of the ids, as
        `score_sequences` computes it; `sample_log_probs` float32 `(batch,)`, the logarithm of
        the probability with which they were drawn, after temperature, constraints, `top_k` and
        `top_p`; `token_log_probs` float32 `(batch, max_length)`, whose sum is `log_probs`, and
        `alignments` float32 `(batch, max_length, source)`, both 0 after the end.

        A row that may go on with no token at all stops there, without an end mark; in a compiled
        graph also where `step` forbids a token of its prefix.

    Raises:
        ValueError: If an argument is out of range, `step` breaks its promises, or it forbids a
            token of `prefix`.

    Example:

    >>> import keras
    >>> from keras_attention.decoding import sample_search
    >>> def step(ids, state, memory):  # every token is equally likely
    ...     return keras.ops.zeros((len(ids), 8)), state, keras.ops.zeros((len(ids), 1))
    >>> def sample(*seeds):
    ...     state = {"rows": keras.ops.zeros((len(seeds), 1))}
    ...     result = sample_search(step, state, None, seed=keras.ops.array(seeds), max_length=5)
    ...     return keras.ops.convert_to_numpy(result["ids"]).tolist()
    >>> sample(7, 11, 7)[0] == sample(7)[0] == sample(11, 7)[1] != sample(11)[0]
    True
    """
    owner, special_ids = "sample_search", (start_id, end_id, pad_id)
    task = Task.checked(
        owner,
        step,
        state,
        memory,
        special_ids,
        max_length,
        row_max_length,
        min_length=min_length,
        banned_ids=banned_ids,
        no_repeat_ngram=no_repeat_ngram,
        prefix=prefix,
        prefix_lengths=prefix_lengths,
    )
    seeds = row_noise.seeds_of(owner, seed, task.run.batch)
    drawing = Drawing(owner, temperature, top_k, top_p, task.run.batch)

    def choose(logits, permitted, time):
        normalizer = steps.normalizers(logits)
        drawn = drawing(permitted, normalizer, row_noise.keys_at(seeds, time))
        log_probs = steps.log_probs_of(drawn.logits[:, None], normalizer)[:, 0]
        return Choice(drawn.ids, (log_probs, drawn.log_probs), log_probs > EXISTS)

    return search_singly(task, choose, ("log_probs", "sample_log_probs"), return_alignments)
