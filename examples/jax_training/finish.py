"""`finish`: the run of a seed that was trained on JAX, as `train` would have written it."""

import pathlib

from examples.commands import resuming, train_options
from examples.jax_training.pack import prepare
from examples.jax_training.packed_training import read_arrays
from examples.training.history import History

COLUMNS = ("epoch", "loss", "val_perplexity", "seconds")


def finish(directory: pathlib.Path, seed: int) -> None:
    """Writes model, tokenizers, settings and history of a seed into the run.

    Raises:
        ValueError: If the folder is no packed run, or the file of the seed is damaged or has
            weights of another model.
        FileNotFoundError: If the seed was not trained, or the data are gone.
    """
    record = resuming.read_record(directory)
    if record is None:
        raise ValueError(
            f"{directory} is no run of `python -m examples.jax_training pack`. Name its folder."
        )
    path = directory / f"seed-{seed}.npz"
    try:
        arrays = read_arrays(path)
        rows = arrays.pop("history")
        weights = [arrays[f"weight_{number}"] for number in range(len(arrays))]
    except (ValueError, KeyError) as error:
        raise ValueError(
            f"{path} is no trained seed of `python -m examples.jax_training fit`, or is damaged. "
            "Copy it again, or train the seed again."
        ) from error
    words = ["--run", str(directory), "--seed", str(seed)]
    given = train_options.parse(record["model"], words, record)
    given.model = record["model"]
    plan = prepare(given, directory, is_new=False)
    resuming.check_data(directory, record, plan.digests)
    shapes = [weight.shape for weight in weights]
    expected = [tuple(variable.shape) for variable in plan.model.trainable_variables]
    if shapes != expected:
        raise ValueError(
            f"{path} holds weights of another model: {len(shapes)} arrays "
            f"where this one has {len(expected)}, or other shapes. Train the seed again."
        )
    for variable, weight in zip(plan.model.trainable_variables, weights, strict=True):
        variable.assign(weight.astype(variable.dtype))
    plan.save(plan.model)
    History(directory / "history.csv").restore(
        [dict(zip(COLUMNS, (int(row[0]), *map(float, row[1:])), strict=True)) for row in rows]
    )
    limits = {name: record[name] for name in resuming.LIMITS}
    finished = {"reason": "epochs", "limits": limits}
    resuming.write_record(directory, {**record, "seed": seed, "finished": finished})
