"""Sampling: sequences sampled from a step function, with a seed per batch element.

    y_t = argmax_v (logit_v + temperature * gumbel_v)     v among the candidate tokens

which samples from softmax(logits / temperature) (Gumbel 1954). At temperature 0 it is exactly the
most probable token. `_token_sampling` selects the candidates, `_stateless_random` makes the noise.
"""

from keras_attention._utils.tensor_types import Step, Structure, Tensor, TensorLike
from keras_attention.search import _stateless_random
from keras_attention.search._log_probs import (
    POSSIBLE_THRESHOLD,
    compute_log_probs,
    softmax_denominator,
)
from keras_attention.search._search_spec import SearchSpec
from keras_attention.search._single_hypothesis import ChosenTokens, SingleLoop
from keras_attention.search._token_sampling import TokenSampler
from keras_attention.search.constraints import Constraints


def sample_search(
    step: Step,
    state: Structure,
    memory: Structure,
    *,
    seed: TensorLike,
    temperature: float | TensorLike = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    max_length: int,
    constraints: Constraints = Constraints(),
    return_alignments: bool = True,
) -> dict[str, Tensor]:
    """Returns one sequence per batch element, sampled token by token.

    Compile it; eagerly it is 10 to 250 times slower. Call it in a function under
    `@tf.function(autograph=False, jit_compile=True)`, on JAX under `@jax.jit`.

    A result depends only on the element's own seed, state and memory: not on its place in the
    batch, the other elements, the length limits of others, or on compilation. For several samples
    of a source, repeat it in the batch with different seeds.

    Args:
        step: Callable `(ids, state, memory) -> (logits, state, alignment)`, as in `beam_search`,
            always called with `rows == batch`.
        state: Nest of tensors of shape `(batch, ...)`.
        memory: Passed to `step` unchanged.
        seed: Int tensor of shape `(batch,)`, or `(batch, 2)` for 64 bits per element.
        temperature: Number from 0 to 1e6, or a float tensor of shape `(batch,)`, clipped to that
            range inside a compiled graph. Below 1 it favors probable tokens; 0 is
            `greedy_search`.
        top_k: None, or a positive int: sample only from this many most probable tokens.
        top_p: None, or a number in (0, 1]: sample only from the most probable tokens, the fewest
            whose probabilities after temperature sum to at least `top_p`.
        max_length: Positive int, the length limit and the width of the result. The EOS token
            counts.
        constraints: What a sequence may contain, and the special ids: a `Constraints`.
        return_alignments: Bool. Without alignments the search needs less memory.

    Returns:
        Dict of tensors: `ids` int32 `(batch, max_length)`; `lengths` int32 `(batch,)`, including
        EOS; `log_probs` float32 `(batch,)`, the model's log-probability of the ids, as
        `score_sequences` computes it, unless `constraints` change the logits; `sample_log_probs`
        float32 `(batch,)`, the log-probability of sampling them, after temperature, constraints,
        `top_k` and `top_p`; `token_log_probs` float32 `(batch, max_length)`, whose sum is
        `log_probs`, and `alignments` float32 `(batch, max_length, source)`, both 0 after the end.

        If constraints permit no token, a sequence stops without EOS.

    Raises:
        ValueError: If an argument is out of range, `step` violates its protocol, or it forbids a
            token of a prefix.

    Example:

    >>> import keras
    >>> from keras_attention.search import sample_search
    >>> def step(ids, state, memory):  # every token is equally likely
    ...     return keras.ops.zeros((len(ids), 8)), state, keras.ops.zeros((len(ids), 1))
    >>> def sample(*seeds):
    ...     state = {"rows": keras.ops.zeros((len(seeds), 1))}
    ...     result = sample_search(step, state, None, seed=keras.ops.array(seeds), max_length=5)
    ...     return keras.ops.convert_to_numpy(result["ids"]).tolist()
    >>> sample(7, 11, 7)[0] == sample(7)[0] == sample(11, 7)[1] != sample(11)[0]
    True
    """
    loop = _make_sample_loop(
        step,
        state,
        memory,
        seed=seed,
        max_length=max_length,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        constraints=constraints,
        return_alignments=return_alignments,
    )
    return loop.run()


def _make_sample_loop(
    step,
    state,
    memory,
    *,
    seed,
    max_length,
    temperature,
    top_k,
    top_p,
    constraints,
    return_alignments,
) -> SingleLoop:
    """Returns the loop of `sample_search`, whose arguments it takes."""
    owner = "sample_search"
    search_spec = SearchSpec.from_arguments(owner, step, state, memory, max_length, constraints)
    seeds = _stateless_random.split_seeds(owner, seed, search_spec.checked_step.batch)
    sample_token = TokenSampler(owner, temperature, top_k, top_p, search_spec.checked_step.batch)

    def choose(logits, restricted, time):
        denominator = softmax_denominator(logits)
        sampled = sample_token(restricted, denominator, _stateless_random.derive_keys(seeds, time))
        log_probs = compute_log_probs(sampled.logits[:, None], denominator)[:, 0]
        return ChosenTokens(
            sampled.ids, (log_probs, sampled.log_probs), log_probs > POSSIBLE_THRESHOLD
        )

    return SingleLoop(search_spec, choose, ("log_probs", "sample_log_probs"), return_alignments)
