"""What a recipe is: the options of a training, its data, and what the commands do with a run."""

import dataclasses
import pathlib
import typing
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import keras

from examples.commands.options import (
    NonNegativeFloat,
    OpenFraction,
    PositiveFloat,
    Seed,
    options_of,
    restore,
)
from examples.training.settings import Measure, TrainingSettings
from examples.training.training_plan import TrainingPlan
from examples.training.workers import KINDS, Workers
from keras_attention.export import TextInput, export_model, runs, tokenizers
from keras_attention.export.runs import Run
from keras_attention.export.tokenizers import Tokenizer

Dtype = Literal["float32", "mixed_bfloat16", "mixed_float16"]
Strategy = Literal[KINDS]


@dataclasses.dataclass(frozen=True)
class Served:
    """What `export` writes.

    Attributes:
        model: The Keras model that is served.
        descriptions: Name of an input or output to what a client should know of it.
        tokenizers: Name of an input that clients send as texts to its `TextInput`.
    """

    model: keras.Model
    descriptions: Mapping[str, str]
    tokenizers: Mapping[str, TextInput] = dataclasses.field(default_factory=dict)

    def write(
        self, base: str, version: int | None, name: str | None, settings: dict
    ) -> pathlib.Path:
        """Writes a version below `base`, the next one if None; returns its folder."""
        return export_model(
            self.model,
            base,
            tokenizers=self.tokenizers,
            version=version,
            name=name,
            descriptions=self.descriptions,
            run=settings,
        )


@dataclasses.dataclass(kw_only=True)
class Recipe:
    """Data, loss, metrics, figures and export of the models of one kind.

    The fields are the options of `python -m examples train MODEL`, those of a subclass included;
    `evaluate`, `plot` and `export` are the commands, and their arguments are options too. The
    docstrings are what `--help` prints.

    Attributes:
        seed: Seed of everything random.
        batch_size: Rows in a batch.
        epochs: Passes over the data at most.
        learning_rate: Learning rate at the beginning.
        clip_norm: Largest norm of the gradient; 0 does not clip.
        max_minutes: Wall time at most, resumptions included, interrupted epochs not; no limit by
            default.
        patience: Stop after N epochs without a new best; never by default.
        stop_at_metric: Stop once the metric that decides which weights are best is this good;
            never by default.
        ema_decay: Evaluate and keep a moving average of the weights with this decay, such as
            0.999; none by default.
        dtype: Dtype policy.
        strategy: Train on all devices of this machine, or in the processes that TF_CONFIG names;
            docs/scaling.md tells more; on one device by default.
        xla: Compile with XLA; without it steps are slower and begin sooner.
        checkpoint_seconds: Time between backups.
        tensorboard: Write RUN/tensorboard.
    """

    #: Names of the tokenizers that a run keeps, each in a folder of its own.
    tokenizer_names: ClassVar[tuple[str, ...]] = ()
    #: Fields of a subclass that `--help` lists with the training, not with the data.
    training_fields: ClassVar[tuple[str, ...]] = ("monitor",)
    #: Appended for a look at whether everything runs: nothing is learned in so little time.
    quick_training: ClassVar[str] = "--epochs 1 --no-xla"
    quick_evaluation: ClassVar[str] = ""
    #: Whether several runs can answer as one, `--ensemble` of the commands on runs.
    has_ensembles: ClassVar[bool] = False
    #: How `evaluate` prints a number that is no int.
    float_format: ClassVar[str] = ".3f"

    seed: Seed = 1
    batch_size: int = 64
    epochs: int = 10
    learning_rate: PositiveFloat = 1e-3
    clip_norm: NonNegativeFloat = 5.0
    max_minutes: PositiveFloat | None = None
    patience: int | None = None
    stop_at_metric: float | None = None
    ema_decay: OpenFraction | None = None
    dtype: Dtype = "float32"
    strategy: Strategy | None = None
    xla: bool = True
    checkpoint_seconds: PositiveFloat = 60.0
    tensorboard: bool = False

    #: The options of the model that is trained.
    model_options: dict[str, object] = dataclasses.field(
        default_factory=dict, init=False, repr=False
    )
    #: The run that `load` opened, None while one is trained.
    run: Run | None = dataclasses.field(default=None, init=False, repr=False)
    #: The model that is trained, or that of the run.
    model: keras.Model | None = dataclasses.field(default=None, init=False, repr=False)
    tokenizers: dict[str, Tokenizer] = dataclasses.field(
        default_factory=dict, init=False, repr=False
    )

    # Training: what a subclass says.

    def check(self) -> None:
        """Raises `UsageError` if options do not go together."""

    def read_data(self) -> dict[str, object]:
        """Returns the `"training"` and the `"validation"` data as they are read."""
        raise NotImplementedError

    def make_tokenizers(self, training: object) -> dict[str, Tokenizer]:
        """Returns the tokenizers of `tokenizer_names`, learned from the training data."""
        return {}

    def load_tokenizer(self, directory: pathlib.Path) -> Tokenizer:
        """Returns one of the tokenizers that were saved."""
        return tokenizers.load(directory)

    def make_batches(self, name: str, part: object) -> object:
        """Returns the batches of a part of the data; see `examples.training.batches`."""
        raise NotImplementedError

    def prepare_batches(self, model: keras.Model, batches: dict[str, object]) -> None:
        """Changes the batches where they depend on the model, and checks that it can read them."""

    def get_sizes(self) -> tuple[int, ...]:
        """Returns the first arguments of the model's `build`, such as sizes of vocabularies."""
        return tuple(self.tokenizers[name].vocabulary_size for name in self.tokenizer_names)

    def make_optimizer(self, model: keras.Model, batches: object) -> keras.optimizers.Optimizer:
        """Returns the optimizer."""
        return keras.optimizers.Adam(self.learning_rate, **self.get_optimizer_options())

    def make_loss(self) -> object:
        """Returns the loss, as `compile` takes it."""
        raise NotImplementedError

    def make_metrics(self) -> object:
        """Returns the weighted metrics, as `compile` takes them."""
        return None

    def make_fit_model(self, model: keras.Model) -> keras.Model | None:
        """Returns what is compiled and fit in place of the model, of the same layers, or None."""
        return None

    def make_measures(self, model: keras.Model, validation: object) -> tuple[Measure, ...]:
        """Returns what is measured after each epoch that is no metric."""
        return ()

    def make_callbacks(self, directory: pathlib.Path) -> tuple[keras.callbacks.Callback, ...]:
        """Returns further callbacks."""
        return ()

    def describe(self, batches: dict[str, object]) -> dict[str, object]:
        """Returns what run.json holds beside the options."""
        return {}

    #: What is compiled and fit: a subclass of `keras.Model` for another loss.
    trainer: ClassVar[type[keras.Model]] = keras.Model

    def get_warning(self, result) -> str | None:
        """Returns what to tell of a `TrainingResult` that is not as hoped for, or None."""
        return None

    # Training: the same for all.

    def prepare(
        self,
        model_name: str,
        build: typing.Callable[..., keras.Model],
        record: dict[str, object],
        directory: pathlib.Path,
        is_new: bool,
        workers: Workers,
    ) -> TrainingPlan:
        """Returns the training of a model; a new run gets its tokenizers.

        Args:
            model_name: What the command line calls the model.
            build: Makes the model.
            record: All options, for run.json.
            directory: The run's folder.
            is_new: Whether the run begins now.
            workers: The processes that train together.
        """
        data = self.read_data()
        if is_new and workers.is_chief:
            for name, tokenizer in self.make_tokenizers(data["training"]).items():
                tokenizer.save(directory / f"{name}.tokenizer")
        workers.wait()
        self._load_tokenizers(directory)
        batches = {name: self.make_batches(name, part) for name, part in data.items()}
        dtype = None if self.dtype == "float32" else self.dtype
        sizes = self.get_sizes()
        self.model = model = build(*sizes, seed=self.seed, dtype=dtype, **self.model_options)
        known = [f"{each.vocabulary_size:,}" for each in self.tokenizers.values()]
        told = f", vocabularies of {' and '.join(known)}" if known else ""
        print(f"{model_name}: {model.count_params():,} parameters{told}")
        self.prepare_batches(model, batches)
        description = {
            "model": model_name,
            "model_options": self.model_options,
            "seed": self.seed,
            "training": record,
            **self.describe(batches),
        }
        return TrainingPlan(
            model,
            batches["training"],
            batches["validation"],
            self.get_settings(),
            self.make_optimizer(model, batches["training"]),
            self.make_loss(),
            save=lambda best: self.save(directory, best, description),
            digests={name: part.digest() for name, part in batches.items()},
            metrics=self.make_metrics(),
            measures=self.make_measures(model, data["validation"]),
            callbacks=self.make_callbacks(directory),
            warning=self.get_warning,
            fit_model=self.make_fit_model(model),
            trainer=self.trainer,
        )

    def save(self, directory: pathlib.Path, model: keras.Model, settings: dict) -> None:
        """Writes the run with a model."""
        runs.write_run(directory, model, settings, replace=True)

    def get_settings(self) -> TrainingSettings:
        """Returns the settings of `examples.training`."""
        return TrainingSettings(
            self.epochs,
            self.monitor,
            self.max_minutes,
            self.patience,
            self.stop_at_metric,
            self.xla,
            self.checkpoint_seconds,
            self.tensorboard,
            self.ema_decay is not None,
        )

    def get_optimizer_options(self) -> dict[str, object]:
        """Returns the arguments of clipping and averaging of every optimizer of Keras."""
        options: dict[str, object] = {"global_clipnorm": self.clip_norm or None}
        if self.ema_decay is not None:
            options |= {"use_ema": True, "ema_momentum": self.ema_decay}
        return options

    # A run: what the commands do.

    @classmethod
    def from_run(cls, run: Run) -> "Recipe":
        """Returns the recipe of a run, with the options it was trained with.

        Raises:
            ValueError: If a file is damaged, or holds an option that the recipe cannot have.
        """
        record = run.settings.get("training") or {}
        recipe = cls(**restore(options_of(cls), record, f"{run.directory}/run.json"))
        recipe.load(run)
        return recipe

    def load(self, run: Run) -> None:
        """Opens a run: its model and tokenizers, so that a damaged file is told at once."""
        self.run, self.model = run, run.model
        self._load_tokenizers(run.directory)

    def evaluate(self) -> dict[str, object]:
        """Measures a run on data that it has not seen.

        Returns:
            What is printed and written, by name.
        """
        raise NotImplementedError

    def plot(self) -> Iterator[tuple[object, ...]]:
        """Draws what a run attends to.

        Yields:
            The name of a file, the figure or the text of an HTML page, and, where there is more
            to say of it, that.
        """
        raise NotImplementedError

    def export(self) -> Served:
        """Writes a SavedModel version that a model server loads.

        Returns:
            What is written.
        """
        raise NotImplementedError

    def _load_tokenizers(self, directory):
        self.tokenizers = {
            name: self.load_tokenizer(directory / f"{name}.tokenizer")
            for name in self.tokenizer_names
        }
