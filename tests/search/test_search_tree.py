"""The tree of a beam search: which hypotheses were alive in each step, and which ended there."""

import functools

import numpy as np
import pytest
from search_models import END, HashModel
from search_reference import list_permitted, score_ids
from search_runs import assert_compiled_alike, hypotheses, search

from keras_attention import plotting
from keras_attention.search import beam_search

NAMES = ("tree_ids", "tree_parents", "tree_log_probs")
LENGTH, WIDTH = 6, 3


def make_model(batch=3, vocabulary=7):
    return HashModel(seed=41, batch=batch, vocabulary=vocabulary, end_bias=0.5)


def spell(result, row):
    """Returns for each step what the tree holds: (log p, ids, whether it ended) of each place."""
    steps, before = [], [()] * (2 * WIDTH)
    for time in range(LENGTH):
        ids, parents, log_probs = (result[name][row, time] for name in NAMES)
        paths = [(*before[parent], int(token)) for token, parent in zip(ids, parents, strict=True)]
        real = log_probs > -5e8
        assert (log_probs[~real] == -1e9).all()
        assert not ids[~real].any() and not parents[~real].any()
        steps.append([(log_probs[n], paths[n], n >= WIDTH) for n in np.flatnonzero(real)])
        before = paths
    return steps


def log_prob(model, row, ids):
    """The log-probability of ids, which are fed one by one."""
    return score_ids(model, row, ids)[1]


def grow(model, row):
    """Returns the alive hypotheses after each step of a plain beam search, best first."""
    alive, steps = [()], []
    for _ in range(LENGTH):
        tokens = list_permitted((), model.vocabulary)
        grown = [(*ids, token) for ids in alive for token in tokens if token != END]
        grown.sort(key=lambda ids: -log_prob(model, row, ids))
        alive = grown[:WIDTH]
        steps.append(alive)
    return steps


@pytest.mark.thorough
@pytest.mark.parametrize("stopping", ["exact", "first", "limit"])
def test_each_step_has_the_best_continuations(stopping):
    model = make_model()
    options = {"beam_width": WIDTH, "max_length": LENGTH, "stopping": stopping}
    plain, result = search(model, **options), search(model, return_tree=True, **options)
    assert set(result) - set(plain) == set(NAMES)
    for name, value in plain.items():
        np.testing.assert_array_equal(result[name], value)
    lengths = set()
    for row in range(3):
        steps, expected = spell(result, row), grow(model, row)
        count = max(number + 1 for number, step in enumerate(steps) if step)
        lengths.add(count)
        for number, step in enumerate(steps[:count]):
            assert [ids for _, ids, ended in step if not ended] == expected[number]
            for value, ids, _ in step:
                assert value == pytest.approx(log_prob(model, row, ids), rel=1e-5, abs=1e-5)
        ended = [ids for step in steps for _, ids, ended in step if ended]
        assert sorted(ended) == sorted(hypotheses(result, row))
        alone = search(model.rows([row]), return_tree=True, **options)
        for name in NAMES:
            np.testing.assert_allclose(result[name][row], alone[name][0], rtol=1e-5)
    assert len(lengths) > 1 or stopping == "limit"


@pytest.mark.thorough
def test_a_compiled_search_has_the_same_tree():
    options = {"beam_width": WIDTH, "max_length": LENGTH, "return_tree": True}
    assert_compiled_alike(functools.partial(beam_search, **options), make_model())


def test_the_explorer_shows_the_tree():
    result = search(make_model(), beam_width=WIDTH, max_length=LENGTH, return_tree=True)
    ids, parents, log_probs = (result[name][0] for name in NAMES)
    count = int((log_probs.max(axis=1) > -5e8).sum())
    tokens = [["</s>" if one == END else str(one) for one in row] for row in ids[:count]]
    page = plotting.explore_beam_search(tokens, parents[:count], log_probs[:count])
    assert "Beam search" in page.html
