"""Greedy search: the most probable token at each step.

    y_t = argmax_y p(y | y_1 .. y_{t-1}, source)

It equals `beam_search` with `beam_width=1` and no penalty, token for token. With a language model,
`fusion`, the largest log p + weight * log p_LM takes the place of the largest p.
"""

from keras_attention._utils.tensor_types import Step, Structure, Tensor, TensorLike
from keras_attention.search._indexing import gather_per_row
from keras_attention.search._log_probs import (
    POSSIBLE_THRESHOLD,
    compute_log_probs,
    softmax_denominator,
)
from keras_attention.search._search_spec import SearchSpec
from keras_attention.search._shallow_fusion_step import add_fusion_terms
from keras_attention.search._single_hypothesis import ChosenTokens, SingleLoop
from keras_attention.search.chunked_top_k import chunked_top_k
from keras_attention.search.constraints import Constraints
from keras_attention.search.shallow_fusion import ShallowFusion


def greedy_search(
    step: Step,
    state: Structure,
    memory: Structure,
    *,
    max_length: int,
    constraints: Constraints = Constraints(),
    fusion: ShallowFusion | None = None,
    return_alignments: bool = True,
) -> dict[str, Tensor]:
    """Returns the sequence of the most probable tokens of each batch element.

    Compile it; eagerly it is 10 to 250 times slower. Call it in a function under
    `@tf.function(autograph=False, jit_compile=True)`, on JAX under `@jax.jit`.

    Use it if speed matters more than the best quality. Of tokens with equal logits it takes the
    smallest id.

    Args:
        step: Callable `(ids, state, memory) -> (logits, state, alignment)`, as in `beam_search`,
            always called with `rows == batch`.
        state: Nest of tensors of shape `(batch, ...)`.
        memory: Passed to `step` unchanged.
        max_length: Positive int, the length limit and the width of the result. The EOS token
            counts.
        constraints: What a sequence may contain, and the special ids: a `Constraints`.
        fusion: None, or a `ShallowFusion`: a language model that chooses tokens too. `log_probs`
            stay those of `step`.
        return_alignments: Bool. Without alignments the search needs less memory.

    Returns:
        Dict of tensors: `ids` int32 `(batch, max_length)`, `lengths` int32 `(batch,)` including
        EOS, `log_probs` float32 `(batch,)`, `token_log_probs` float32 `(batch, max_length)`,
        whose sum is `log_probs`, and `alignments` float32 `(batch, max_length, source)`, both 0
        after the end.

        If constraints permit no token, a sequence stops without EOS.

    Raises:
        ValueError: If an argument is out of range, `step` violates its protocol, or it forbids a
            token of a prefix.

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
    loop = _make_greedy_loop(
        step,
        state,
        memory,
        max_length=max_length,
        constraints=constraints,
        fusion=fusion,
        return_alignments=return_alignments,
    )
    return loop.run()


def _make_greedy_loop(
    step, state, memory, *, max_length, constraints, fusion, return_alignments
) -> SingleLoop:
    """Returns the loop of `greedy_search`, whose arguments it takes."""
    search_spec = SearchSpec.from_arguments(
        "greedy_search", step, state, memory, max_length, constraints, fusion
    )

    def choose(logits, restricted, time, fusion_terms=None):
        if fusion_terms is None:
            ids, log_probs = select_most_probable(logits, restricted)
            return ChosenTokens(ids, (log_probs,), log_probs > POSSIBLE_THRESHOLD)
        log_probs = compute_log_probs(restricted, softmax_denominator(logits))
        best, ids = chunked_top_k(add_fusion_terms(log_probs, fusion_terms), 1)
        log_probs = gather_per_row(log_probs, ids)[:, 0]
        return ChosenTokens(ids[:, 0], (log_probs,), best[:, 0] > POSSIBLE_THRESHOLD)

    return SingleLoop(search_spec, choose, ("log_probs",), return_alignments)


def select_most_probable(logits: TensorLike, restricted: TensorLike) -> tuple[Tensor, Tensor]:
    """Returns the most probable permitted ids and their log-probabilities, `(rows,)`.

    Args:
        logits: Float32 tensor of shape `(rows, vocabulary)`.
        restricted: The same, with forbidden tokens at -2e9.
    """
    best, ids = chunked_top_k(restricted, 1)
    return ids[:, 0], compute_log_probs(best, softmax_denominator(logits))[:, 0]
