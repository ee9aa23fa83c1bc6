import keras
import numpy as np
import pytest
import tensorflow as tf
import training_toys as toys

from examples.training import averaging, losses, steps
from examples.training.objectives import TokenObjective


def weights(model):
    return [variable.numpy() for variable in model.trainable_variables]


def eager_gradients(model, inputs, labels, smoothing=0.0, training=False):
    """The mean gradient, written out without the step."""
    with tf.GradientTape() as tape:
        logits = model(inputs, training=training)
        loss = tf.reduce_sum(losses.token_cross_entropy(logits, labels, smoothing))
        loss = loss / tf.reduce_sum(tf.cast(labels != 0, tf.float32))
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    return [tf.convert_to_tensor(g).numpy() for g in gradients]


def norm(gradients):
    return np.sqrt(sum(np.sum(np.square(g.astype("float64"))) for g in gradients))


@pytest.mark.parametrize(("clip_norm", "jit_compile"), [(None, True), (0.05, True), (0.05, False)])
def test_step_is_the_clipped_gradient_of_the_token_mean(clip_norm, jit_compile):
    model = toys.model(dropout=0.0)
    inputs, labels = toys.batch(6, 5, 7, seed=1)
    before, gradients = weights(model), eager_gradients(model, inputs, labels, 0.1)
    size = norm(gradients)
    assert size > 0.05  # or nothing would be clipped
    factor = 1.0 if clip_norm is None else clip_norm / size
    step = steps.TrainingStep(
        model,
        keras.optimizers.SGD(1.0),
        TokenObjective(0.1),
        clip_norm=clip_norm,
        jit_compile=jit_compile,
    )
    results = step(*tf.nest.map_structure(tf.constant, (inputs, labels)))
    for new, old, gradient in zip(weights(model), before, gradients, strict=True):
        np.testing.assert_allclose(new, old - factor * gradient, atol=2e-7)
    np.testing.assert_allclose(results["gradient_norm"], size, rtol=1e-5)
    assert float(results["count"]) == np.sum(labels != 0)


def test_gradients_below_the_limit_are_left_alone():
    model = toys.model(dropout=0.0)
    inputs, labels = toys.batch(6, 5, 7, seed=1)
    before, gradients = weights(model), eager_gradients(model, inputs, labels)
    step = steps.TrainingStep(model, keras.optimizers.SGD(1.0), clip_norm=1e3, jit_compile=False)
    step(*tf.nest.map_structure(tf.constant, (inputs, labels)))
    for new, old, gradient in zip(weights(model), before, gradients, strict=True):
        np.testing.assert_allclose(new, old - gradient, atol=2e-7)


def test_words_that_occur_twice_count_once_in_the_norm():
    # An embedding's gradient comes as one row a use; the norm of the rows is not that of the sum.
    model = toys.model(dropout=0.0)
    ids = tf.constant([[4, 4, 4, 4, 3]])
    gradients = eager_gradients(model, {"source": ids, "target": ids}, ids)
    step = steps.TrainingStep(model, keras.optimizers.SGD(0.0), jit_compile=False)
    results = step({"source": ids, "target": ids}, ids)
    np.testing.assert_allclose(results["gradient_norm"], norm(gradients), rtol=1e-5)


def test_added_padding_changes_no_weight():
    results = []
    for extra in (0, 4):
        model = toys.model(dropout=0.0)
        step = steps.TrainingStep(
            model, keras.optimizers.SGD(1.0), TokenObjective(0.1), jit_compile=False
        )
        inputs, labels = toys.batch(6, 7, 5, seed=2)
        padding = [(0, extra), (0, extra)]  # rows and columns
        inputs = {
            "source": np.pad(inputs["source"], [(0, extra), (0, 0)]),
            "target": np.pad(inputs["target"], padding),
        }
        step(*tf.nest.map_structure(tf.constant, (inputs, np.pad(labels, padding))))
        results.append(weights(model))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.thorough
def test_one_program_a_shape_and_all_agree_with_the_plain_graph():
    histories = []
    for jit_compile in (True, False):
        model = toys.recurrent_model(dropout=0.0)
        step = steps.TrainingStep(
            model,
            keras.optimizers.Adam(0.01),
            TokenObjective(0.1),
            clip_norm=1.0,
            jit_compile=jit_compile,
        )
        seen = []
        for inputs, labels in list(toys.Batches().epoch(0)) * 2:
            results = step(inputs, labels)
            seen.append(float(results["loss_sum"] / results["count"]))
        assert step.num_shapes == 3
        assert not step.is_new(inputs, labels)
        histories.append(seen)
    np.testing.assert_allclose(*histories, rtol=1e-4)
    assert np.mean(histories[0][-8:]) < np.mean(histories[0][:8])


def test_dropout_draws_anew_each_step_and_follows_its_seed_state():
    model = toys.model(dropout=0.5)
    step = steps.TrainingStep(model, keras.optimizers.SGD(0.0))
    batch = tf.nest.map_structure(tf.constant, toys.batch(6, 5, 7, seed=3))
    states = [v for v in model.variables if "seed" in v.name]
    assert len(states) == 2
    saved = [v.numpy() for v in states]
    first, second = (float(step(*batch)["loss_sum"]) for _ in range(2))
    for state, value in zip(states, saved, strict=True):
        state.assign(value)
    again = float(step(*batch)["loss_sum"])
    assert first == again != second


def test_extra_losses_of_layers_are_added_once_a_token_mean():
    source, target = (keras.Input([None], dtype="int32", name=n) for n in ("source", "target"))
    words = keras.layers.Embedding(23, 5, embeddings_regularizer=keras.regularizers.L2(0.3))
    logits = keras.layers.Dense(23)(words(target) + words(source))
    model = keras.Model({"source": source, "target": target}, logits)
    ids = tf.constant([[5, 7, 3, 0]])
    inputs = {"source": ids, "target": ids}
    plain = eager_gradients(model, inputs, ids)
    before = weights(model)
    steps.TrainingStep(model, keras.optimizers.SGD(1.0), jit_compile=False)(inputs, ids)
    after = weights(model)
    np.testing.assert_allclose(after[0], before[0] - plain[0] - 0.6 * before[0], atol=1e-6)
    np.testing.assert_allclose(after[1], before[1] - plain[1], atol=1e-6)


def test_a_weight_without_gradient_stays():
    model = toys.model(dropout=0.0)
    unused = keras.layers.Dense(3)
    unused.build((None, 7))
    model.unused = unused
    step = steps.TrainingStep(model, keras.optimizers.Adam(0.1), jit_compile=False)
    before = unused.kernel.numpy()
    assert any(v is unused.kernel for v in model.trainable_variables)
    step(*tf.nest.map_structure(tf.constant, toys.batch(6, 5, 7, seed=3)))
    np.testing.assert_array_equal(unused.kernel.numpy(), before)


@pytest.fixture
def policy(request):
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy(request.param)
    yield request.param
    keras.config.set_dtype_policy(previous)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"], indirect=True)
def test_mixed_precision_follows_float32(policy):
    model = toys.model(dropout=0.0)
    step = steps.TrainingStep(model, keras.optimizers.SGD(0.5), TokenObjective(0.1), clip_norm=1.0)
    keras.config.set_dtype_policy("float32")
    exact_model = toys.model(dropout=0.0)
    exact = steps.TrainingStep(
        exact_model,
        keras.optimizers.SGD(0.5),
        TokenObjective(0.1),
        clip_norm=1.0,
        jit_compile=False,
    )
    batch = tf.nest.map_structure(tf.constant, toys.batch(6, 5, 7, seed=3))
    for _ in range(3):
        half, full = step(*batch), exact(*batch)
        assert float(half["applied"]) == 1.0
        np.testing.assert_allclose(half["loss_sum"], full["loss_sum"], rtol=2e-2)
        np.testing.assert_allclose(half["gradient_norm"], full["gradient_norm"], rtol=5e-2)
    assert all(v.dtype == "float32" for v in model.trainable_variables)


@pytest.mark.parametrize("policy", ["mixed_float16"], indirect=True)
@pytest.mark.parametrize("clipping", [{}, {"clip_norm": 1.0}, {"clip_value": 1.0}], ids=str)
def test_overflow_in_float16_leaves_the_update_out_and_halves_the_scale(policy, clipping):
    model = toys.model(dropout=0.0)
    optimizer = keras.optimizers.Adam(0.1)
    average = averaging.ExponentialAverage(0.9)
    step = steps.TrainingStep(model, optimizer, average=average, **clipping)
    batch = tf.nest.map_structure(tf.constant, toys.batch(6, 5, 7, seed=3))
    scale = step.variables[0]
    scale.assign(1e30)
    before = weights(model)
    assert float(step(*batch)["applied"]) == 0.0
    assert float(scale.numpy()) == np.float32(5e29)
    assert int(optimizer.iterations.numpy()) == 0
    for old, new in zip(before, weights(model), strict=True):
        np.testing.assert_array_equal(old, new)
    scale.assign(1.0)
    step.variables[1].assign(steps.UPDATES_BEFORE_DOUBLING - 1)
    assert float(step(*batch)["applied"]) == 1.0
    assert float(scale.numpy()) == 2.0
    assert int(step.variables[1].numpy()) == 0


@pytest.mark.parametrize("jit_compile", [True, False])
def test_exponential_average_follows_every_update(jit_compile):
    model = toys.model()
    average = averaging.ExponentialAverage(0.7)
    step = steps.TrainingStep(
        model, keras.optimizers.SGD(0.5), jit_compile=jit_compile, average=average
    )
    expected = weights(model)
    batch = tf.nest.map_structure(tf.constant, toys.batch(6, 5, 7, seed=3))
    for update in range(1, 5):
        step(*batch)
        decay = min(0.7, (1 + update) / (10 + update))
        expected = [
            decay * e + (1 - decay) * w for e, w in zip(expected, weights(model), strict=True)
        ]
    own = weights(model)
    with average.applied():
        for value, wanted in zip(weights(model), expected, strict=True):
            np.testing.assert_allclose(value, wanted, atol=1e-6)
    for value, wanted in zip(weights(model), own, strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_snapshots_average_the_last_epochs_and_the_weights_now():
    model = toys.model()
    average = averaging.SnapshotAverage(3)
    average.build(model)
    kernel = model.trainable_variables[-1]
    for value in (1.0, 2.0, 3.0, 7.0):
        kernel.assign(np.full(kernel.shape, value))
        if value != 7.0:
            average.end_epoch()
    with average.applied():
        np.testing.assert_allclose(kernel.numpy(), 4.0)  # of 2, 3 and 7
    np.testing.assert_allclose(kernel.numpy(), 7.0)


def statistics(model):
    layer = next(each for each in model.layers if isinstance(each, keras.layers.BatchNormalization))
    return [layer.moving_mean.numpy(), layer.moving_variance.numpy()]


def test_the_statistics_of_batch_normalization_are_averaged_with_the_weights():
    model = toys.normalized_model()
    average = averaging.ExponentialAverage(0.7)
    step = steps.TrainingStep(model, keras.optimizers.SGD(0.5), jit_compile=False, average=average)
    batch = tf.nest.map_structure(tf.constant, toys.batch(6, 5, 7, seed=3))
    expected = statistics(model)
    for update in range(1, 5):
        step(*batch)
        decay = min(0.7, (1 + update) / (10 + update))
        expected = [
            decay * e + (1 - decay) * s for e, s in zip(expected, statistics(model), strict=True)
        ]
    own = statistics(model)
    with average.applied():
        for value, wanted in zip(statistics(model), expected, strict=True):
            np.testing.assert_allclose(value, wanted, atol=1e-6)
    for value, wanted in zip(statistics(model), own, strict=True):
        np.testing.assert_array_equal(value, wanted)
    assert np.abs(own[0] - expected[0]).max() > 1e-3  # or there would be nothing to tell apart
    # Neither the frozen statistics nor the state of the dropout's seed are followed.
    assert len(average.followed) == len(model.trainable_variables) + 2


def test_snapshots_hold_the_statistics_of_batch_normalization():
    model = toys.normalized_model()
    average = averaging.SnapshotAverage(2)
    average.build(model)
    mean = model.layers[2].moving_mean
    mean.assign(np.full(7, 1.0))
    average.end_epoch()
    mean.assign(np.full(7, 4.0))
    with average.applied():
        np.testing.assert_allclose(mean.numpy(), 2.5)
    np.testing.assert_allclose(mean.numpy(), 4.0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"clip_norm": 0.0}, "`clip_norm` to be a number.*clip_norm=0.0"),
        ({"clip_value": -1.0}, "`clip_value` to be a number.*clip_value=-1.0"),
    ],
)
def test_errors_name_the_option(options, text):
    with pytest.raises(ValueError, match=text):
        steps.TrainingStep(toys.model(), keras.optimizers.SGD(), **options)


@pytest.mark.parametrize("name", ["clipnorm", "global_clipnorm", "clipvalue"])
def test_an_optimizer_that_clips_is_refused(name):
    with pytest.raises(ValueError, match=f"without clipping of its own.*Received: {name}=1.0"):
        steps.TrainingStep(toys.model(), keras.optimizers.SGD(**{name: 1.0}))


def test_elements_are_clipped_before_the_norm():
    model = toys.model(dropout=0.0)
    inputs, labels = toys.batch(6, 5, 7, seed=1)
    before, gradients = weights(model), eager_gradients(model, inputs, labels)
    limit = 0.5 * max(np.abs(g).max() for g in gradients)
    clipped = [np.clip(g, -limit, limit) for g in gradients]
    size = norm(clipped)
    step = steps.TrainingStep(
        model, keras.optimizers.SGD(1.0), clip_norm=0.9 * size, clip_value=limit, jit_compile=False
    )
    results = step(*tf.nest.map_structure(tf.constant, (inputs, labels)))
    for new, old, gradient in zip(weights(model), before, clipped, strict=True):
        np.testing.assert_allclose(new, old - 0.9 * gradient, atol=1e-6)
    assert float(results["gradient_norm"]) == pytest.approx(size, rel=1e-5)
