"""Greedy search: the most probable token at each step.

    y_t = argmax_y p(y | y_1 .. y_{t-1}, source)

It equals `beam_search` with `beam_width=1` and no penalty, token for token.
"""

from collections.abc import Sequence

from keras_attention._utils.tensor_types import Step, Structure, Tensor, TensorLike
from keras_attention.search import _step_function
from keras_attention.search._chunked_top_k import chunked_top_k
from keras_attention.search._hypotheses import POSSIBLE_THRESHOLD
from keras_attention.search._search_spec import SearchSpec
from keras_attention.search._single import ChosenTokens, search_single_hypothesis


def greedy_search(
    step: Step,
    state: Structure,
    memory: Structure,
    *,
    max_length: int,
    max_lengths: TensorLike | None = None,
    min_length: int | TensorLike = 0,
    suppress_ids: Sequence[int] = (),
    no_repeat_ngram_size: int | None = None,
    prefix: TensorLike | None = None,
    prefix_lengths: TensorLike | None = None,
    return_alignments: bool = True,
    start_id: int = 2,
    end_id: int = 3,
    pad_id: int = 0,
) -> dict[str, Tensor]:
    """Returns the sequence of the most probable tokens of each batch element.

    Compile it; eagerly it is 10 to 250 times slower. Call it in a function under
    `@tf.function(autograph=False, jit_compile=True)`, on JAX under `@jax.jit`.

    Use it if speed matters more than the best quality. The arguments have the same meaning as in
    `beam_search`. Of tokens with equal logits it takes the smallest id.

    Args:
        step: Callable `(ids, state, memory) -> (logits, state, alignment)`, as in `beam_search`,
            always called with `rows == batch`.
        state: Nest of tensors of shape `(batch, ...)`.
        memory: Passed to `step` unchanged.
        max_length: Positive int, the length limit and the width of the result. The EOS token
            counts.
        max_lengths: Optional int tensor of shape `(batch,)`: the limit of each element, from 1 to
            `max_length`. Inside a compiled graph it is clipped to that range.
        min_length: Int, or an int tensor of shape `(batch,)`: no sequence ends with fewer tokens.
            `max_lengths` takes precedence over it.
        suppress_ids: Ids never produced, as in `beam_search`.
        no_repeat_ngram_size: None or a positive int, as in `beam_search`.
        prefix: None, or int ids `(batch, prefix)` to start with, as in `beam_search`.
        prefix_lengths: None, or an int tensor of shape `(batch,)`, as in `beam_search`.
        return_alignments: Bool. Without alignments the search needs less memory.
        start_id: Int, the BOS token, fed at the first step. Never produced, unless it equals
            `end_id`.
        end_id: Int, the EOS token, ends a sequence.
        pad_id: Int, padding after the end. Never produced.

    Returns:
        Dict of tensors: `ids` int32 `(batch, max_length)`, `lengths` int32 `(batch,)` including
        EOS, `log_probs` float32 `(batch,)`, `token_log_probs` float32 `(batch, max_length)`,
        whose sum is `log_probs`, and `alignments` float32 `(batch, max_length, source)`, both 0
        after the end.

        If constraints permit no token, a sequence stops without EOS. In a compiled graph it does
        so too if `step` forbids a token of its prefix.

    Raises:
        ValueError: If an argument is out of range, `step` violates its protocol, or it forbids a
            token of `prefix`.

    Example:

    >>> import keras
    >>> from keras_attention.search import greedy_search
    >>> def step(ids, state, memory):  # counts up: 4, 5, 6, then the end
    ...     following = keras.ops.where(ids == 2, 4, keras.ops.where(ids == 6, 3, ids + 1))
    ...     return keras.ops.one_hot(following, 7) * 9.0, state, keras.ops.zeros((len(ids), 1))
    >>> result = greedy_search(step, {}, keras.ops.zeros((1, 1)), max_length=6)
    >>> keras.ops.convert_to_numpy(result["ids"]).tolist()
    [[4, 5, 6, 3, 0, 0]]
    """
    special_ids = (start_id, end_id, pad_id)
    search_spec = SearchSpec.from_arguments(
        "greedy_search",
        step,
        state,
        memory,
        special_ids,
        max_length,
        max_lengths,
        min_length=min_length,
        suppress_ids=suppress_ids,
        no_repeat_ngram_size=no_repeat_ngram_size,
        prefix=prefix,
        prefix_lengths=prefix_lengths,
    )

    def choose(logits, restricted, time):
        ids, log_probs = select_most_probable(logits, restricted)
        return ChosenTokens(ids, (log_probs,), log_probs > POSSIBLE_THRESHOLD)

    return search_single_hypothesis(search_spec, choose, ("log_probs",), return_alignments)


def select_most_probable(logits: TensorLike, restricted: TensorLike) -> tuple[Tensor, Tensor]:
    """Returns the most probable permitted ids and their log-probabilities, `(rows,)`.

    Args:
        logits: Float32 tensor of shape `(rows, vocabulary)`.
        restricted: The same, with forbidden tokens at -2e9.
    """
    best, ids = chunked_top_k(restricted, 1)
    return ids[:, 0], _step_function.compute_log_probs(
        best, _step_function.softmax_denominator(logits)
    )[:, 0]
