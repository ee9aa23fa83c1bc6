import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]

# Logical devices must be set before TensorFlow starts, so each runs in its own process.
TWO_DEVICES = """
import sys
sys.path[:0] = sys.argv[1:3]
import keras, numpy as np, tensorflow as tf
device = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(device, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
"""
TRANSLATOR = """
import training_toys as toys
from examples.training import averaging, distribution, loop, objectives, settings

options = settings.TrainingSettings(
    epochs=2, clip_norm=0.3, checkpoint_seconds=None
)
batches = toys.Batches(count=3, shapes=1)
halves = [[int((part != 0).sum()) for part in np.split(labels, 2)] for _, labels in batches.all]
assert any(first != second for first, second in halves), halves

def train(name, strategy):
    model = toys.model(dropout=0.0)
    return model, loop.train(
        model, batches, toys.dev_batches(1), options, sys.argv[3] + name,
        optimizer=keras.optimizers.SGD(0.5), objective=objectives.TokenObjective(0.1),
        average=averaging.ExponentialAverage(0.9),
        strategy=strategy, progress=toys.Quiet(),
    )

one, alone = train("/one", None)
with strategy.scope():
    two, together = train("/two", strategy)
for a, b in zip(one.weights, two.weights, strict=True):
    np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-6)
for a, b in zip(alone.history, together.history, strict=True):
    for name in ("train_loss", "tokens", "dev_loss"):
        np.testing.assert_allclose(a[name], b[name], rtol=1e-6)

with strategy.scope():
    state = keras.random.SeedGenerator(7).state
distribution.spread_seeds(strategy, [state])
copies = [v.numpy().tolist() for v in strategy.experimental_local_results(state.value)]
assert copies == [[7, 0], [8, 0]], copies

odd = {"source": tf.reshape(tf.range(1, 7), [3, 2])}, tf.constant([5, 6, 7])
(batch,) = distribution.distribute(strategy, [odd])
parts = [[v.numpy().tolist() for v in strategy.experimental_local_results(t)]
         for t in tf.nest.flatten(batch)]
assert parts == [[[[1, 2], [3, 4]], [[5, 6], [0, 0]]], [[5, 6], [7, 0]]], parts
print("equal")
"""


# The halves of the batch differ in their pictures and in their numbers of words.
CAPTIONERS = """
import contextlib
from examples.captions.objective import CaptionObjective
from examples.models import show_attend_tell, text_guided
from examples.training import distribution, steps

caption = np.array([[5, 7, 4, 3], [9, 6, 5, 3], [6, 3, 0, 0], [3, 0, 0, 0]], "int32")
target = np.pad(caption, [(0, 0), (1, 0)], constant_values=2)[:, :-1] * (caption != 0)
given = {
    "image": np.random.default_rng(1).uniform(0, 255, (4, 24, 24, 1)).astype("float32"),
    "guide": np.array([[5, 7], [6, 0], [4, 8], [9, 0]], "int32"),
    "target": target,
}
labels = {"caption": caption, "box": np.zeros((4, 4, 4), "float32")}
sizes = {"units": 7, "embedding_dim": 5, "annotation_dim": 8, "seed": 1}
objective = CaptionObjective((3, 3), side=24)

def train(module, extra, strategy):
    keras.utils.set_random_seed(1)
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = module.build(11, 24, **sizes, **extra)
        step = steps.TrainingStep(
            model, keras.optimizers.SGD(0.1), objective, jit_compile=False, strategy=strategy
        )
    inputs = {name: given[name] for name in module.INPUTS}
    batch = tf.nest.map_structure(tf.constant, (inputs, labels))
    batches = distribution.distribute(strategy, [batch] * 2) if strategy else [batch] * 2
    return model, [float(step(*batch)["loss_sum"]) for batch in batches]

for module, extra in (
    (show_attend_tell, {"doubly_stochastic": 0.5}), (text_guided, {"entropy": 0.5})
):
    (one, alone), (two, together) = (train(module, extra, each) for each in (None, strategy))
    np.testing.assert_allclose(alone, together, rtol=1e-5)
    assert len(one.losses) == 1, module
    for a, b in zip(one.weights, two.weights, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=2e-5, err_msg=a.path)
print("equal")
"""


@pytest.mark.thorough
@pytest.mark.parametrize("program", [TRANSLATOR, CAPTIONERS], ids=["translator", "captioners"])
def test_two_replicas_equal_one_device_with_the_joined_batch(program, tmp_path):
    here = str(pathlib.Path(__file__).parent)
    command = [sys.executable, "-c", TWO_DEVICES + program, here, str(ROOT), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().endswith("equal")
