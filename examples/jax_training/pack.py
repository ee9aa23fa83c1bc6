"""`pack`: a run with tokenizers and `training.npz`, from the options of `train`."""

import argparse
import pathlib
import shutil

import keras
import numpy as np

from examples import registry
from examples.commands import resuming, train_options
from examples.commands.arguments import UsageError
from examples.commands.train import make_recipe
from examples.data.batches import Batches
from examples.jax_training.packed_pairs import SIDES
from examples.jax_training.packed_training import FILE, PackedTraining
from examples.recipes.base import Recipe
from examples.training.training_plan import TrainingPlan
from examples.training.workers import Workers

#: Options of `train` that `fit` on JAX does not have.
REFUSED = (
    "max_minutes", "patience", "stop_at_metric", "shards", "guided_alignment", "strategy",
    "tensorboard", "resume",
)  # fmt: skip
#: Options of models whose initial weights are not those of the layers' initializers.
DRAWN = ("init_stddev", "init_range")


def parse(model: str, words: list[str]) -> argparse.Namespace:
    """Returns the options of `train MODEL`.

    Raises:
        UsageError: If one of them does not go with a training on JAX.
    """
    told = train_options.parse(model, words, None)
    given = argparse.Namespace(**{**vars(told), "model": model})
    used = [name for name in REFUSED + DRAWN if getattr(given, name, None)]
    if getattr(given, "monitor", "perplexity") != "perplexity":
        used.append("monitor")
    if getattr(given, "dtype", "float32") == "mixed_float16":
        used.append("dtype")
    if given.checkpoint_seconds != Recipe.checkpoint_seconds:
        used.append("checkpoint_seconds")
    if not given.xla:
        used.append("no_xla")
    if used:
        flag, value = f"--{used[0].replace('_', '-')}", getattr(given, used[0], True)
        received = flag if value is True else f"{flag} {value}"
        raise UsageError(f"A training on JAX has no {flag}. Leave it out. Received: {received}")
    if getattr(given, "schedule", None) == "plateau":
        raise UsageError(
            "A training on JAX has rates that depend on the number of steps alone. Choose another "
            "schedule. Received: --schedule plateau"
        )
    return given


def prepare(given: argparse.Namespace, directory: pathlib.Path, is_new: bool) -> TrainingPlan:
    """Returns the training that `train` would begin with these options.

    Raises:
        UsageError: If the model is no translator whose pairs are in memory.
    """
    recipe = make_recipe(given.model, given)
    model = registry.find(given.model)
    keras.utils.set_random_seed(given.seed)
    plan = recipe.prepare(
        model.name, model.build, resuming.plain(given), directory, is_new, Workers()
    )
    if type(plan.batches) is not Batches or plan.fit_model is not None:
        raise UsageError(
            f"`pack` takes translators of pairs of texts. Received: {given.model}, whose batches "
            f"are {type(plan.batches).__name__}"
        )
    return plan


def pack(given: argparse.Namespace, directory: pathlib.Path) -> PackedTraining:
    """Writes tokenizers, `arguments.json` and `training.npz` into a new folder.

    Raises:
        UsageError: If the model shares a table between encoder and decoder.
        ValueError: If the folder holds something.
    """
    if directory.exists() and any(directory.iterdir()):
        raise ValueError(f"{directory} is not empty. Name another directory with --run.")
    directory.mkdir(parents=True, exist_ok=True)
    try:
        plan = prepare(given, directory, is_new=True)
        packed = _describe(plan)
        packed.write(directory / FILE)
    except BaseException:
        shutil.rmtree(directory)
        raise
    resuming.write_record(directory, {**resuming.plain(given), "data": plan.digests})
    return packed


def _describe(plan):
    text = plan.model.to_json()
    if keras.models.model_from_json(text).count_params() != plan.model.count_params():
        raise UsageError(
            "`pack` takes models that Keras' JSON holds, which does not know of tables that two "
            "parts share. Leave --share-embeddings out."
        )
    settings = {
        "model": text,
        "optimizer": keras.saving.serialize_keras_object(plan.optimizer),
        "label_smoothing": plan.loss.label_smoothing,
        "epochs": plan.settings.epochs,
    }
    arrays = {}
    for part, batches in (("training", plan.batches), ("validation", plan.validation_batches)):
        settings[part] = {**batches.plan.settings, "decoder_start_id": batches.decoder_start_id}
        for side in SIDES:
            ids = getattr(batches.encoded, side)
            arrays[f"{part}_{side}"] = ids.values.astype(np.min_scalar_type(int(ids.values.max())))
            arrays[f"{part}_{side}_lengths"] = ids.lengths
    return PackedTraining(settings, arrays)
