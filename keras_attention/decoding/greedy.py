"""Greedy search: the likeliest token at each step.

    y_t = argmax_y p(y | y_1 .. y_{t-1}, source)

It equals `beam_search` with `beam_width=1` and no penalty, token for token.
"""

from keras_attention.decoding import steps
from keras_attention.decoding.hypotheses import EXISTS
from keras_attention.decoding.single import Choice, search_singly
from keras_attention.decoding.task import Task
from keras_attention.decoding.top_tokens import top_tokens


def greedy_search(
    step,
    state,
    memory,
    *,
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
    """Returns the sequence that the likeliest token of each step makes.

    Compile it; eagerly it is 10 to 250 times slower. Call it in a function under
    `@tf.function(autograph=False, jit_compile=True)`, on JAX under `@jax.jit`.

    Use it where speed counts more than the last bit of quality. The arguments mean what they
    mean in `beam_search`. Of tokens with equal logits it takes the smallest id.

    Args:
        step: Callable `(ids, state, memory) -> (logits, state, alignment)`, as in `beam_search`,
            always called with `rows == batch`.
        state: Nest of tensors of shape `(batch, ...)`.
        memory: Handed to `step` as it is.
        max_length: Positive int, the length limit and the width of the result. The end mark
            counts.
        row_max_length: Optional int tensor of shape `(batch,)`: each row's own limit, from 1 to
            `max_length`. Inside a compiled graph it is clipped to that range.
        min_length: Int, or an int tensor of shape `(batch,)`: no row ends with fewer tokens.
            A row's own `row_max_length` wins over it.
        banned_ids: Ids never produced, as in `beam_search`.
        no_repeat_ngram: None or a positive int, as in `beam_search`.
        prefix: None, or int ids `(batch, prefix)` to start with, as in `beam_search`.
        prefix_lengths: None, or an int tensor of shape `(batch,)`, as in `beam_search`.
        return_alignments: Bool. Without alignments the search needs less memory.
        start_id: Int, fed at the first step. Never produced, unless it is the end id too.
        end_id: Int, ends a row.
        pad_id: Int, fills the ids after the end. Never produced.

    Returns:
        Dict of tensors: `ids` int32 `(batch, max_length)`, `lengths` int32 `(batch,)` with the
        end mark counted, `log_probs` float32 `(batch,)`, `token_log_probs` float32
        `(batch, max_length)`, whose sum they are, and `alignments` float32
        `(batch, max_length, source)`, both 0 after the end.

        Under constraints a row that may go on with no token stops there, without an end mark; in a
        compiled graph also where `step` forbids a token of its prefix.

    Raises:
        ValueError: If an argument is out of range, `step` breaks its promises, or it forbids a
            token of `prefix`.

    Example:

    >>> import keras
    >>> from keras_attention.decoding import greedy_search
    >>> def step(ids, state, memory):  # counts up: 4, 5, 6, then the end
    ...     following = keras.ops.where(ids == 2, 4, keras.ops.where(ids == 6, 3, ids + 1))
    ...     return keras.ops.one_hot(following, 7) * 9.0, state, keras.ops.zeros((len(ids), 1))
    >>> result = greedy_search(step, {}, keras.ops.zeros((1, 1)), max_length=6)
    >>> keras.ops.convert_to_numpy(result["ids"]).tolist()
    [[4, 5, 6, 3, 0, 0]]
    """
    special_ids = (start_id, end_id, pad_id)
    task = Task.checked(
        "greedy_search",
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

    def choose(logits, permitted, time):
        ids, log_probs = likeliest(logits, permitted)
        return Choice(ids, (log_probs,), log_probs > EXISTS)

    return search_singly(task, choose, ("log_probs",), return_alignments)


def likeliest(logits, permitted):
    """Returns the likeliest permitted id of each row and its log-probability, `(rows,)`.

    Args:
        logits: Float32 tensor of shape `(rows, vocabulary)`.
        permitted: The same, with what may not be produced at -2e9.
    """
    best, ids = top_tokens(permitted, 1)
    return ids[:, 0], steps.log_probs_of(best, steps.normalizers(logits))[:, 0]
