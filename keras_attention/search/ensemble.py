"""Ensembles: several models decoded as one.

    log p(v) = sum_m w_m log p_m(v) - log Z              "log_probs", the geometric mean
    log p(v) = log sum_m w_m p_m(v)                      "probabilities", the arithmetic mean

with weights that sum to 1. If one model gives a token probability 0, the first rules it out, the
second does not. Sutskever et al. 2014 (https://arxiv.org/abs/1409.3215) decode with five models.
"""

import numbers
from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_attention import validation
from keras_attention._utils.tensor_types import Step, Tensor, TensorLike
from keras_attention.search._checked_step import find_capacity
from keras_attention.search._log_probs import IMPOSSIBLE, POSSIBLE_THRESHOLD

AVERAGES = ("log_probs", "probabilities")


def ensemble_step(
    steps: Sequence[Step],
    weights: Sequence[float] | None = None,
    *,
    average: str = "log_probs",
    alignment: str | int = "mean",
) -> Step:
    """Returns a step function that averages the predictions of several models.

    Search with it as with any other step function. Pass a list of states, one per model, as
    `state`, and a list of memories as `memory`. The models must share the vocabulary and the
    special ids; their states, sources and sizes may differ.

    Args:
        steps: List of callables `(ids, state, memory) -> (logits, state, alignment)`.
        weights: None for equal weights, or a list or array of numbers of at least 0, one per
            model, whose sum is positive. They are divided by their sum.
        average: `"log_probs"` averages log-probabilities, which a search normalizes again;
            `"probabilities"` averages probabilities.
        alignment: `"mean"`, the weighted mean of the models' alignments, for models that attend
            to the same source positions; or the index of the model whose alignment is returned.

    Returns:
        Callable `step(ids, states, memories) -> (logits, states, alignment)`. The logits are
        log-probabilities, float32 `(rows, vocabulary)`; impossible tokens are at -1e9 or less.

    Raises:
        ValueError: If an argument is invalid, or the models do not fit together.

    Example:

    >>> import keras
    >>> from keras_attention.search import ensemble_step, greedy_search
    >>> def always(token):  # a model that almost always predicts `token`
    ...     def step(ids, state, memory):
    ...         logits = keras.ops.one_hot(keras.ops.zeros_like(ids) + token, 7) * 5.0
    ...         return logits, state, keras.ops.zeros((len(ids), 1))
    ...     return step
    >>> step = ensemble_step([always(4), always(5)], weights=[0.4, 0.6])
    >>> states, memories = [{}, {}], [keras.ops.zeros((1, 1))] * 2
    >>> result = greedy_search(step, states, memories, max_length=3)
    >>> keras.ops.convert_to_numpy(result["ids"]).tolist()
    [[5, 5, 5]]
    """
    models = _check_steps(steps)
    normalized_weights = normalize_weights("ensemble_step", weights, len(models))
    validation.check_one_of("ensemble_step", "average", average, AVERAGES)
    if alignment != "mean" and alignment not in range(len(models)):
        raise ValueError(
            f"ensemble_step expects `alignment` to be 'mean' or the index of a model, 0 to "
            f"{len(models) - 1}. Received: alignment={alignment!r}"
        )

    def step(ids, states, memories):
        for name, values in (("state", states), ("memory", memories)):
            if not isinstance(values, (list, tuple)) or len(values) != len(models):
                raise ValueError(
                    f"ensemble_step expects `{name}` to be a list with one entry for each of the "
                    f"{len(models)} models. Received: {name}={values!r}"
                )
        results = [
            model(ids, state, memory)
            for model, state, memory in zip(models, states, memories, strict=True)
        ]
        logits, after, alignments = zip(*results, strict=True)
        return (
            average_predictions(logits, normalized_weights, average),
            type(states)(after),
            average_alignments(alignments, normalized_weights, alignment),
        )

    def get_capacity(states):
        capacities = map(find_capacity, models, states)
        return min((capacity for capacity in capacities if capacity is not None), default=None)

    step.get_capacity = get_capacity
    return step


def log_softmax(logits: TensorLike) -> Tensor:
    """Returns float32 log-probabilities of at least -1e9, also for logits of -inf."""
    logits = ops.maximum(ops.cast(logits, "float32"), 2 * IMPOSSIBLE)
    return ops.maximum(ops.log_softmax(logits, axis=-1), IMPOSSIBLE)


def average_predictions(
    logits: Sequence[TensorLike], normalized_weights: Sequence[float], average: str
) -> Tensor:
    """Returns the logits of what several models predict together; their softmax is the average.

    Args:
        logits: The logits `(..., vocabulary)` of each model.
        normalized_weights: The weight of each, numbers that sum to 1.
        average: As `ensemble_step` takes it.
    """
    _check_sizes(logits, "logits", "The models must share a vocabulary.")
    log_probs = [log_softmax(values) for values in logits]
    if average == "probabilities":
        return _average_probabilities(log_probs, normalized_weights)
    return _average_log_probs(log_probs, normalized_weights)


def _average_probabilities(log_probs, normalized_weights):
    """Returns the logarithm of the mean of probabilities."""
    counted = [
        (x, weight) for x, weight in zip(log_probs, normalized_weights, strict=True) if weight > 0.0
    ]
    shifted = [x + float(np.log(weight)) for x, weight in counted]
    return shifted[0] if len(shifted) == 1 else ops.logsumexp(ops.stack(shifted), axis=0)


def _average_log_probs(log_probs, normalized_weights):
    """Returns the mean of log-probabilities, or an impossible value if one is impossible."""
    counted = [x for x, weight in zip(log_probs, normalized_weights, strict=True) if weight > 0.0]
    lowest = counted[0]
    for other in counted[1:]:
        lowest = ops.minimum(lowest, other)
    return ops.where(
        lowest <= POSSIBLE_THRESHOLD, 2 * IMPOSSIBLE, _weighted_mean(log_probs, normalized_weights)
    )


def _weighted_mean(tensors, normalized_weights):
    total = None
    for tensor, weight in zip(tensors, normalized_weights, strict=True):
        if weight == 0.0:
            continue
        part = tensor if weight == 1.0 else weight * tensor
        total = part if total is None else total + part
    return total


def average_alignments(
    alignments: Sequence[TensorLike],
    normalized_weights: Sequence[float],
    choice: str | int = "mean",
) -> Tensor:
    """Returns the weighted mean of alignments `(..., source)`, or the chosen one of them."""
    if choice != "mean":
        return alignments[choice]
    way_out = "Pass the index of a model as `alignment=` to use its alignment."
    _check_sizes(alignments, "alignments", way_out)
    return _weighted_mean([ops.cast(a, "float32") for a in alignments], normalized_weights)


def _check_sizes(tensors, name, way_out):
    sizes = {tensor.shape[-1] for tensor in tensors} - {None}
    if len(sizes) > 1:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
        raise ValueError(
            f"ensemble_step expects {name} of equal width. {way_out} Received: shapes {shapes}"
        )


def _check_steps(steps):
    if not isinstance(steps, (list, tuple)) or not steps or not all(map(callable, steps)):
        raise ValueError(
            f"ensemble_step expects `steps` to be a list of at least one step function. "
            f"Received: steps={steps!r}"
        )
    return tuple(steps)


def normalize_weights(owner: str, weights: Sequence[float] | None, count: int) -> list[float]:
    """Returns the weights of `ensemble_step` divided by their sum, equal ones if None.

    Args:
        owner: Name of the function or class that the user called.
        weights: As `ensemble_step` takes them.
        count: Number of models.

    Raises:
        ValueError: If they are not as `ensemble_step` takes them.
    """
    if weights is None:
        return [1.0 / count] * count
    if isinstance(weights, np.ndarray):
        weights = weights.tolist()
    real = isinstance(weights, (list, tuple)) and all(
        isinstance(w, numbers.Real) and not isinstance(w, bool) and 0 <= w < float("inf")
        for w in weights
    )
    if not real or len(weights) != count or not 0 < sum(weights) < float("inf"):
        raise ValueError(
            f"{owner} expects `weights` to be {count} numbers of at least 0, one per model, "
            f"not all 0. Received: weights={weights!r}"
        )
    return [float(weight) / float(sum(weights)) for weight in weights]
