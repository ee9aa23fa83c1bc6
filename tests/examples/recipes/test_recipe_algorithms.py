import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.recipes.algorithms import Algorithms
from examples.tasks.base import Example, cost_in_bits
from examples.training.fitting import evaluate
from keras_attention import plotting


class Sure:
    """Stands in for a model that says one thing of all bits."""

    layers = ()

    def __init__(self, recipe, logit):
        self.logit, self.output_dim = logit, recipe.get_sizes()[1]

    def predict_on_batch(self, inputs):
        return np.full((*inputs["inputs"].shape[:2], self.output_dim), self.logit, np.float32)


def batch(time, seed):
    """Logits, bits and where they are due; of five sequences the third only fills the batch up."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(5, time, 3)).astype("float32")
    targets, due = (random.integers(0, 2, shape) for shape in ((5, time, 3), (5, time)))
    due[2], due[3] = 0, 1
    return {"inputs": logits}, targets.astype("float32"), due.astype("float32")


def as_data(batches):
    targets, due = tf.TensorSpec([5, None, 3]), tf.TensorSpec([5, None])
    specs = {"inputs": targets}, targets, due
    data = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=specs)
    return data.apply(tf.data.experimental.assert_cardinality(len(batches)))


def test_what_is_not_due_and_what_fills_a_batch_up_cost_nothing():
    batches = [batch(7, seed=3), batch(11, seed=4)]
    inputs = keras.Input([None, 3], name="inputs")
    model = keras.Model({"inputs": inputs}, keras.layers.Activation("linear")(inputs))
    recipe = Algorithms()
    found = evaluate(model, as_data(batches), recipe.make_loss(), recipe.make_metrics())
    costs, wrong = [], []
    for given, targets, due in batches:
        logits = given["inputs"]
        costs.append(cost_in_bits(1 / (1 + np.exp(-logits)), Example(logits, targets, due)))
        wrong.append(((logits > 0) != (targets > 0.5))[due > 0].ravel())
    assert costs[0][2] == costs[1][2] == 0
    bits = np.sum(costs) / 8
    expected = {"loss": bits, "bits": bits, "bit_error": np.concatenate(wrong).mean()}
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5)


@pytest.mark.parametrize("logit", [100.0, -100.0])
def test_a_wrong_bit_costs_its_logit_whatever_it_is(logit):
    recipe = Algorithms(task="copy", size=["length=2"])
    recipe.model = Sure(recipe, logit)
    found = recipe.evaluate(sequences=32)
    expected = found["bit_error"] * 2 * recipe.get_sizes()[1] * 100 / np.log(2)
    np.testing.assert_allclose(found["bits_a_sequence"], expected)


@pytest.mark.parametrize(
    ("task", "trained", "drawn", "title", "steps"),
    [
        ("priority-sort", "length=8 outputs=4", "length=10", "length 10, outputs 4", 4),
        ("repeat-copy", "length=3 repeats=2", "length=10", "length 10, repeats 2", 21),
        ("copy", "length=1:4", "length=2:900", "length {}", None),
    ],
)
def test_sizes_that_are_not_drawn_are_those_of_the_run(
    monkeypatch, task, trained, drawn, title, steps
):
    found = []
    monkeypatch.setattr(plotting, "plot_bits", lambda *args, titles: found.append((*args, titles)))
    recipe = Algorithms(task=task, size=trained.split())
    recipe.model = Sure(recipe, 0.0)
    list(recipe.plot(size=drawn.split()))
    (targets, _, titles) = found[0]
    assert steps is None or len(targets[0]) == steps
    assert titles == [title.format(len(targets[0]))]
