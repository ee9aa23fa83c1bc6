import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.training.distribution import ReplicatedModel, spread_rows
from examples.training.fitting import make_trainer

ROOT = pathlib.Path(__file__).parents[3]

# Logical devices must be set before TensorFlow starts, so it runs in its own process.
PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:3]
import keras, numpy as np, tensorflow as tf
device = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

import training_toys as toys
from examples.data.rows import RowBatches
from examples.training import distribution
from examples.training.fitting import train
from examples.training.training_plan import TrainingPlan
from examples.training.settings import TrainingSettings
from examples.training.workers import Workers
from keras_attention import TokenCrossentropy
from keras_attention.metrics import Perplexity

draw = np.random.default_rng(1)
ids = draw.integers(1, 23, (8, 5)).astype("int32")  # all of one length: replicas weigh the same
groups = [({"source": ids, "target": np.roll(ids, 1, axis=1)}, ids)]
# The devices sum a gradient in another order.
settings = TrainingSettings(epochs=2, monitor="perplexity")

def run(name, strategy):
    workers = Workers(strategy)
    with workers.scope():
        plan = TrainingPlan(
            toys.model(dropout=0.0),
            RowBatches(groups, 4, seed=5),
            RowBatches(groups, 4, is_training=False),
            settings,
            keras.optimizers.SGD(0.5, global_clipnorm=0.3),
            TokenCrossentropy(0, 0.1),
            save=lambda best: None,
            digests={},
            metrics=[Perplexity()],
            trainer=distribution.ReplicatedModel,  # Keras clips without adding up repeated ids
        )
    return plan.model, train(plan, sys.argv[3] + name, workers).history

(one, alone), (two, together) = run("/one", None), run("/two", strategy)
for a, b in zip(one.weights, two.weights, strict=True):
    np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-6)
for a, b in zip(alone, together, strict=True):
    for name in ("loss", "perplexity", "val_loss", "val_perplexity"):
        np.testing.assert_allclose(a[name], b[name], rtol=1e-5)

odd = {"source": tf.reshape(tf.range(1, 7), [3, 2])}, tf.constant([5, 6, 7])
(batch,) = distribution.distribute(strategy, [odd])
parts = [[v.numpy().tolist() for v in strategy.experimental_local_results(t)]
         for t in tf.nest.flatten(batch)]
assert parts == [[[[1, 2], [5, 6]], [[3, 4], [0, 0]]], [[5, 7], [6, 0]]], parts
print("equal")
"""


@pytest.mark.thorough
def test_two_replicas_equal_one_device_with_the_joined_batch(tmp_path):
    here = str(pathlib.Path(__file__).parent)
    command = [sys.executable, "-c", PROGRAM, here, str(ROOT), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("equal")


def test_a_step_sums_the_gradient_once(monkeypatch):
    sums, all_reduce = [], tf.distribute.ReplicaContext.all_reduce

    def count(context, reduce_op, value, options=None):
        sums.append(value)
        return all_reduce(context, reduce_op, value, options)

    monkeypatch.setattr(tf.distribute.ReplicaContext, "all_reduce", count)
    x = keras.Input([3])
    model = keras.Model(x, keras.layers.Dense(2)(x))
    optimizer = keras.optimizers.SGD(0.5, global_clipnorm=0.3)
    trainer = make_trainer(model, "mse", None, optimizer, False, ReplicatedModel)
    before = [weight.numpy() for weight in model.weights]
    trainer.train_on_batch(np.ones([4, 3]), np.ones([4, 2]))
    assert [len(value) for value in sums] == [2]
    moved = [weight.numpy() - old for weight, old in zip(model.weights, before, strict=True)]
    norm = np.sqrt(sum(np.sum(change**2) for change in moved))
    np.testing.assert_allclose(norm, 0.5 * 0.3, rtol=1e-5)


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_the_padding_of_a_batch_is_spread_over_the_replicas(replicas):
    rows = np.array([[1], [2], [3], [4], [0], [0]])
    batches = tf.data.Dataset.from_tensors(({"source": rows}, rows[:, 0], rows[:, 0] > 0))
    spread = spread_rows(batches, replicas)
    assert spread.element_spec == batches.element_spec and len(spread) == 1
    ((inputs, labels, weights),) = spread
    parts = np.split(labels.numpy(), replicas)
    assert [part.tolist() for part in parts] == [
        rows[k::replicas, 0].tolist() for k in range(replicas)
    ]
    assert min(np.count_nonzero(part) for part in parts) >= 4 // replicas
    np.testing.assert_array_equal(inputs["source"][:, 0], labels)
    np.testing.assert_array_equal(weights, labels > 0)
