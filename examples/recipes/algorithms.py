"""The tasks of the Neural Turing Machine: bits in, bits out."""

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, Literal

import keras
import numpy as np

from examples import tasks
from examples.commands.arguments import UsageError
from examples.commands.options import NonNegativeFloat, PositiveFloat
from examples.recipes.base import Recipe, Served
from examples.tasks.base import Example, Task, logit_cost_in_bits
from examples.tasks.bits import BitError, Bits, BitsPerSequence
from examples.tasks.streams import LinearCurriculum, Stream
from keras_attention import NTM, plotting

#: Held-out data: seeds that no training has, at most 2**32 - 1.
VALIDATION_SEED, TEST_SEED = 2**32 + 1, 2**32 + 2
VALIDATION_BATCHES, VALIDATION_BATCH_SIZE = 16, 16
#: Sizes to draw, in units of the largest that was trained on.
BEYOND = (1.0, 1.5, 2.5, 6.0)
DESCRIPTIONS = {
    "inputs": "the sequence that is shown, blanks where the machine answers",
    "outputs": "probabilities of a 1 at every time",
    "read_weights": "where each read head attended",
    "write_weights": "where each write head attended",
}


@dataclasses.dataclass(kw_only=True)
class Algorithms(Recipe):
    """Learns an algorithm from random sequences, which are made while it trains.

    examples:
      the copy task, in a minute or two of training:
        python -m examples train {0} --task copy --run runs/copy
      as the paper trains it, one sequence at a time:
        python -m examples train {0} --task copy --run runs/paper --batch-size 1 \\
            --optimizer rmsprop --learning-rate 1e-4
      short sequences first, and only up to 10:
        python -m examples train {0} --task copy --run runs/short --size length=1:10 \\
            --curriculum 10
      until it makes hardly an error:
        python -m examples train {0} --task repeat-copy --run runs/repeat --epochs 500 \\
            --stop-at-metric 0.05

    the sizes of the tasks:
      copy length, repeat-copy length and repeats, associative-recall items, ngrams length,
      priority-sort length and outputs

    Attributes:
        task: What to learn.
        size: Ranges NAME=LOW:HIGH of sizes; the paper's by default.
        curriculum: Begin with the smallest sizes and reach the full range after N epochs; with
            the full range by default.
        batch_size: Sequences in a batch, all of one length.
        epoch_size: Sequences in an epoch, after which it is measured.
        num_buckets: Lengths to pad to; each is compiled once.
        monitor: What decides which weights are best, bits a sequence or the fraction of wrong
            bits.
        optimizer: RMSprop is that of Graves 2013, centred and with momentum.
        clip_norm: Largest norm of the gradient, instead of --clip-value; 0 does not clip.
        clip_value: Largest absolute value of an element of the gradient, as in the paper; 0 does
            not clip.
    """

    training_fields: ClassVar = ("monitor", "optimizer", "clip_value")
    quick_training: ClassVar = "--epochs 1 --epoch-size 20 --no-xla"
    quick_evaluation: ClassVar = "--sequences 8"
    float_format: ClassVar = ".6g"

    task: Literal[tuple(tasks.TASKS)] = "copy"
    size: list[str] | None = None
    curriculum: int | None = None
    batch_size: int = 2
    epoch_size: int = 1000
    num_buckets: int = 2
    epochs: int = 30
    monitor: Literal["bits", "bit_error"] = "bits"
    optimizer: Literal["adam", "rmsprop"] = "adam"
    learning_rate: PositiveFloat = 2e-3
    clip_norm: NonNegativeFloat = 0.0
    clip_value: NonNegativeFloat = 10.0

    @property
    def _task(self) -> Task:
        return tasks.find(self.task)

    def check(self) -> None:
        parse_sizes(self.size, self._task)
        if self.epoch_size < self.batch_size:
            raise UsageError(
                "An epoch holds at least one batch. Raise --epoch-size or lower --batch-size. "
                f"Received: --epoch-size {self.epoch_size} --batch-size {self.batch_size}"
            )
        if self.clip_norm and self.clip_value:
            raise UsageError(
                "Gradients are clipped by their norm or by value, not both. Add --clip-value 0 or "
                f"leave --clip-norm out. Received: --clip-norm {self.clip_norm:g} --clip-value "
                f"{self.clip_value:g}"
            )

    def read_data(self) -> dict[str, Stream]:
        curriculum = LinearCurriculum(self.curriculum) if self.curriculum else None
        count, buckets = self.epoch_size // self.batch_size, self.num_buckets
        sizes = parse_sizes(self.size, self._task)
        training = Stream(
            self._task, self.batch_size, count, self.seed, curriculum, buckets, **sizes
        )
        validation = Stream(
            self._task,
            VALIDATION_BATCH_SIZE,
            VALIDATION_BATCHES,
            VALIDATION_SEED,
            None,
            min(2, buckets),
            **sizes,
        )
        return {"training": training, "validation": validation}

    def make_batches(self, name: str, part: Stream) -> Stream:
        print(f"{name}: {part}")
        return part

    def get_sizes(self) -> tuple[int, ...]:
        return self._task.input_dim, self._task.output_dim

    def make_optimizer(self, model: keras.Model, batches: object) -> keras.optimizers.Optimizer:
        options = self.get_optimizer_options() | {"clipvalue": self.clip_value or None}
        if self.optimizer == "adam":
            return keras.optimizers.Adam(self.learning_rate, **options)
        return keras.optimizers.RMSprop(
            self.learning_rate, rho=0.95, momentum=0.9, epsilon=1e-4, centered=True, **options
        )

    def make_loss(self) -> keras.losses.Loss:
        return BitsPerSequence()

    def make_metrics(self) -> list[keras.metrics.Metric]:
        return [Bits("bits"), BitError("bit_error")]

    def evaluate(self, *, size: list[str] | None = None, sequences: int = 1024) -> dict:
        """Measures a run on sequences that it has not seen.

        examples:
          python -m examples evaluate runs/copy                   the lengths it was trained on
          python -m examples evaluate runs/copy --size length=50  longer ones
          python -m examples evaluate runs/copy --size length=120 --sequences 100

        what the numbers mean:
          bits a sequence    cross-entropy in base 2, summed over the steps and channels that are
                             due
          optimum            dynamic n-grams: the same of the best predictor, on the same sequences
          bit error          fraction of the bits due that are wrong
          wrong sequences    fraction of the sequences with a wrong bit

        Args:
            size: Ranges NAME=LOW:HIGH of sizes; those of the training by default.
            sequences: Sequences at least, in batches of one length.

        Returns:
            The numbers.
        """
        trained = self._get_ranges()
        sizes = {**trained, **parse_sizes(size, self._task, trained)}
        batch_size = 32
        batches = -(-sequences // batch_size)
        stream = Stream(self._task, batch_size, batches, TEST_SEED, max_shapes=8, **sizes)
        costs, wrong, due, optimum = [], [], [], []
        for number in range(batches):
            example = stream.example(0, number)
            padded = stream.pad(example)
            logits = self.predict_logits(padded.inputs)
            costs.append(logit_cost_in_bits(logits, padded))
            errors = ((logits > 0) != (padded.targets > 0.5)) & (padded.due[:, :, None] > 0)
            wrong.append(errors.sum(axis=(1, 2)))
            due.append(padded.due.sum(axis=1) * padded.targets.shape[2])
            if hasattr(self._task, "optimal_bits"):
                optimum.append(self._task.optimal_bits(example))
        costs, wrong, due = map(np.concatenate, (costs, wrong, due))
        numbers = {
            "task": self.task,
            **{name: list(ends) for name, ends in sizes.items()},
            "sequences": len(costs),
            "bits_a_sequence": float(costs.mean()),
            "standard_error": float(costs.std() / np.sqrt(len(costs))),
            "bit_error": float(wrong.sum() / due.sum()),
            "wrong_sequences": float((wrong > 0).mean()),
        }
        if optimum:
            best = np.concatenate(optimum)
            numbers["optimum"] = float(best.mean())
            numbers["above_optimum"] = float((costs - best).mean())
        return numbers

    def plot(self, *, size: list[str] | None = None) -> Iterator[tuple[str, object]]:
        """Draws what a model writes, and where its heads attend.

        examples:
          python -m examples plot runs/copy --output-dir plots
          python -m examples plot runs/copy --output-dir plots --size length=120

        Writes outputs.png, the targets above the outputs for several sizes (the largest it was
        trained on, and beyond), and, for a machine with a memory, memory_1.png, memory_2.png, ...:
        the weights of the heads over time.

        Args:
            size: Ranges NAME=LOW:HIGH of sizes, of which one is drawn; of those not given, one of
                the training.

        Yields:
            The name of a file and its figure.
        """
        trained = self._get_ranges()
        if given := parse_sizes(size, self._task, trained):
            generator = np.random.default_rng(TEST_SEED)
            drawn = [self._task.draw_sizes(generator, **{**trained, **given})]
        else:
            drawn = self._choose_sizes()
        examples = [self._draw_example(sizes) for sizes in drawn]
        outputs = [self.predict(example.inputs) for example in examples]
        titles = [", ".join(f"{name} {n}" for name, n in sizes.items()) for sizes in drawn]
        due = [example.due[0] > 0 for example in examples]
        yield (
            "outputs.png",
            plotting.plot_bits(
                [example.targets[0][kept] for example, kept in zip(examples, due, strict=True)],
                [output[0][kept] for output, kept in zip(outputs, due, strict=True)],
                titles=titles,
            ),
        )
        if self._ntm is None:
            return
        for number, (example, output, title) in enumerate(
            zip(examples, outputs, titles, strict=True), 1
        ):
            history = self.get_history(example.inputs)
            figure = plotting.plot_memory_use(
                example.inputs[0],
                output[0] * example.due[0][:, None],
                history["write_weights"][0],
                history["read_weights"][0],
                memory_matrix=history["memory"][0, -1],
                title=f"{self._task.title}: {title}",
            )
            yield f"memory_{number}.png", figure

    def export(self) -> Served:
        """Writes a SavedModel version that a model server loads.

        examples:
          python -m examples export runs/copy served       writes served/1, then served/2, ...
          less served/1/assets.extra/model_card.md         what a client sends and gets

        A request holds `inputs` (batch, time, channels); the answer holds `outputs`, the
        probability of a 1, and for a machine with a memory `read_weights` and `write_weights`
        over time.

        Returns:
            What is written.
        """
        inputs = keras.Input((None, self._task.input_dim), name="inputs")
        answers = {}
        if self._ntm is None:
            logits = self.model({"inputs": inputs})
        else:
            # A new layer around the trained cell: in Keras one layer cannot be called in two
            # models with different numbers of outputs.
            layer = NTM(self._ntm.cell, dtype=self._ntm.dtype_policy, name="ntm")
            logits, history = layer(inputs, return_auxiliary_outputs=True)
            answers = {name: history[name] for name in ("read_weights", "write_weights")}
        answers["outputs"] = keras.layers.Activation("sigmoid", dtype="float32")(logits)
        name = self.run.settings["model"]
        return Served(keras.Model({"inputs": inputs}, answers, name=name), DESCRIPTIONS)

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Returns the probabilities of a 1, `(batch, time, output_dim)`."""
        return 1.0 / (1.0 + np.exp(-np.clip(self.predict_logits(inputs), -60.0, 60.0)))

    def predict_logits(self, inputs: np.ndarray) -> np.ndarray:
        """Returns the logits of these probabilities, float64."""
        return np.asarray(self.model.predict_on_batch({"inputs": inputs}), np.float64)

    def get_history(self, inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the history of heads and memory of a machine that has them."""
        _, history = self._ntm(inputs, return_auxiliary_outputs=True)
        return {name: keras.ops.convert_to_numpy(value) for name, value in history.items()}

    @property
    def _ntm(self):
        """The layer with the memory, None for a model without one."""
        return next((layer for layer in self.model.layers if layer.name == "ntm"), None)

    def _get_ranges(self):
        """The range of each size in the training."""
        return self._task.ranges(**parse_sizes(self.size, self._task))

    def _choose_sizes(self):
        """The sizes to draw: the largest of training, and larger ones."""
        largest = self._task.cap({name: high for name, (_, high) in self._get_ranges().items()})
        return [{name: round(high * factor) for name, high in largest.items()} for factor in BEYOND]

    def _draw_example(self, sizes) -> Example:
        return Stream(self._task, 1, 1, TEST_SEED, **sizes).example(1, 0)


def parse_sizes(
    texts: list[str] | None, task: Task, ranges: dict[str, tuple[int, int]] | None = None
) -> dict[str, tuple[int, int]]:
    """Returns the sizes that `--size` gave, by name.

    Args:
        texts: Those of the option.
        task: The `Task`.
        ranges: The sizes that are not given; the task's own by default.

    Raises:
        UsageError: If one is not `NAME=LOW:HIGH` or `NAME=N`, the task has no such size, or they do
            not fit each other.
    """
    sizes = {}
    for text in texts or ():
        name, _, ends = text.partition("=")
        low, _, high = ends.partition(":")
        try:
            sizes[name] = (int(low), int(high or low))
            task.ranges(**{name: sizes[name]})
        except ValueError as error:
            known = " or ".join(f"{known}=1:9" for known in task.sizes)
            detail = f" {error}" if name in task.sizes and low.isdigit() else ""
            raise UsageError(
                f"--size expects a range such as {known} for the task {task.name}.{detail} "
                f"Received: --size {text}"
            ) from None
    try:
        task.check({**(ranges or task.sizes), **sizes})
    except ValueError as error:
        raise UsageError(str(error)) from None
    return sizes
