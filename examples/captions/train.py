"""What the training of a captioner needs: scenes, words, the model."""

import keras

from examples.captions import options, words
from examples.captions.located import Located
from examples.captions.scenes import Painter
from examples.captions.stream import SceneStream
from examples.commands import resuming
from examples.data.idx import read_mnist
from examples.models.encoders import picture
from examples.training.job import Job
from examples.training.schedules import halving_after_epoch
from examples.training.settings import TrainingSettings, optimizer_options
from examples.training.workers import Workers
from keras_attention import TokenCrossentropy
from keras_attention.export import runs
from keras_attention.metrics import Perplexity, TokenAccuracy

#: What a run may hold before it has a record.
WRITTEN_FIRST = {words.FOLDER}
#: Held-out scenes: seeds that no training has, at most 2**32 - 1.
DEV_SEED, TEST_SEED = 2**32 + 1, 2**32 + 2


def check(arguments) -> None:
    """Raises if options do not go together."""
    options.check(arguments)


def prepare(arguments, directory, system, is_new: bool, workers: Workers) -> Job:
    """Returns the training that the arguments ask for; a new run gets its words."""
    guided, digits = system.module.GUIDED, options.digits_of(arguments.digits)
    painters = {
        part: Painter(*read_mnist(arguments.mnist, part), arguments.grid, digits, guided)
        for part in ("train", "dev")
    }
    if guided and digits[0] > 1:
        print(
            f"No scene holds a single digit (--digits {arguments.digits}): it may learn to look "
            f"anywhere but at the digit that is named. --digits 1:{digits[1]} has such scenes."
        )
    if is_new and workers.is_chief:
        words.make().save(directory / words.FOLDER)
    workers.wait()
    tokenizer = words.load(directory)
    encoder = words.Encoder(tokenizer, painters["train"].longest)
    size, names = arguments.batch_size, system.module.INPUTS
    count = arguments.epoch_size // size
    batches = SceneStream(painters["train"], encoder, size, count, arguments.seed, names)
    count = arguments.dev_size // size
    dev = SceneStream(painters["dev"], encoder, size, count, DEV_SEED, names)
    print(f"training: {batches}")
    print(f"dev: {dev}")
    flags = {name: getattr(arguments, name) for name in system.module.OPTIONS}
    model = system.build(
        tokenizer.vocabulary_size,
        painters["train"].side,
        seed=arguments.seed,
        dtype=None if arguments.dtype == "float32" else arguments.dtype,
        **flags,
    )
    if is_new and arguments.pictures_from:
        picture.copy_weights(runs.read_run(arguments.pictures_from).model, model)
        print(f"it begins with the picture network of {arguments.pictures_from}")
    side = painters["train"].side
    locations = locations_of(model)
    print(
        f"{arguments.system}: {model.count_params():,} parameters, looks at {locations[0]} x "
        f"{locations[1]} locations"
    )
    description = {
        "system": arguments.system,
        "grid": arguments.grid,
        "digits": list(digits),
        "guided": guided,
        "longest": encoder.longest,
        "side": side,
        "locations": list(locations),
        "flags": flags,
        "seed": arguments.seed,
        "training": resuming.plain(arguments),
    }
    rate = halving_after_epoch(
        arguments.learning_rate,
        arguments.lr_decay_start,
        batches.batches_per_epoch(),
        arguments.lr_decay_every,
    )
    return Job(
        model,
        batches,
        dev,
        TrainingSettings.from_arguments(arguments),
        keras.optimizers.Adam(rate, **optimizer_options(arguments)),
        make_loss(),
        save=lambda best: runs.write_run(directory, best, description, replace=True),
        digests={"training": batches.digest(), "dev": dev.digest()},
        metrics=make_metrics(locations, side),
        trainer=CaptionTrainer,
    )


class CaptionTrainer(keras.Model):
    """A model whose metrics are named without their outputs, which Keras puts before."""

    def get_metrics_result(self):
        metrics = super().get_metrics_result()
        outputs = tuple(f"{name}_" for name in self.output)
        return {
            name.partition("_")[2] if name.startswith(outputs) else name: value
            for name, value in metrics.items()
        }


def make_loss() -> dict[str, keras.losses.Loss | None]:
    """Returns the cross-entropy of the words; the weights have none."""
    return {"logits": TokenCrossentropy(), "weights": None}


def make_metrics(locations: tuple[int, int], side: int) -> dict[str, list[keras.metrics.Metric]]:
    """Returns what is measured of the words, and of the looks for them; see `Located`."""
    return {
        "logits": [Perplexity(), TokenAccuracy(name="accuracy")],
        "weights": [Located(locations, side)],
    }


def locations_of(model: keras.Model) -> tuple[int, int]:
    """Returns the rows and columns of locations that a captioner looks at; pictures are square."""
    count = model.get_layer("encoder").get_layer("positions").max_length
    side = round(count**0.5)
    return side, side
