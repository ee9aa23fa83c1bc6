"""On JAX, what launches fewer kernels on a GPU finds what the other forms find."""

import keras
import numpy as np
import pytest
from backends import BACKEND
from search_models import HashModel
from search_runs import call

from keras_attention.kernels import execution_mode
from keras_attention.search import CoveragePenalty, ShallowFusion, beam_search, greedy_search
from keras_attention.search._hypotheses import Candidates, select_alive
from keras_attention.search._indexing import write_at
from keras_attention.search.chunked_top_k import chunked_top_k

pytestmark = pytest.mark.skipif(BACKEND != "jax", reason=f"the backend is {BACKEND}")


class LanguageModel:
    """A language model whose step is that of a `HashModel`."""

    def __init__(self, model):
        self.step, self.start = model.step, lambda batch: model.state()


def compute_on_both(monkeypatch, function, *arguments):
    """Returns the results of a compiled function as arrays, without a GPU and with one."""
    import jax

    results = []
    for on_gpu in (False, True):
        monkeypatch.setattr(execution_mode, "has_gpu", lambda on_gpu=on_gpu: on_gpu)
        found = jax.jit(lambda *given: function(*given))(*arguments)  # traced anew
        results.append(keras.tree.map_structure(np.asarray, found))
    return results


@pytest.mark.parametrize(
    ("vocabulary", "options"),  # the larger vocabulary is searched in chunks
    [
        (1009, {}),
        (1009, {"is_fused": True}),
        (11, {"length_penalty": 0.8, "coverage_penalty": CoveragePenalty(0.4)}),
        (11, {"num_groups": 2, "diversity_penalty": 0.3}),
        (11, {"stopping": "shrinking"}),
    ],
)
def test_a_beam_search_on_a_gpu_finds_the_same(monkeypatch, vocabulary, options):
    model, options = HashModel(3, 2, vocabulary, end_bias=2.0), dict(options)
    if options.pop("is_fused", False):
        options["fusion"] = ShallowFusion(LanguageModel(HashModel(5, 2, vocabulary)), 0.4)

    def search(state, memory):
        return call(beam_search, model.step, state, memory, beam_width=4, max_length=6, **options)

    without, on_gpu = compute_on_both(monkeypatch, search, model.state(), model.memory())
    for name, expected in without.items():
        np.testing.assert_allclose(on_gpu[name], expected, rtol=1e-6, atol=1e-6, err_msg=name)
    assert len(np.unique(without["ids"])) > 4


def test_a_greedy_search_on_a_gpu_finds_the_same(monkeypatch):
    model = HashModel(3, 3, 1009)

    def search(state, memory):
        return greedy_search(model.step, state, memory, max_length=9)

    without, on_gpu = compute_on_both(monkeypatch, search, model.state(), model.memory())
    for name, expected in without.items():
        np.testing.assert_allclose(on_gpu[name], expected, rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("vocabulary", [1000, 1009])  # 1009 is prime: some ids are in no chunk
def test_ties_on_a_gpu_are_in_the_order_of_ids(monkeypatch, vocabulary):
    logits = np.random.default_rng(1).integers(-3, 4, (5, vocabulary)).astype("float32")
    logits[logits == 0.0] *= np.random.default_rng(2).choice([-1.0, 1.0], (logits == 0).sum())
    logits[1] = 0.0
    logits[2, :-3] = -np.inf
    results = compute_on_both(monkeypatch, lambda logits: chunked_top_k(logits, 6), logits)
    expected = np.argsort(-logits, axis=1, kind="stable")[:, :6]
    for values, ids in results:
        np.testing.assert_array_equal(ids, expected)
        np.testing.assert_array_equal(values, np.take_along_axis(logits, expected, axis=1))


def test_the_first_growing_candidates_stay_alive_on_a_gpu(monkeypatch):
    log_probs = np.array([[-1.0, -2.0, -2.0, -3.0], [-1.0, -1.0, -2e9, -2e9]], "float32")
    tokens = np.array([[5, 6, 7, 8], [9, 10, 11, 12]], "int32")
    ended = np.array([[True, False, False, False], [True, False, False, False]])
    for alive in compute_on_both(
        monkeypatch, lambda *fields: select_alive(Candidates(*fields), 2), log_probs, tokens, ended
    ):
        np.testing.assert_array_equal(alive.log_probs, [[-2.0, -2.0], [-1.0, -1e9]])
        np.testing.assert_array_equal(alive.token_and_parent[0], [6, 7])
        assert alive.token_and_parent[1, 0] == 10


def test_a_step_is_written_where_it_belongs():
    written = write_at(keras.ops.zeros((4, 2, 3)), keras.ops.array(2), keras.ops.ones((2, 3)))
    assert np.asarray(written).sum(axis=(1, 2)).tolist() == [0.0, 0.0, 6.0, 0.0]


def test_a_single_row_is_normalized_alike_on_a_gpu(monkeypatch):
    from keras_attention.kernels.layer_normalization import LayerNormalization

    layer = LayerNormalization()
    layer.build((None, 8))
    layer.set_weights(list(np.random.default_rng(1).normal(size=(2, 8))))
    inputs = np.random.default_rng(2).normal(size=(1, 8)).astype("float32")
    without, on_gpu = compute_on_both(monkeypatch, layer, inputs)
    assert on_gpu.shape == (1, 8)
    np.testing.assert_allclose(on_gpu, without, rtol=1e-6)
