"""What a task of the Neural Turing Machine is: a way to draw batches of sequences.

Graves et al. 2014 (https://arxiv.org/abs/1410.5401), section 4. A sequence has an input part,
a target part and steps at which the targets are due; what a model says at other steps costs
nothing:

    cost = - sum over the steps t that are due and the channels c of
             y_tc log2 p_tc + (1 - y_tc) log2(1 - p_tc)                    bits a sequence

Code name -> paper name: `inputs` -> x_t, `targets` -> y_t.
"""

import abc
import dataclasses
import numbers

import numpy as np

from keras_attention import validation

SLOTS, SLOT_DIM = 128, 20
"""The memory of all experiments of the paper."""


@dataclasses.dataclass(frozen=True)
class Example:
    """A batch of sequences of one length, as float32 arrays.

    Attributes:
        inputs: `(batch, time, input_dim)`.
        targets: `(batch, time, output_dim)`, each 0 or 1; 0 where nothing is due.
        due: `(batch, time)`, 1 where the targets are due, else 0.
    """

    inputs: np.ndarray
    targets: np.ndarray
    due: np.ndarray

    def pad(self, time: int) -> "Example":
        """Returns the sequences followed by blank steps, at which nothing is due."""
        missing = time - self.due.shape[1]
        if missing < 0:
            raise ValueError(
                "Example.pad expects `time` to be at least the length of the sequences, "
                f"{self.due.shape[1]}. Received: time={time}"
            )

        def pad(array):
            return np.pad(array, [(0, 0), (0, missing)] + [(0, 0)] * (array.ndim - 2))

        return Example(pad(self.inputs), pad(self.targets), pad(self.due))


def blank(batch_size: int, time: int, input_dim: int, output_dim: int) -> Example:
    """Returns an `Example` of zeros, for a task to write its steps into."""
    shapes = (batch_size, time, input_dim), (batch_size, time, output_dim), (batch_size, time)
    return Example(*(np.zeros(shape, np.float32) for shape in shapes))


def cost_in_bits(probabilities: np.ndarray, example: Example) -> np.ndarray:
    """Returns the cost of each sequence `(batch,)`, in bits, float64.

    Args:
        probabilities: `(batch, time, output_dim)`, of a 1 on each channel.
        example: The `Example` they predict.
    """
    probabilities = np.asarray(probabilities, np.float64)
    given = np.where(example.targets > 0.5, probabilities, 1.0 - probabilities)
    counted = np.where(example.due[..., None] > 0, given, 1.0)
    with np.errstate(divide="ignore"):  # sure and wrong costs infinitely many bits
        return -np.log2(counted).sum(axis=(1, 2))


def logit_cost_in_bits(logits: np.ndarray, example: Example) -> np.ndarray:
    """Returns the cost of each sequence `(batch,)`, in bits, float64, finite for finite logits.

    Args:
        logits: `(batch, time, output_dim)`, those of a 1 on each channel.
        example: The `Example` they predict.
    """
    logits = np.asarray(logits, np.float64)
    costs = np.logaddexp(0.0, np.where(example.targets > 0.5, -logits, logits)) / np.log(2.0)
    return np.where(example.due[..., None] > 0, costs, 0.0).sum(axis=(1, 2))


class Task(abc.ABC):
    """Draws sequences of a kind; one size is drawn for a whole batch.

    Attributes:
        name: What the command line calls it.
        title: A line for lists and figures.
        input_dim: Int, channels of the inputs.
        output_dim: Int, channels of the targets.
        sizes: Dict from the name of a size to its range (low, high), both included; those the
            paper trains on.
        smallest: Dict, the least value of a size where it is more than 1.
        at_most: Dict from a size to the one that it never exceeds: of ranges, that limits it.
        paper: Dict from "feed_forward" and "lstm" to the paper's settings with that controller:
            `heads` (as many that read and as many that write), `units` (a tuple, a number a
            layer), `memory_size`, `word_size` and `learning_rate`.
        published_parameters: Dict with the same keys, the numbers of parameters it prints.
        baseline: Dict of `units`, `learning_rate` and `published_parameters` of its LSTM
            without a memory.

    Where the best possible cost is known, a task also has `optimal_bits(example)`.
    """

    name: str
    title: str
    input_dim: int
    output_dim: int
    sizes: dict[str, tuple[int, int]]
    smallest: dict[str, int] = {}
    at_most: dict[str, str] = {}
    paper: dict[str, dict]
    published_parameters: dict[str, int]
    baseline: dict

    @abc.abstractmethod
    def time(self, **sizes: int) -> int:
        """Returns the number of steps of a sequence of these sizes, all given as ints."""

    @abc.abstractmethod
    def generate(self, generator: np.random.Generator, batch_size: int, **sizes: int) -> Example:
        """Returns sequences of these sizes, all given as ints."""

    def draw(self, generator: np.random.Generator, batch_size: int, **sizes) -> Example:
        """Returns sequences of one size, which is drawn first.

        Args:
            generator: A `numpy.random.Generator`; what is drawn depends on it alone.
            batch_size: Positive int, sequences to draw.
            **sizes: A range (low, high) or an int for each size that is not to come from the
                task's own range.

        Raises:
            ValueError: If an argument lies outside its range, the task has no such size, or sizes
                do not fit each other.
        """
        validation.check_positive_int(type(self).__name__, "batch_size", batch_size)
        return self.generate(generator, batch_size, **self.draw_sizes(generator, **sizes))

    def draw_sizes(self, generator: np.random.Generator, **sizes) -> dict[str, int]:
        """Returns the sizes of a batch; arguments and errors are those of `draw`."""
        ranges = self.ranges(**sizes)
        self.check(ranges)
        return self.cap(
            {key: int(generator.integers(*ends, endpoint=True)) for key, ends in ranges.items()}
        )

    def ranges(self, **sizes) -> dict[str, tuple[int, int]]:
        """Returns (low, high) of every size: the task's own, but for the `sizes` given."""
        unknown = sorted(set(sizes) - set(self.sizes))
        if unknown:
            raise ValueError(
                f"The task {self.name} has the sizes {', '.join(map(repr, self.sizes))}. "
                f"Received: {unknown[0]}={sizes[unknown[0]]!r}"
            )
        given = {key: self._range(key, value) for key, value in sizes.items()}
        return {**self.sizes, **given}

    def cap(self, sizes: dict[str, int]) -> dict[str, int]:
        """Returns sizes of which none exceeds the one that limits it, see `at_most`."""
        return {
            name: min(size, sizes[self.at_most.get(name, name)]) for name, size in sizes.items()
        }

    def check(self, ranges: dict[str, tuple[int, int]]) -> None:
        """Refuses ranges of all sizes if not even the lowest fit each other.

        Raises:
            ValueError: The sizes that do not.
        """
        for smaller, larger in self.at_most.items():
            if ranges[smaller][0] > ranges[larger][0]:
                raise ValueError(
                    f"The task {self.name} expects `{smaller}` to be at most `{larger}`. Received: "
                    f"{smaller}={ranges[smaller][0]}, {larger}={ranges[larger][0]}"
                )

    def _range(self, key, value):
        pair = (value, value) if isinstance(value, numbers.Integral) else value
        least = self.smallest.get(key, 1)
        ints = isinstance(pair, tuple | list) and len(pair) == 2
        ints = ints and all(isinstance(n, numbers.Integral) for n in pair)
        if not ints or isinstance(value, bool) or not least <= pair[0] <= pair[1]:
            raise ValueError(
                f"The task {self.name} expects `{key}` to be an int of at least {least}, or a "
                f"range (low, high) of such ints. Received: {key}={value!r}"
            )
        return int(pair[0]), int(pair[1])


def paper_settings(heads, units, learning_rate: float) -> dict[str, dict]:
    """Returns `Task.paper`; `heads` and `units` are (feed-forward, LSTM)."""
    shared = {"memory_size": SLOTS, "word_size": SLOT_DIM, "learning_rate": learning_rate}
    return {
        controller: {"heads": heads[place], "units": units[place], **shared}
        for place, controller in enumerate(("feed_forward", "lstm"))
    }
