"""What a checkpoint of a run holds, and how a run comes back from it.

Beside the variables (model with its seed states, optimizer, step) it is the position in
the data, the sums of the epoch begun, the best weights so far, what early stopping and
the plateau have counted, and the rows of history.csv.
"""

import dataclasses

import numpy as np

from examples.training.checkpoints import CheckpointError, Checkpoints


@dataclasses.dataclass
class Position:
    """Where a run stands; every field is saved.

    Args:
        epoch: Epochs completed.
        batch: Batches done in the epoch begun.
        steps: Updates made in all.
        loss_sum: Loss summed over what the objective counts, in the epoch begun.
        count: Its number.
        waited: Evaluations since the last improvement.
        skipped: float16 updates left out in a row.
        seconds: Wall time so far, all resumptions together.
    """

    epoch: int = 0
    batch: int = 0
    steps: int = 0
    loss_sum: float = 0.0
    count: float = 0.0
    waited: int = 0
    skipped: int = 0
    seconds: float = 0.0


@dataclasses.dataclass
class Best:
    """The best weights so far: monitored value, epoch (from 1), arrays, name on disk."""

    value: float | None = None
    epoch: int | None = None
    arrays: list[np.ndarray] | None = None
    name: str | None = None


class Saver:
    """Writes and restores a whole run.

    Args:
        checkpoints: A `Checkpoints`.
        model: The model in training.
        optimizer: Its optimizer, built.
        step: The `TrainingStep`, whose average is saved too.
        batches: The training batches; a checkpoint belongs to their order.
        history: The `History`.
        plateau: A `ReduceOnPlateau`, or None.
    """

    def __init__(self, checkpoints: Checkpoints, model, optimizer, step, batches, history, plateau):
        self.checkpoints, self.model, self.batches = checkpoints, model, batches
        self.average, self.history, self.plateau = step.average, history, plateau
        self.groups = {
            "model": unique(model.variables),
            "optimizer": unique(optimizer.variables),
            "step": step.variables,
        }
        self._names = {}  # id of a snapshot's arrays -> name on disk

    def seed_states(self) -> list:
        """Returns the model's seed states: what is among its variables but no weight."""
        weights = {id(variable) for variable in self.model.weights}
        return [v for v in self.groups["model"] if id(v) not in weights]

    def write(self, position: Position, best: Best) -> str:
        """Writes a checkpoint and returns its name.

        Raises:
            OSError: If it cannot be written; earlier ones are untouched.
        """
        if best.arrays is not None and best.name is None:
            best.name = self.checkpoints.write_weights(best.arrays)
        snapshots = self.average.snapshots
        self._names = {
            id(arrays): self._names.get(id(arrays)) or self.checkpoints.write_weights(arrays)
            for arrays in snapshots
        }
        names = [self._names[id(arrays)] for arrays in snapshots]
        record = {
            "position": dataclasses.asdict(position),
            "shuffle_seed": self.batches.seed,
            "batches_in_epoch": self.batches.batches_per_epoch(position.epoch),
            "best": {"value": best.value, "epoch": best.epoch, "name": best.name},
            "snapshots": names,
            "plateau_waited": self.plateau.waited if self.plateau else 0,
            "history": self.history.rows,
        }
        return self.checkpoints.write(self.groups, record, [n for n in (best.name, *names) if n])

    def restore(self) -> tuple[Position, Best] | None:
        """Brings the newest sound checkpoint back; None when there is none.

        Raises:
            CheckpointError: If it belongs to another model, seed or data.
        """
        record = self.checkpoints.restore(self.groups, check=self._check)
        if record is None:
            return None
        best = Best(**record["best"])
        if best.name is not None:
            best.arrays = self.checkpoints.read_weights(best.name)
        self.average.snapshots = [self.checkpoints.read_weights(n) for n in record["snapshots"]]
        self._names = {
            id(arrays): name
            for arrays, name in zip(self.average.snapshots, record["snapshots"], strict=True)
        }
        if self.plateau:
            self.plateau.waited = record["plateau_waited"]
        self.history.restore(record["history"])
        return Position(**record["position"]), best

    def _check(self, record):
        found = {
            "shuffle_seed": self.batches.seed,
            "batches_in_epoch": self.batches.batches_per_epoch(record["position"]["epoch"]),
        }
        for name, value in found.items():
            if record[name] != value:
                raise CheckpointError(
                    "The checkpoint belongs to other data, batches or another seed. Resume with "
                    "the flags the run was started with, or choose an empty directory. "
                    f"Received: {name}={value}, the checkpoint has {record[name]}"
                )
        wanted = len(self.average.followed)
        for name in record["snapshots"]:
            if (count := len(self.checkpoints.read_weights(name))) != wanted:
                raise CheckpointError(
                    f"{name} is an epoch's weights without what is averaged with them now, such "
                    "as the statistics of batch normalization. Start the run again in an empty "
                    f"directory. Received: {count} arrays, expected {wanted}"
                )


def unique(variables: list) -> list:
    """Returns the variables in order, each once."""
    return list({id(variable): variable for variable in variables}.values())
