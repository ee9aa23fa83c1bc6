"""The training on stories with questions: options, stories, words, optimizer and batches."""

import argparse
import dataclasses
import functools
import pathlib
import typing
from typing import ClassVar, Literal

import keras

from examples.commands.arguments import UsageError
from examples.commands.options import NonNegativeFloat, PositiveFloat
from examples.data.babi import JOINT, Question, read_questions, split
from examples.data.babi_encoding import (
    SentenceTokenizer,
    count_words,
    encode_questions,
    learn_words,
)
from examples.data.report import DataError
from examples.data.rows import RowBatches
from examples.recipes.base import Recipe
from examples.training.linear_start import (
    LINEAR_CHOICE,
    LINEAR_FRACTION,
    Choice,
    LinearStart,
    SummedCostDescent,
    make_metrics,
)
from keras_attention.export import tokenizers

#: The names of the optimizers and their rates.
OPTIMIZERS = {"sgd": 0.01, "adam": 1e-3}
LINEAR_TEXT = (
    "The best weights are of the linear start, in which sentences have scores and no weights. "
    "Train on: --resume --epochs N."
)


def parse_task(text: str) -> str:
    """The type of `--task`: a number, or "joint"."""
    if text == JOINT or (text.isdecimal() and int(text)):
        return text if text == JOINT else str(int(text))
    raise argparse.ArgumentTypeError(f"expected the number of a task, or joint, got {text!r}")


@dataclasses.dataclass(kw_only=True)
class BabiTraining(Recipe):
    """Options, data and training of models that read stories with questions; see `Babi`.

    Attributes:
        stories: Folder or tar archive of the bAbI tasks, ARCHIVE:FOLDER where it has them in
            several folders, or files of stories in their format.
        task: Number of a task, or joint for all there are.
        max_memories: Sentences that are read, the most recent ones.
        monitor: What decides which weights are best on the validation questions: the answers that
            are wrong, or their cross-entropy; choice is the error, then the cross-entropy, and
            never weights without softmax.
        linear_start: Begin without the softmax over memories.
        linear_epochs: Epochs after which the softmax comes back at the latest.
        linear_patience: Or after N epochs that did not lower the validation loss.
        optimizer: SGD descends the cost summed over a batch, as the paper does.
        learning_rate: Learning rate, half as much during the linear start; by default 0.01 for
            sgd, 0.001 for adam.
        lr_decay_every: Epochs with softmax after which the rate is halved, again and again.
        clip_norm: Largest norm of the gradient, 0 for any; of each matrix for sgd, of all together
            for adam.
    """

    tokenizer_names: ClassVar = ("words",)
    training_fields: ClassVar = (
        "monitor",
        "linear_start",
        "linear_epochs",
        "linear_patience",
        "optimizer",
        "lr_decay_every",
    )

    stories: list[str]
    task: typing.Annotated[str, parse_task] = JOINT
    max_memories: int = 50
    batch_size: int = 32
    epochs: int = 120
    monitor: Literal["choice", "error", "crossentropy"] = "choice"
    linear_start: bool = True
    linear_epochs: int = 20
    linear_patience: int = 5
    optimizer: Literal[tuple(OPTIMIZERS)] = "sgd"
    learning_rate: PositiveFloat | None = None
    lr_decay_every: int = 25
    clip_norm: NonNegativeFloat = 40.0

    #: All questions of the training, those held out too.
    questions: list[Question] = dataclasses.field(default_factory=list, init=False, repr=False)

    def check(self) -> None:
        if self.linear_start and self.monitor != "choice":
            raise UsageError(
                "A linear start needs --monitor choice, or the best weights might be some without "
                "softmax. Leave --monitor out, or add --no-linear-start. "
                f"Received: --monitor {self.monitor}"
            )

    @functools.cached_property
    def max_words(self) -> int:
        """Words of a sentence or question that are read: of the longest in the training."""
        if self.run is not None:
            return self.model.input["question"].shape[1]
        return count_words(self.questions)

    @property
    def reader(self) -> keras.layers.Layer:
        """The `MemoryHops` of the model."""
        return self.model.get_layer("reader")

    @property
    def vocabulary(self) -> list[str]:
        """The word of each id."""
        words = self.tokenizers["words"]
        return [t.decode() for t in words.ids_to_tokens([range(words.vocabulary_size)]).numpy()[0]]

    def read_data(self) -> dict[str, list[Question]]:
        self.questions = read_questions(self.stories, "train", self.task)
        training, validation = split(self.questions)
        if not validation:
            raise DataError(
                f"{' '.join(self.stories)}: expected at least ten stories, of which one is held "
                f"out as validation data; found {len({q.story for q in self.questions})}."
            )
        tasks = len({question.task for question in self.questions})
        print(
            f"{tasks} tasks; questions: training {len(training):,}, validation "
            f"{len(validation):,}; sentences of at most {self.max_words} words"
        )
        cut = sum(len(question.sentences) > self.max_memories for question in training)
        if cut:
            print(
                f"{cut:,} training stories are longer than --max-memories {self.max_memories}; "
                "of those the most recent sentences are read."
            )
        if self.linear_start and self.epochs <= self.linear_epochs:
            print(
                f"The linear start may last for all of --epochs {self.epochs}, as --linear-epochs "
                f"is {self.linear_epochs}: train for more, or with --no-linear-start."
            )
        return {"training": training, "validation": validation}

    def make_tokenizers(self, training: list[Question]) -> dict[str, SentenceTokenizer]:
        return {"words": learn_words(self.questions)}

    def load_tokenizer(self, directory: pathlib.Path) -> SentenceTokenizer:
        return SentenceTokenizer(tokenizers.load(directory).vocabulary)

    def get_sizes(self) -> tuple[int, ...]:
        return (*super().get_sizes(), self.max_words, self.max_memories, self.linear_start)

    def make_batches(self, name: str, part: list[Question]) -> RowBatches:
        is_training = name == "training"
        seed = self.seed if is_training else 0
        return RowBatches([self._encode(part)], self.batch_size, seed, is_training)

    def make_optimizer(self, model: keras.Model, batches: object) -> keras.optimizers.Optimizer:
        rate = self.get_rate() * (LINEAR_FRACTION if self.linear_start else 1.0)
        options = self.get_optimizer_options()
        if self.optimizer == "adam":
            return keras.optimizers.Adam(rate, **options)
        largest_norm = options.pop("global_clipnorm")  # it clips each matrix by itself
        return SummedCostDescent(rate, self.batch_size, largest_norm, **options)

    def get_rate(self) -> float:
        """Returns the learning rate with the softmax, before it is halved."""
        return self.learning_rate or OPTIMIZERS[self.optimizer]

    def make_loss(self) -> dict[str, keras.losses.Loss]:
        return {
            "logits": keras.losses.SparseCategoricalCrossentropy(
                from_logits=True, reduction="mean_with_sample_weight"
            )
        }

    def make_metrics(self) -> list[keras.metrics.Metric]:
        return [*make_metrics(), Choice(self.reader)]

    def make_callbacks(self, directory: pathlib.Path) -> tuple[keras.callbacks.Callback, ...]:
        options = self.get_rate(), self.lr_decay_every, self.linear_patience, self.linear_epochs
        return (LinearStart(directory, self.reader, *options),)

    def describe(self, batches: dict[str, object]) -> dict[str, object]:
        return {"vocabulary": self.vocabulary}

    def get_warning(self, result) -> str | None:
        return LINEAR_TEXT if self.linear_start and result.best >= LINEAR_CHOICE else None

    def _encode(self, questions):
        words = self.tokenizers["words"]
        return encode_questions(questions, words, self.max_memories, self.max_words)
