"""The error rate of word alignments, worked by hand."""

import pytest

from keras_attention.metrics import AlignmentErrorRate

SURE = [{(0, 0), (1, 2), (3, 3)}, {(0, 1)}, set(), {(2, 2)}]
POSSIBLE = [{(0, 0), (1, 1)}, set(), {(5, 7)}, set()]
FOUND = [{(0, 0), (1, 1), (2, 1)}, {(1, 0)}, {(5, 7)}, set()]


@pytest.mark.parametrize(
    ("possible", "rate", "precision", "recall"),
    [(None, 1 - 2 / 10, 1 / 5, 1 / 5), (POSSIBLE, 1 - 4 / 10, 3 / 5, 1 / 5)],
)
def test_rates_worked_by_hand(possible, rate, precision, recall):
    metric = AlignmentErrorRate()
    for n in range(len(SURE)):
        one = None if possible is None else possible[n : n + 1]
        metric.update_state(SURE[n : n + 1], FOUND[n : n + 1], possible=one)
    assert metric.result() == pytest.approx(rate)
    assert (metric.precision, metric.recall) == (precision, recall)
    metric.reset_state()
    assert metric(SURE, FOUND, possible=possible) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("sure", "found", "rate"),
    [
        (SURE, SURE, 0),
        (SURE, [set()] * 4, 1),
        ([set()], [{(0, 0)}], 1),
        ([set()], [set()], 0),
        ([], [], 0),
        ([[(0, 1), (0, 1)]], [[(0, 1)]], 0),  # a link that is named twice counts once
        ([{(0, 1)}], [{(1, 0)}], 1),  # the source stands first
    ],
)
def test_limits(sure, found, rate):
    assert AlignmentErrorRate()(sure, found) == rate


def test_config_and_wrong_arguments():
    config = AlignmentErrorRate(name="a").get_config()
    assert AlignmentErrorRate.from_config(config).get_config() == config
    for arguments, message in [
        (({(0, 0)}, [set()]), "`references` to be a list of sets.*model.compile"),
        ((None, [set()]), "`references` to be a list of sets"),
        (([set()], None), "`hypotheses` to be a list of sets"),
        (([set()], []), "Received: 1 references, 0 hypotheses, 1 possible"),
        (([set()], [set()], []), "Received: 1 references, 1 hypotheses, 0 possible"),
        (([set(), {"0-0"}], [set()] * 2), r"\(0, 1\). Received: references\[1\]=\{'0-0'\}"),
    ]:
        metric = AlignmentErrorRate()
        with pytest.raises(ValueError, match=message):
            metric.update_state(*arguments)
        assert metric.result() == 0
