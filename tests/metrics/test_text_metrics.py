"""Metrics of texts: the edit distance by trying everything, sacrebleu, several references."""

import itertools
import sys

import keras
import pytest

from keras_attention.metrics import BLEU, WordErrorRate
from keras_attention.metrics.word_error_rate import edit_distance

REFERENCES = [
    "the dog sleeps on the red sofa",
    ["two cats play in the garden", "A pair of cats plays, in the garden."],
    "nobody knows",
]
HYPOTHESES = ["the dog sleeps on a sofa", "a pair of cats plays in a garden", ""]


def _try_every_edit(first, second):
    """Returns the fewest edits, from the definition."""
    if not first or not second:
        return len(first) + len(second)
    return min(
        _try_every_edit(first[1:], second) + 1,
        _try_every_edit(first, second[1:]) + 1,
        _try_every_edit(first[1:], second[1:]) + (first[0] != second[0]),
    )


def test_distances_equal_those_of_the_definition():
    texts = ["".join(each) for n in range(5) for each in itertools.product("ab", repeat=n)]
    for first, second in itertools.product(texts, texts[::3]):
        assert edit_distance(first, second) == _try_every_edit(first, second)


@pytest.mark.parametrize(
    ("references", "hypotheses", "rate"),
    [
        ([["EY B IY EH S", "AE B Z"]], ["AE B Z"], 0),  # right, by the second
        ([["AH T", "EY T IY"], "K AE T", "D AO G"], ["AE T", " K  AE T S", ""], 5 / 8),
        ([["A B C", "A"]], ["A B"], 1 / 3),  # of two equally near the first
        ([["A", "A B C"]], ["A B"], 1),
        (["D"], ["A B C"], 3),
        ([""], ["A"], 1),
        ([], [], 0),
    ],
)
def test_rates_worked_by_hand(references, hypotheses, rate):
    metric = WordErrorRate()
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        metric.update_state([reference], [hypothesis])
    assert metric.result() == pytest.approx(rate)
    metric.reset_state()
    assert metric(references, hypotheses) == pytest.approx(rate)


@pytest.mark.parametrize("options", [{}, {"tokenize": "none"}, {"lowercase": True}], ids=str)
def test_bleu_is_that_of_sacrebleu(options):
    sacrebleu = pytest.importorskip("sacrebleu")
    streams = [["the dog sleeps on the red sofa", REFERENCES[1][0], "nobody knows"]]
    streams.append([None, REFERENCES[1][1], None])
    scorer = sacrebleu.metrics.BLEU(**options)
    expected = scorer.corpus_score(HYPOTHESES, streams).score
    metric = BLEU(**options)
    assert metric.result() == 0
    for reference, hypothesis in zip(REFERENCES, HYPOTHESES, strict=True):
        metric.update_state([reference], [hypothesis])
    assert metric.result() == expected > 0
    assert metric.signature == str(scorer.get_signature())
    metric.reset_state()
    assert metric.result() == 0


@pytest.mark.parametrize("metric", [WordErrorRate, BLEU])
def test_configs_and_texts_that_are_none(metric):
    if metric is BLEU:
        pytest.importorskip("sacrebleu")
    config = metric(name="a").get_config()
    assert metric.from_config(config).get_config() == config
    name = metric.__name__
    for references, hypotheses, message in [
        ("a b", ["a b"], f"{name} expects `references` to be a list of strings"),
        (["a"], keras.ops.ones((1, 2)), f"{name} expects `hypotheses` to be a list.*model.compile"),
        (["a"], [], "as many references as hypotheses.*1 references, 0 hypotheses"),
        (["a", []], ["a", "b"], r"references\[1\]=\[\]"),
        (["a"], [b"a"], r"a string as each hypothesis.*hypotheses\[0\]=b'a'"),
    ]:
        with pytest.raises(ValueError, match=message):
            metric().update_state(references, hypotheses)


def test_bleu_names_what_is_missing_or_unknown(monkeypatch):
    pytest.importorskip("sacrebleu")
    with pytest.raises(ValueError, match="BLEU expects `tokenize` to be one of 'none', "):
        BLEU(tokenize="words")
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(
        ImportError, match=r'BLEU needs sacrebleu.*"keras-attention-layers\[metrics\]"'
    ):
        BLEU()
