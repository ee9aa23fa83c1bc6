"""The choice of a text by its expected utility: by hand, by loops, and with sacrebleu."""

import sys

import numpy as np
import pytest

from keras_attention.search import minimum_bayes_risk

TEXTS = ["the cat sleeps", "a dog", "the cat slept", "the old cat slept", "a dog"]
OTHERS = ["the cat", "a dog sleeps", "the old dog"]
WEIGHTS = [0.2, 3.0, 0.7]


def overlap(hypothesis, reference):
    """Not symmetric: how many words of the reference the hypothesis has."""
    words = reference.split()
    return sum(word in hypothesis.split() for word in words) / len(words)


def by_loops(texts, utility, references, weights):
    total = sum(weights)
    return [
        sum(w * utility(h, r) for r, w in zip(references, weights, strict=True)) / total
        for h in texts
    ]


@pytest.mark.parametrize(
    ("references", "weights"), [(None, None), (None, [5, 0, 2, 0, 1]), (OTHERS, WEIGHTS)]
)
def test_utilities_are_the_weighted_means(references, weights):
    best, found = minimum_bayes_risk(TEXTS, overlap, references=references, weights=weights)
    other = references or TEXTS
    expected = by_loops(TEXTS, overlap, other, weights or [1] * len(other))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert best == int(np.argmax(expected))


def test_the_worked_example():
    # "a b" shares half of both others; they share nothing with each other.
    best, found = minimum_bayes_risk(["a a", "a b", "b b"], lambda h, r: len({*h} & {*r} - {" "}))
    np.testing.assert_allclose(found, [2 / 3, 4 / 3, 2 / 3])
    assert best == 1
    best, found = minimum_bayes_risk(["x", "y", "x"], lambda h, r: float(h == r))
    np.testing.assert_allclose(found, [2 / 3, 1 / 3, 2 / 3])
    assert best == 0  # the most frequent text, and of equal ones the first


def test_equal_texts_are_compared_once_and_weightless_ones_never():
    calls = []

    def utility(hypothesis, reference):
        calls.append((hypothesis, reference))
        return 1.0

    minimum_bayes_risk(["x", "y", "x"], utility, weights=[1.0, 0.0, 2.0])
    assert calls == [("x", "x"), ("y", "x")]


def test_large_and_small_weights_keep_their_ratio():
    for scale in (1e-300, 1e300):
        weights = np.array([1.0, 3.0]) * scale
        _, found = minimum_bayes_risk(["x", "y"], lambda h, r: h == r, weights=weights)
        np.testing.assert_allclose(found, [0.25, 0.75])


@pytest.mark.parametrize("name", ["chrf", "bleu"])
def test_names_are_the_sentence_scores_of_sacrebleu(name):
    sacrebleu = pytest.importorskip("sacrebleu")
    score = {"chrf": sacrebleu.sentence_chrf, "bleu": sacrebleu.sentence_bleu}[name]
    best, found = minimum_bayes_risk(TEXTS, name)
    expected = by_loops(TEXTS, lambda h, r: score(h, [r]).score, TEXTS, [1] * 5)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert best == int(np.argmax(expected))


def test_without_sacrebleu_the_names_raise_and_a_callable_works(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    text = r"utility='chrf' needs sacrebleu.*keras-attention-layers\[metrics\]"
    with pytest.raises(ImportError, match=text):
        minimum_bayes_risk(["x"])
    assert minimum_bayes_risk(["x"], overlap)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hypotheses": []}, r"`hypotheses` to be a list of at least one string.*=\[\]"),
        ({"hypotheses": "x"}, "`hypotheses` to be a list of at least one string.*='x'"),
        ({"hypotheses": ["x", 1]}, r"`hypotheses` to be a list.*\['x', 1\]"),
        ({"references": []}, r"`references` to be a list of at least one string"),
        ({"weights": [1.0]}, r"`weights` to be 2 numbers of at least 0.*weights=\[1.0\]"),
        ({"weights": [1.0, -1.0]}, "`weights` to be 2 numbers.*-1.0"),
        (
            {"weights": [0, 0]},
            r"`weights` to be 2.*, not all 0. Received: weights=\[0, 0\]",
        ),
        ({"weights": [1.0, np.nan]}, "`weights` to be 2 numbers.*nan"),
        ({"weights": ["a", "b"]}, "`weights` to be 2 numbers.*'a'"),
        ({"utility": "ter"}, "`utility` to be one of 'chrf', 'bleu'. Or a callable.*'ter'"),
        ({"utility": lambda h, r: None}, "`utility` to return a finite number. Received: None"),
        ({"utility": lambda h, r: np.nan}, "`utility` to return a finite number. Received: nan"),
    ],
)
def test_arguments_are_checked(arguments, text):
    arguments = {"hypotheses": ["x", "y"], "utility": overlap, **arguments}
    with pytest.raises(ValueError, match=f"minimum_bayes_risk expects {text}"):
        minimum_bayes_risk(**arguments)
