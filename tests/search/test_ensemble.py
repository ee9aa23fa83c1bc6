"""Several models that decode as one."""

import functools

import numpy as np
import pytest
from keras import ops
from search_models import HashModel, TableModel, log_softmax
from search_reference import beam_search as reference_search
from search_runs import arrays, assert_found, assert_same, search
from tf_or_skip import tf

from keras_attention.search import (
    beam_search,
    check_beam_search,
    ensemble_step,
    greedy_search,
    sample_search,
    score_sequences,
)

AVERAGES = ("log_probs", "probabilities")
each_average = pytest.mark.parametrize("average", AVERAGES)


class Ensemble:
    """Models as one model, with a reference in NumPy."""

    def __init__(self, models, weights=None, average="log_probs", **options):
        self.models, self.average = models, average
        shares = np.ones(len(models)) if weights is None else np.array(weights, "float64")
        self.shares = shares / shares.sum()
        self.vocabulary, self.source = models[0].vocabulary, models[0].source
        self.step = ensemble_step([m.step for m in models], weights, average=average, **options)

    def state(self):
        return [model.state() for model in self.models]

    def memory(self):
        return [model.memory() for model in self.models]

    def reference(self, row, tokens):
        pairs = [model.reference(row, tokens) for model in self.models]
        log_probs = np.stack([log_probs for log_probs, _ in pairs])
        alignment = sum(share * a for share, (_, a) in zip(self.shares, pairs, strict=True))
        if self.average == "log_probs":
            return log_softmax(self.shares @ log_probs), alignment
        return np.log(self.shares @ np.exp(log_probs)), alignment


def models(*seeds, **options):
    options = {"batch": 3, "vocabulary": 7, "end_bias": 0.5, **options}
    return [HashModel(seed=seed, **options) for seed in seeds]


@each_average
def test_a_model_of_weight_zero_makes_nothing_possible(average):
    table = np.full((7, 7), -np.inf, "float32")
    table[:, 3:5] = 0.0

    def strict(ids, state, memory):
        return (
            ops.take(ops.convert_to_tensor(table), ids, axis=0),
            state,
            ops.zeros((ids.shape[0], 1)),
        )

    def free(ids, state, memory):
        return ops.zeros((ids.shape[0], 7)), state, ops.zeros((ids.shape[0], 1))

    options = {"beam_width": 8, "max_length": 2}
    step = ensemble_step([strict, free], weights=[1.0, 0.0], average=average)
    found = beam_search(step, [{}, {}], [ops.zeros((1, 1))] * 2, **options)
    alone = beam_search(strict, {}, ops.zeros((1, 1)), **options)
    assert_same(arrays(found), arrays(alone))
    assert (arrays(alone)["log_probs"] == -1e9).sum() == 5


@each_average
def test_an_ensemble_of_one_is_the_model(average):
    (model,) = models(101)
    options = {"beam_width": 3, "max_length": 5}
    assert_same(search(Ensemble([model], average=average), **options), search(model, **options))


@each_average
def test_equal_models_are_the_model(average):
    (model,) = models(102)
    options = {"beam_width": 3, "max_length": 5}
    ensemble = Ensemble([model, model, model], [1, 5, 2], average)
    assert_same(search(ensemble, **options), search(model, **options))


@each_average
@pytest.mark.parametrize("weights", [None, [3, 1, 0.5], [0, 1, 0]])
def test_an_ensemble_is_searched_as_its_average_says(average, weights):
    ensemble = Ensemble(models(103, 104, 105), weights, average)
    result = search(ensemble, beam_width=3, max_length=5)
    for row in range(3):
        assert_found(result, row, reference_search(ensemble, row, 3, 5))


@each_average
def test_scores_and_alignments_are_those_of_teacher_forcing(average):
    ensemble = Ensemble(models(106, 107), [1, 2], average)
    result = search(ensemble, beam_width=3, max_length=5)
    for place in range(3):
        ids = ops.convert_to_tensor(result["ids"][:, place])
        scored = arrays(score_sequences(ensemble.step, ensemble.state(), ensemble.memory(), ids))
        for name in ("log_probs", "lengths", "alignments"):
            np.testing.assert_allclose(result[name][:, place], scored[name], rtol=1e-5, atol=1e-6)


def test_what_one_model_rules_out_only_the_geometric_mean_does():
    tables = np.zeros((2, 1, 6, 6)) + np.log(1 / 6)
    tables[0, :, :, 4] = -1e9
    tables[1, :, :, 4] = 5.0
    parts = [TableModel(table) for table in tables]
    for low in (-1e9, -np.inf):
        parts[0].tables[:, :, 4] = low
        geometric = search(Ensemble(parts, [1, 9]), beam_width=9, max_length=2)
        assert not (geometric["ids"] == 4).any()
        assert (geometric["lengths"][0] > 0).sum() == 7  # 1 + 2 * 3 sequences without it
        arithmetic = search(Ensemble(parts, [1, 9], "probabilities"), beam_width=1, max_length=2)
        assert (arithmetic["ids"] == 4).all()
        assert all(np.isfinite(value).all() for value in (*geometric.values(),))


def test_sources_may_differ_if_one_alignment_is_chosen():
    one, other = models(108), models(109, source=5)
    with pytest.raises(ValueError, match=r"alignments of equal width. Pass the index .*\(3, 5\)"):
        search(Ensemble([*one, *other]), beam_width=2, max_length=3)
    result = search(Ensemble([*one, *other], alignment=1), beam_width=2, max_length=3)
    assert result["alignments"].shape == (3, 2, 3, 5)


@pytest.mark.thorough
def test_every_search_takes_an_ensemble_compiled_too():
    ensemble = Ensemble(models(110, 111), [1, 2])
    options = {"beam_width": 2, "max_length": 3}
    check_beam_search(ensemble.step, ensemble.state(), ensemble.memory(), **options)
    sample = functools.partial(sample_search, seed=np.array([3, 5, 7]))
    for function in (greedy_search, sample):
        eager = function(ensemble.step, ensemble.state(), ensemble.memory(), max_length=4)
        graph = tf.function(functools.partial(function, ensemble.step), autograph=False)
        result = graph(ensemble.state(), ensemble.memory(), max_length=4)
        assert_same(arrays(eager), arrays(result))


def test_states_keep_their_kind_of_sequence():
    step = ensemble_step([model.step for model in models(112, 113)])
    state = tuple(model.state() for model in models(112, 113))
    memory = [model.memory() for model in models(112, 113)]
    result = beam_search(step, state, memory, beam_width=2, max_length=3)
    assert result["ids"].shape == (3, 2, 3)


def test_weights_may_be_an_array():
    pair = models(115, 116)
    results = [
        search(Ensemble(pair, weights=weights), max_length=3)
        for weights in ([0.7, 0.3], np.array([0.7, 0.3]))
    ]
    assert_same(*results)


@pytest.mark.parametrize(
    "options, text",
    [
        ({"steps": []}, "`steps` to be a list of at least one step function"),
        ({"steps": [3]}, r"`steps` to be a list of.*steps=\[3\]"),
        ({"weights": [1.0]}, r"`weights` to be 2 numbers of at least 0.*weights=\[1.0\]"),
        ({"weights": [1.0, -1.0]}, r"`weights` to be 2 numbers.*weights=\[1.0, -1.0\]"),
        ({"weights": [0, 0]}, r"`weights` to be 2 .* not all 0. Received: weights=\[0, 0\]"),
        ({"weights": [1e308, 1e308]}, "`weights` to be 2 numbers"),
        ({"average": "mean"}, "`average` to be one of 'log_probs', 'probabilities'"),
        ({"alignment": 2}, "`alignment` to be 'mean' or the index of a model, 0 to 1"),
    ],
)
def test_arguments_must_fit(options, text):
    steps = [model.step for model in models(114, 115)]
    with pytest.raises(ValueError, match=f"ensemble_step expects {text}"):
        ensemble_step(**{"steps": steps, **options})


def test_models_must_fit_together():
    parts = models(116) + models(117, vocabulary=11)
    with pytest.raises(ValueError, match=r"logits of equal width. The models must share a vocab"):
        search(Ensemble(parts), beam_width=2, max_length=3)
    ensemble = Ensemble(models(118, 119))
    with pytest.raises(ValueError, match="`state` to be a list with one entry for each of the 2"):
        beam_search(ensemble.step, ensemble.state()[:1], ensemble.memory(), max_length=3)
    with pytest.raises(ValueError, match="`memory` to be a list with one entry for each of the 2"):
        beam_search(ensemble.step, ensemble.state(), ensemble.memory()[0], max_length=3)


@each_average
def test_a_model_that_has_diverged_is_not_hidden(average):
    def step(value):
        logits = ops.convert_to_tensor([[0.0, value, 1.0]])
        return lambda ids, state, memory: (logits, state, ops.zeros((1, 1)))

    both = ensemble_step([step(0.5), step(np.nan)], average=average)
    assert np.isnan(both(ops.array([2]), [{}, {}], [0, 0])[0]).all()
