"""Minimum Bayes risk: of several texts, the one most like all others.

    h* = argmax_h sum_r w_r utility(h, r)                 h of the hypotheses, r of the references

Kumar and Byrne 2004 (https://aclanthology.org/N04-1022); with samples as references, which estimate
the expectation under the model, Eikema and Aziz 2020 (https://arxiv.org/abs/2005.10283).
"""

import collections
import math
import numbers
from collections.abc import Callable, Sequence

import numpy as np

from keras_attention import validation

#: The utilities that have a name: the score of one text by sacrebleu, from 0 to 100.
UTILITIES = ("chrf", "bleu")


def minimum_bayes_risk(
    hypotheses: Sequence[str],
    utility: str | Callable[[str, str], float] = "chrf",
    *,
    references: Sequence[str] | None = None,
    weights: Sequence[float] | np.ndarray | None = None,
) -> tuple[int, np.ndarray]:
    """Returns which hypothesis has the highest expected utility, and that of each of them.

    Call it with samples of one source, which count alike, or with an n-best list and the
    probabilities of its texts as `weights`. It runs in Python, outside of the model. Equal texts
    are compared once: distinct hypotheses times distinct references are the calls of `utility`.

    Args:
        hypotheses: List of strings, at least one, to choose from.
        utility: `"chrf"` or `"bleu"`, the sentence score of sacrebleu, or a callable `(hypothesis,
            reference) -> float`, larger for more similar texts.
        references: List of strings to compare with; None for the hypotheses themselves.
        weights: None for equal weights, or a number of at least 0 for each reference, not all 0.
            They are divided by their sum.

    Returns:
        Tuple of the index of the best hypothesis, of equal ones the first, and the expected
        utilities, float64 `(len(hypotheses),)`.

    Raises:
        ImportError: If sacrebleu is not installed and `utility` is a name.
        ValueError: If an argument is out of range, or `utility` returns no finite number.

    Example:

    >>> from keras_attention.search import minimum_bayes_risk
    >>> def jaccard(hypothesis, reference):
    ...     one, other = set(hypothesis.split()), set(reference.split())
    ...     return len(one & other) / len(one | other)
    >>> samples = ["the cat sleeps", "a dog", "the cat slept", "the old cat slept"]
    >>> best, expected = minimum_bayes_risk(samples, jaccard)
    >>> samples[best], expected.round(4).tolist()
    ('the cat slept', [0.475, 0.25, 0.5625, 0.5375])
    """
    owner = "minimum_bayes_risk"
    hypotheses = _check_texts(owner, "hypotheses", hypotheses)
    if references is None:
        references = hypotheses
    else:
        references = _check_texts(owner, "references", references)
    shares = collections.Counter()
    for text, weight in zip(references, _normalize(owner, weights, len(references)), strict=True):
        shares[text] += weight
    compare = _get_utility(owner, utility)
    expected = {
        text: math.fsum(
            weight * _check_utility(owner, compare(text, reference))
            for reference, weight in shares.items()
            if weight > 0
        )
        for text in dict.fromkeys(hypotheses)
    }
    utilities = np.array([expected[text] for text in hypotheses], "float64")
    return int(np.argmax(utilities)), utilities


def _check_texts(owner, name, texts):
    is_list = isinstance(texts, Sequence) and not isinstance(texts, (str, bytes))
    if not is_list or not len(texts) or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"{owner} expects `{name}` to be a list of at least one string. "
            f"Received: {name}={texts!r}"
        )
    return list(texts)


def _normalize(owner, weights, count):
    if weights is None:
        return [1.0 / count] * count
    array = np.asarray(weights)
    numeric = array.dtype.kind in "fiu" and array.shape == (count,)
    if not numeric or not np.isfinite(array).all() or array.min() < 0 or not array.any():
        raise ValueError(
            f"{owner} expects `weights` to be {count} numbers of at least 0, one for each "
            f"reference, not all 0. Received: weights={weights!r}"
        )
    array = array.astype("float64") / array.max()  # so that no sum overflows
    return (array / array.sum()).tolist()


def _get_utility(owner, utility):
    """Returns a callable `(hypothesis, reference) -> float`."""
    if callable(utility):
        return utility
    validation.check_one_of(owner, "utility", utility, UTILITIES, "Or a callable.")
    try:
        from sacrebleu.metrics import BLEU, CHRF
    except ModuleNotFoundError as error:
        purpose = f"{owner} with utility={utility!r}"
        raise validation.missing_package_error(purpose, "sacrebleu", "metrics") from error
    # effective_order: a short text has no n-grams of four words.
    metric = CHRF() if utility == "chrf" else BLEU(effective_order=True)
    return lambda hypothesis, reference: metric.sentence_score(hypothesis, [reference]).score


def _check_utility(owner, value):
    if not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ValueError(
            f"{owner} expects `utility` to return a finite number. Received: {value!r}"
        )
    return float(value)
