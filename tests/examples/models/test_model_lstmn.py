import keras
import numpy as np
import pytest

from examples.models import lstm_language_model, lstmn

MODELS = (lstmn, lstm_language_model)
WORDS = 11
SIZES = {"units": 5, "embedding_dim": 3, "layers": 2, "dropout": 0.3, "seed": 1}
IDS = np.array([[2, 5, 6, 7, 5, 9, 10], [2, 8, 4, 0, 0, 0, 0]])


def answers(model, ids):
    return {name: np.asarray(value) for name, value in model({"ids": ids}).items()}


@pytest.mark.parametrize("module", MODELS)
def test_no_token_reads_itself_or_a_later_one(module):
    model = module.build(WORDS, **SIZES)
    logits = answers(model, IDS)["logits"]
    changed = IDS.copy()
    changed[0, 4:] = 4
    others = answers(model, changed)["logits"]
    np.testing.assert_allclose(others[0, :4], logits[0, :4], atol=1e-6)
    assert np.abs(others[0, 4] - logits[0, 4]).max() > 1e-4


@pytest.mark.parametrize("module", MODELS)
def test_padding_changes_nothing(module):
    model = module.build(WORDS, **SIZES)
    alone = answers(model, IDS[1:, :3])["logits"]
    among = answers(model, IDS)["logits"]
    np.testing.assert_allclose(among[1:, :3], alone, atol=1e-6)


def test_each_step_spreads_its_weight_over_the_states_before_it():
    weights = answers(lstmn.build(WORDS, **SIZES), IDS)["weights"]
    assert weights.shape == (2, 2, 7, 8)  # (batch, layers, time, slots)
    np.testing.assert_allclose(weights[0].sum(axis=-1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(weights[1, :, :3].sum(axis=-1), 1.0, rtol=1e-5)
    later = np.triu(np.ones((7, 8)), 1) > 0
    np.testing.assert_array_equal(weights[0][:, later], 0.0)


def test_the_control_has_the_same_weights_but_for_those_of_the_attention():
    shapes = [
        sorted(tuple(v.shape) for v in m.build(WORDS, **SIZES).trainable_variables) for m in MODELS
    ]
    for shape in shapes[1]:
        shapes[0].remove(shape)
    # What is left are W_x, W_t, W_h and v of equation 4, for each of two layers.
    assert shapes[0] == sorted([(3, 5), (5, 5), (5, 5), (5, 1)] + [(5, 5)] * 3 + [(5, 1)])


@pytest.mark.thorough
@pytest.mark.parametrize("module", MODELS)
def test_a_saved_model_comes_back_without_the_examples(module, tmp_path):
    model = module.build(WORDS, **SIZES)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    for name, value in answers(model, IDS).items():
        np.testing.assert_allclose(answers(again, IDS)[name], value, atol=1e-6)
