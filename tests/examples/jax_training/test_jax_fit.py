"""`fit` on JAX, beside a loop of single steps of one seed. Run it with KERAS_BACKEND=jax."""

import keras
import numpy as np
import pytest

if keras.backend.backend() != "jax":
    pytest.skip("trains on JAX", allow_module_level=True)

from examples.jax_training.fit import fit
from examples.jax_training.packed_pairs import PackedPairs
from examples.jax_training.packed_training import PackedTraining
from examples.training.schedules import CoolDownSchedule
from keras_attention import Attention, TokenCrossentropy

VOCABULARY = 11
EPOCHS = 3


def make_model(dropout=0.0):
    source, target = (keras.Input([None], dtype="int32", name=n) for n in ("source", "target"))
    embedding = keras.layers.Embedding(VOCABULARY, 5, mask_zero=True)
    context = Attention("scaled_dot")(embedding(target), embedding(source))
    context = keras.layers.Dropout(dropout, seed=3)(context)
    return keras.Model(
        {"source": source, "target": target}, keras.layers.Dense(VOCABULARY)(context)
    )


def make_optimizer():
    rate = CoolDownSchedule(0.05, total=3 * EPOCHS, cooling=4)
    return keras.optimizers.Adam(rate, global_clipnorm=1.0, use_ema=True, ema_momentum=0.9)


def make_packed(dropout=0.0, smoothing=0.1):
    random = np.random.default_rng(7)
    arrays, settings = {}, {}
    for part, count in (("training", 17), ("validation", 5)):
        for side in ("source", "target"):
            lengths = random.integers(2, 8, count)
            arrays[f"{part}_{side}"] = random.integers(4, VOCABULARY, lengths.sum()).astype("u1")
            arrays[f"{part}_{side}_lengths"] = lengths
        settings[part] = {"batch_size": 7, "max_shapes": 2, "seed": 1, "decoder_start_id": 2}
    settings |= {"model": make_model(dropout).to_json(), "label_smoothing": smoothing}
    settings["optimizer"] = keras.saving.serialize_keras_object(make_optimizer())
    return PackedTraining(settings | {"epochs": EPOCHS}, arrays)


def read(directory, seed):
    with np.load(directory / f"seed-{seed}.npz") as file:
        arrays = dict(file)
    history = arrays.pop("history")
    return history, [arrays[f"weight_{number}"] for number in range(len(arrays))]


def compute_perplexity(model, pairs):
    total = count = 0.0
    for inputs, labels in pairs.in_order():
        tokens = float((labels > 0).sum())
        total += float(TokenCrossentropy()(labels, model(inputs))) * tokens
        count += tokens
    return np.exp(total / count)


def test_it_makes_the_steps_of_fit_and_keeps_the_average(tmp_path):
    packed = make_packed()
    fit(packed, [5, 4], tmp_path, keep="last")
    keras.utils.set_random_seed(4)
    model = keras.models.model_from_json(packed.settings["model"])
    model.compile(make_optimizer(), TokenCrossentropy(label_smoothing=0.1))
    pairs = PackedPairs(*packed.get_pairs("training"))
    losses = []
    for epoch in range(EPOCHS):
        losses.append([float(model.train_on_batch(*batch)) for batch in pairs.epoch(epoch)][-1])
    model.optimizer.finalize_variable_values(model.trainable_variables)  # the average
    history, weights = read(tmp_path, 4)
    for ours, theirs in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5)
    assert history[:, 0].tolist() == [1, 2, 3]
    np.testing.assert_allclose(
        history[-1, 2],
        compute_perplexity(model, PackedPairs(*packed.get_pairs("validation"))),
        rtol=1e-5,
    )
    assert history[-1, 1] < history[0, 1]


def test_seeds_differ_and_do_not_depend_on_the_others(tmp_path):
    packed = make_packed(dropout=0.5)
    (tmp_path / "alone").mkdir()
    fit(packed, [1, 2], tmp_path)
    fit(packed, [2], tmp_path / "alone")
    together, alone = read(tmp_path, 2)[1], read(tmp_path / "alone", 2)[1]
    for ours, theirs in zip(together, alone, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5)
    assert np.abs(together[0] - read(tmp_path, 1)[1][0]).max() > 0.01


def test_best_keeps_the_weights_of_the_lowest_perplexity(tmp_path):
    packed = make_packed()
    # Random tokens cannot be learned: the more is learned of the training, the worse it gets.
    packed.settings["epochs"] = 12
    packed.settings["optimizer"] = keras.saving.serialize_keras_object(keras.optimizers.Adam(0.1))
    fit(packed, [1, 3], tmp_path)
    validation = PackedPairs(*packed.get_pairs("validation"))
    for seed in (1, 3):
        history, weights = read(tmp_path, seed)
        model = make_model()
        model.set_weights(weights)
        lowest = history[:, 2].min()
        assert history[-1, 2] > 1.01 * lowest
        np.testing.assert_allclose(compute_perplexity(model, validation), lowest, rtol=1e-5)


def test_half_precision_rounds_the_weights(tmp_path):
    packed = make_packed()
    (tmp_path / "half").mkdir()
    fit(packed, [1], tmp_path)
    fit(packed, [1], tmp_path / "half", float16=True)
    for full, half in zip(read(tmp_path, 1)[1], read(tmp_path / "half", 1)[1], strict=True):
        assert half.dtype == np.float16
        np.testing.assert_array_equal(full.astype(np.float16), half)


def test_a_seed_that_diverges_is_named_and_not_written(tmp_path):
    packed = make_packed()
    packed.settings["optimizer"] = keras.saving.serialize_keras_object(keras.optimizers.SGD(1e30))
    with pytest.raises(ValueError, match=r"diverged with seeds \[1\]"):
        fit(packed, [1], tmp_path)
    assert not list(tmp_path.iterdir())
