"""Updates of optimizers that differ from Keras' defaults."""

import keras
import pytest

from examples.recipes.algorithms import Algorithms
from examples.recipes.translation import Translation


class Batches:
    """Stands in for training data of ten batches."""

    def batches_per_epoch(self):
        return 10


def after_steps(optimizer, steps):
    """Where a variable stands that begins at 0 and has the gradient 0.5 in every step."""
    variable = keras.Variable(0.0)
    optimizer.build([variable])
    for _ in range(steps):
        optimizer.apply([keras.ops.convert_to_tensor(0.5)])
    return float(variable)


@pytest.mark.parametrize(("steps", "expected"), [(1, -4.569117e-4), (2, -1.204482e-3)])
def test_rmsprop_of_the_algorithms_is_centred_with_epsilon_in_the_root(steps, expected):
    recipe = Algorithms(optimizer="rmsprop", learning_rate=1e-4)
    optimizer = recipe.make_optimizer(None, Batches())
    assert after_steps(optimizer, steps) == pytest.approx(expected, rel=1e-5)


def test_adadelta_begins_as_small_as_its_epsilon_makes_it():
    optimizer = Translation(optimizer="adadelta").make_optimizer(None, Batches())
    assert after_steps(optimizer, 1) == pytest.approx(-0.004472, abs=5e-7)
