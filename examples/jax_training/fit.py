"""`fit`: trains one or more seeds of a packed training together on JAX, without TensorFlow.

The steps are Keras' stateless calls of the model and the optimizer under `jax.jit`, and `jax.vmap`
over the seeds: all read the same batches, in the order that `train` has, from other initial weights
and with other dropout. A small model leaves a GPU idle most of the time, so that several seeds take
little longer than one.
"""

import concurrent.futures
import pathlib
import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import keras
import numpy as np

from examples.jax_training.packed_pairs import PackedPairs
from examples.jax_training.packed_training import PackedTraining, write_arrays
from examples.training import schedules  # noqa: F401  registers the learning rates
from keras_attention import TokenCrossentropy


def fit(
    packed: PackedTraining,
    seeds: Sequence[int],
    directory: pathlib.Path,
    keep: str = "best",
    float16: bool = False,
) -> None:
    """Trains, and writes `seed-N.npz` with the weights and the history of each seed.

    Args:
        packed: The training.
        seeds: Ints of at least 0.
        directory: Where the files are written.
        keep: `"best"`, the weights of the epoch with the lowest validation perplexity, or `"last"`,
            those of the last epoch, for a learning rate that falls to nothing.
        float16: Whether the weights are rounded to half precision, half as large to carry.

    Raises:
        ValueError: If a seed diverged, after the files of the others are written.
    """
    settings = packed.settings
    training, validation = (
        PackedPairs(*packed.get_pairs(part)) for part in ("training", "validation")
    )
    steps = _Steps(settings, seeds)
    steps.compile(training.shapes, validation.shapes)
    history, kept, lowest = [], None, np.full(len(seeds), np.inf)
    began = time.monotonic()
    for epoch in range(1, settings["epochs"] + 1):
        loss = steps.train(training.epoch(epoch - 1))
        averaged = steps.get_averaged_weights()
        perplexity = steps.measure(validation.in_order(), averaged)
        perplexity = np.where(np.isnan(perplexity), np.inf, perplexity)
        better = (perplexity < lowest) | (kept is None or keep == "last")
        lowest = np.where(better, perplexity, lowest)
        kept = _select(better, averaged, averaged if kept is None else kept)
        seconds = time.monotonic() - began
        history.append([epoch, loss, perplexity, seconds])
        shown = ", ".join(f"{number:.3f}" for number in perplexity)
        print(f"epoch {epoch}: loss {loss.mean():.3f}, validation perplexity {shown}", flush=True)
    diverged = [seed for seed, value in zip(seeds, lowest, strict=True) if not np.isfinite(value)]
    for place, seed in enumerate(seeds):
        if seed in diverged:
            continue
        weights = [np.asarray(weight[place]) for weight in kept]
        if float16:
            weights = [weight.astype(np.float16) for weight in weights]
        rows = [(epoch, loss[place], other[place], t) for epoch, loss, other, t in history]
        arrays = {f"weight_{number}": weight for number, weight in enumerate(weights)}
        write_arrays(directory / f"seed-{seed}.npz", history=np.array(rows), **arrays)
    if diverged:
        raise ValueError(
            f"The training diverged with seeds {diverged}, of which nothing was written. Pack it "
            "anew with a lower --learning-rate, a longer --warmup or a harder --clip-norm."
        )


class _Steps:
    """The compiled steps, and the state of all seeds, whose arrays have an axis of seeds first."""

    def __init__(self, settings, seeds):
        states = []
        for seed in seeds:
            keras.utils.set_random_seed(seed)
            self._model = model = keras.models.model_from_json(settings["model"])
            fixed = [np.asarray(variable.value) for variable in model.non_trainable_variables]
            # The state of a layer's dropout is in its configuration, the same for every seed.
            fixed = [x + np.uint32(1000 * seed) if x.dtype == np.uint32 else x for x in fixed]
            states.append(([variable.value for variable in model.trainable_variables], fixed))
        self._optimizer = keras.saving.deserialize_keras_object(settings["optimizer"])
        self._optimizer.build(model.trainable_variables)
        slots = [variable.value for variable in self._optimizer.variables]
        self._weights, self._fixed, self._slots = (
            jax.tree.map(lambda *arrays: jnp.stack(arrays), *parts)
            for parts in (*zip(*states, strict=True), [slots] * len(seeds))
        )
        self._smoothed = TokenCrossentropy(label_smoothing=settings["label_smoothing"])
        self._plain = TokenCrossentropy()
        axes = (0, 0, 0, None, None)
        self._train = jax.jit(jax.vmap(self._train_one, axes), donate_argnums=(0, 1, 2))
        self._measure = jax.jit(jax.vmap(self._measure_one, axes[1:]))

    def compile(self, training_shapes, validation_shapes):
        """Traces all shapes, and compiles them side by side."""
        lowered = {}
        for shapes, step, state in (
            (training_shapes, self._train, (self._weights, self._fixed, self._slots)),
            (validation_shapes, self._measure, (self._weights, self._fixed)),
        ):
            for rows, *lengths in shapes:
                source, target = (jax.ShapeDtypeStruct((rows, n), "int32") for n in lengths)
                inputs = {"source": source, "target": target}
                key = (step is self._train, source.shape, target.shape)
                lowered[key] = step.lower(*state, inputs, target)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            compiled = pool.map(lambda each: each.compile(), lowered.values())
            self._compiled = dict(zip(lowered, compiled, strict=True))

    def train(self, batches):
        """Makes a step of each batch; returns the mean losses of the seeds."""
        losses = []
        for inputs, labels in batches:
            step = self._compiled[True, inputs["source"].shape, labels.shape]
            state = self._weights, self._fixed, self._slots
            *state, loss = step(*state, inputs, labels)
            self._weights, self._fixed, self._slots = state
            losses.append(loss)
        return np.mean(np.stack(losses), axis=0)

    def measure(self, batches, weights):
        """Returns the perplexities of the seeds."""
        total = 0.0
        for inputs, labels in batches:
            step = self._compiled[False, inputs["source"].shape, labels.shape]
            total = total + np.stack(step(weights, self._fixed, inputs, labels))
        return np.exp(total[0] / total[1])

    def get_averaged_weights(self):
        """Returns copies of the moving averages of the weights, or of the weights."""
        if not self._optimizer.use_ema:
            return [jnp.copy(weight) for weight in self._weights]
        averages = {id(each) for each in self._optimizer._model_variables_moving_average}
        variables = zip(self._optimizer.variables, self._slots, strict=True)
        return [jnp.copy(slot) for variable, slot in variables if id(variable) in averages]

    def _train_one(self, weights, fixed, slots, inputs, labels):
        def compute_loss(weights):
            logits, new, losses = self._model.stateless_call(
                weights, fixed, inputs, training=True, return_losses=True
            )
            return self._smoothed(labels, logits) + sum(losses), new

        (loss, fixed), gradients = jax.value_and_grad(compute_loss, has_aux=True)(weights)
        weights, slots = self._optimizer.stateless_apply(slots, gradients, weights)
        return weights, fixed, slots, loss

    def _measure_one(self, weights, fixed, inputs, labels):
        logits, _ = self._model.stateless_call(weights, fixed, inputs, training=False)
        count = jnp.sum(labels > 0)
        return self._plain(labels, logits) * count, count


def _select(better, new, old):
    """Returns the new weights of the seeds that are better, and the old ones of the others."""
    better = jnp.asarray(better)
    return [
        jnp.where(better.reshape(-1, *[1] * (ours.ndim - 1)), ours, theirs)
        for ours, theirs in zip(new, old, strict=True)
    ]
