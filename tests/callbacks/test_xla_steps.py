import keras
import numpy as np
import pytest

from keras_attention.callbacks import XLASteps

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="fit of TensorFlow calls the steps"
)


class Lengths(keras.layers.Layer):
    """Remembers the static lengths that it was traced with."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def call(self, x):
        self.seen.append(x.shape[1])
        return keras.ops.mean(x, axis=1)


def make_model(jit_compile=True):
    keras.utils.set_random_seed(3)
    lengths = Lengths()
    x = keras.Input((None, 3))
    model = keras.Model(x, keras.layers.Dense(1)(keras.layers.Dropout(0.3)(lengths(x))))
    model.compile(
        keras.optimizers.Adam(0.1), "mse", weighted_metrics=["mae"], jit_compile=jit_compile
    )
    lengths.seen.clear()
    return model, lengths


def make_batches():
    tf = pytest.importorskip("tensorflow")
    draw = np.random.default_rng(1)
    batches = [(draw.normal(size=(2, n, 3)), draw.normal(size=(2, 1))) for n in (5, 7, 5, 3)]
    specs = (tf.TensorSpec([None, None, 3]), tf.TensorSpec([None, 1]))
    return tf.data.Dataset.from_generator(lambda: batches, output_signature=specs)


@pytest.mark.thorough
def test_fit_learns_the_same_and_knows_all_lengths():
    histories = []
    for callbacks in ([], [XLASteps()]):
        model, lengths = make_model()
        data = make_batches()
        fitted = model.fit(data, validation_data=data, epochs=3, verbose=0, callbacks=callbacks)
        histories.append(fitted.history)
    assert set(lengths.seen) == {5, 7, 3}
    for name, values in histories[0].items():
        np.testing.assert_allclose(histories[1][name], values, rtol=1e-5)


@pytest.mark.thorough
def test_a_later_fit_compiles_nothing_again():
    model, lengths = make_model()
    for _ in range(2):
        seen = len(lengths.seen)
        model.fit(make_batches(), verbose=0, callbacks=[XLASteps()])
    assert len(lengths.seen) == seen


@pytest.mark.thorough
def test_an_epoch_ends_with_its_data():
    model, _ = make_model()
    model.fit(make_batches(), epochs=2, verbose=0, callbacks=[XLASteps()])
    assert int(model.optimizer.iterations) == 8


@pytest.mark.thorough
def test_a_model_that_is_not_compiled_with_xla_is_left_alone():
    model, _ = make_model(jit_compile=False)
    model.make_train_function()
    function = model.train_function
    model.fit(make_batches(), verbose=0, callbacks=[XLASteps()])
    assert model.train_function is function


@pytest.mark.thorough
def test_a_generator_may_yield_none_as_weights():
    def batches():
        while True:
            yield np.ones((2, 5, 3)), np.ones((2, 1)), None

    results = []
    for callbacks in ([], [XLASteps()]):
        model, _ = make_model()
        options = {"steps_per_epoch": 3, "verbose": 0, "callbacks": callbacks}
        results.append(model.fit(batches(), **options).history["loss"])
    np.testing.assert_allclose(*results, rtol=1e-5)


def test_several_steps_an_execution_are_refused():
    model, _ = make_model()
    model.compile("sgd", "mse", jit_compile=True, steps_per_execution=2)
    with pytest.raises(ValueError, match=r"steps_per_execution=1`. Received: steps_per_ex.*=2"):
        model.fit(make_batches(), verbose=0, callbacks=[XLASteps()])
