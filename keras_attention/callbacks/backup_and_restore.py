"""Backups from which a killed `fit` goes on as if it had not been killed."""

import contextlib
import json
import math
import os
import pathlib
import time
import warnings
import weakref
from collections.abc import Mapping, Sequence

import keras
import numpy as np

from keras_attention import validation
from keras_attention.callbacks import _backup_file
from keras_attention.data import ResumableData

Logs = Mapping[str, float] | None

#: A true value of `model.stop_training` that ends the batches of one epoch, not the training.
_AFTER_EPOCH = "after the epoch"

#: What `EarlyStopping`, `ReduceLROnPlateau` and `ModelCheckpoint` count from epoch to epoch.
_COUNTS = ("best", "best_epoch", "wait", "cooldown_counter")

#: The learning rate of an optimizer before its first training here; callbacks may change it.
_FIRST_RATES: weakref.WeakKeyDictionary[keras.optimizers.Optimizer, float] = (
    weakref.WeakKeyDictionary()
)


class BackupAndRestore(keras.callbacks.Callback):
    """Resumes a killed `model.fit` bit for bit, from the batch of its last backup.

    Run the same script again: `fit` goes on in the epoch and at the batch of the backup. It ends
    with the weights, the metrics and the `History` that it would have ended with.

    A backup holds the weights, the states of all seed generators of the model (dropout), the
    optimizer with its iterations and moving averages, the metrics, and the position in `data`.
    `keras.callbacks.BackupAndRestore` keeps no seeds and no position in an epoch.

    Use it as the last of the callbacks. After a `fit` that ends, the backup is deleted. A `fit`
    that another callback stops inside an epoch, such as one for a signal or a time limit, leaves
    a backup of that batch, or the last one if its loss is NaN or infinite.

    Without `data`, backups are made at the ends of epochs and know nothing of the data. The
    resumed training is then the same only if the order of the data does not depend on the epochs
    before it: `shuffle=False`, or data that its user moves to the right epoch. Arrays that `fit`
    shuffles repeat the order of the first epochs or draw a different one.

    It cannot keep:

    - random numbers of the model without a `keras.random.SeedGenerator` of a layer;
    - states of other callbacks but those named in `callbacks`: `EarlyStopping` and
      `ReduceLROnPlateau` count anew, and `ModelCheckpoint(save_best_only=True)` overwrites the best
      model after the first epoch;
    - rows that others wrote after the last backup: the epoch writes them again;
    - bits that a GPU does not compute twice: see `tf.config.experimental.enable_op_determinism`.

    Args:
        backup_dir: Folder of the backup, a file `training.backup`. Each `fit` of a script needs
            its own.
        data: None, or the `keras_attention.data.ResumableArrays` or `ResumableDataset`
            whose `dataset` is passed to `fit`, or another `ResumableData`. Do not pass
            `steps_per_epoch` to `fit`.
        save_freq: `"epoch"` for a backup before the first batch and at the end of each epoch, or a
            positive int for one after every so many batches too, which needs `data`. None restores
            and writes no backup: for the workers of a cluster that read those of the first one.
        delete_checkpoint: Whether to delete the backup when `fit` ends. A `fit` with more epochs
            goes on from a backup that is kept, and one with the same epochs trains no more.
        save_seconds: None, or a positive number for a backup after the first batch that ends so
            many seconds after the last backup; needs `data`.
        callbacks: Callbacks of the same `fit` that compare an epoch with the best one before, such
            as `keras.callbacks.EarlyStopping`, `ReduceLROnPlateau` and `ModelCheckpoint`. Their
            best values and what they count are in the backup, so that they count on.

    Raises:
        ValueError: If an argument is none of these, or a callback restores the best weights, which
            no backup has: read them from the file of a `ModelCheckpoint`. At the beginning of
            `fit`: if the backup is damaged, or belongs to a different model, optimizer, policy,
            callbacks or different data. It is not touched then.

    Example:

    >>> import tempfile, numpy as np
    >>> from keras_attention.data import ResumableArrays
    >>> directory = tempfile.mkdtemp()
    >>> x = np.arange(14, dtype="float32").reshape(7, 2)
    >>> def train(callbacks=()):
    ...     data = ResumableArrays(x, x[:, 0], batch_size=2, seed=1)
    ...     keras.utils.set_random_seed(1)
    ...     model = keras.Sequential(
    ...         [keras.Input((2,)), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
    ...     )
    ...     model.compile("adam", "mse")
    ...     backup = BackupAndRestore(directory, data, save_freq=2)
    ...     callbacks = [*callbacks, backup]
    ...     model.fit(data.dataset, epochs=3, shuffle=False, verbose=0, callbacks=callbacks)
    ...     return model.get_weights()
    >>> expected = train()
    >>> class Interrupt(keras.callbacks.Callback):
    ...     def on_train_batch_begin(self, batch, logs=None):
    ...         if self.model.optimizer.iterations == 6:  # batch 2 of epoch 1
    ...             raise KeyboardInterrupt
    >>> try:
    ...     train([Interrupt()])
    ... except KeyboardInterrupt:
    ...     resumed = train()
    >>> all(np.array_equal(a, b) for a, b in zip(expected, resumed))
    True
    """

    def __init__(
        self,
        backup_dir: str | os.PathLike[str],
        data: ResumableData | None = None,
        save_freq: int | str | None = "epoch",
        delete_checkpoint: bool = True,
        save_seconds: float | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        if data is not None and not isinstance(data, ResumableData):
            raise ValueError(
                f"{owner} expects `data` to be a ResumableArrays, a ResumableDataset or another "
                f"`keras_attention.data.ResumableData`. Received: data={data!r}"
            )
        if save_freq not in ("epoch", None):
            save_freq = validation.check_positive_int(
                owner, "save_freq", save_freq, 'Or pass "epoch".'
            )
        if save_seconds is not None:
            validation.check_number_in_range(owner, "save_seconds", save_seconds, 0.0)
        if data is None and (save_freq not in ("epoch", None) or save_seconds is not None):
            raise ValueError(
                f'{owner} needs `data` for a backup inside an epoch; save_freq="epoch" does '
                f"without. Received: save_freq={save_freq}, save_seconds={save_seconds}, data=None"
            )
        for callback in callbacks:
            if getattr(callback, "restore_best_weights", False):
                raise ValueError(
                    f"{owner} does not keep the best weights of another callback. Pass "
                    "`restore_best_weights=False`, and keep them with a `ModelCheckpoint`. "
                    f"Received: {type(callback).__name__}(restore_best_weights=True)"
                )
        self.backup_dir: pathlib.Path = pathlib.Path(backup_dir)
        self.data = data
        self.save_freq = save_freq
        self.save_seconds = save_seconds
        self.delete_checkpoint = delete_checkpoint
        self.callbacks = list(callbacks)
        self._path = self.backup_dir / "training.backup"
        self._open_contexts = contextlib.ExitStack()
        if data is not None:
            data.seek(0, 0)  # `fit` asks for the number of batches before any callback is called

    def on_train_begin(self, logs: Logs = None) -> None:
        model = self.model
        if self.data is not None:
            self._check_num_batches(self.params["steps"])
            # The metrics must exist before they are restored. Keras builds them here on every
            # backend but TensorFlow, by this method, for which it has no public one.
            model._symbolic_build(data_batch=self.data.element_spec)
        if not model.built:
            raise ValueError(
                "BackupAndRestore expects a model that is built. Call it on a batch before `fit`, "
                f"or begin it with a `keras.Input`. Received: {model.name} without weights"
            )
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        self._setup = self._describe_setup()
        self._history: list[tuple[int, dict[str, float]]] = []
        self._restored_metrics = None
        self._restored_position = None
        self._saved_at, self._is_cut = time.monotonic(), False
        if self._path.exists():
            self._restore()

    def _restore(self):
        record, arrays = _backup_file.read_backup(self._path)
        groups = _group_variables(self.model, record["batch"])
        current = {
            "setup": self._setup,
            "variables": _backup_file.describe_variables(groups),
        }
        _check_equal(self._path, record, current)
        self._restored_metrics = arrays.pop("metrics", [])  # Keras resets them before each epoch
        for group in arrays:
            _assign(groups[group], arrays[group])
        self._history = record["history"]
        for callback, counts in zip(self.callbacks, record.get("callbacks", []), strict=True):
            for name, value in counts.items():
                setattr(callback, name, value)
        self._restored_position = record["epoch"], record["batch"]
        # Keras' own callback sets this private attribute too: there is no public way.
        self.model._initial_epoch = record["epoch"]

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._offset = 0
        if self._restored_position is not None:
            begun, self._offset = self._restored_position
            self._restored_position = None
            if begun != epoch:
                raise RuntimeError(
                    f"`fit` begins at epoch {epoch} and the backup {self._path} at {begun}: this "
                    f"version of Keras does not know `_initial_epoch`. Pass initial_epoch={begun}."
                )
            self.model._initial_epoch = None
        if self._offset:
            _assign(self.model.metrics_variables, self._restored_metrics)
            if not _on_tensorflow():  # Keras finds no more batches, but expected a whole epoch
                self._open_contexts.enter_context(warnings.catch_warnings())
                warnings.filterwarnings("ignore", "Your input ran out of data")
        self._total = self.params["steps"] if self.data is None else self.data.batches_per_epoch
        self._epoch, self._num_done = epoch, self._offset
        if self.data is not None:
            self.data.seek(epoch, self._offset)
        if not self._path.exists():  # before other callbacks write what this training has learned
            self._write(epoch, 0)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        before, self._num_done = self._num_done, self._offset + batch + 1
        if self._total is not None:  # `steps_per_execution` may count more batches than there are
            self._num_done = min(self._num_done, self._total)
        if self.data is None:
            return
        if self._num_done == self._total:
            # Keras may begin to read the next epoch before it calls `on_epoch_begin`.
            self.data.seek(self._epoch + 1, 0)
            if self._offset and _on_tensorflow() and not self.model.stop_training:
                # Another step would fail for want of a batch, but not before it has updated what
                # does not depend on it: seeds, iterations. `on_epoch_end` takes this back.
                self.model.stop_training = _AFTER_EPOCH
        elif self._is_due(before, logs):
            self._write(self._epoch, self._num_done)

    def _is_due(self, before, logs):
        """Returns whether a backup is due; `before` batches were done at the batch before."""
        if self.model.stop_training:  # the last one, unless the training is lost
            return _is_finite(logs)
        if self.save_seconds is not None and time.monotonic() - self._saved_at > self.save_seconds:
            return True
        frequency = self.save_freq
        return isinstance(frequency, int) and self._num_done // frequency > before // frequency

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._open_contexts.close()
        if self.model.stop_training is _AFTER_EPOCH:
            self.model.stop_training = False
        if self.data is not None and not self.model.stop_training:
            self._check_num_batches(self._num_done)
        values = {name: np.asarray(value).tolist() for name, value in (logs or {}).items()}
        self._history.append((epoch, values))
        is_stopped = bool(self.model.stop_training)
        self._is_cut = is_stopped and self._total is not None and self._num_done < self._total
        if not self._is_cut and (_is_finite(logs) or not is_stopped):
            self._write(epoch + 1, 0)

    def on_train_end(self, logs: Logs = None) -> None:
        self.model._initial_epoch = None
        history = keras.callbacks.History()  # of the epochs before the resumption too
        history.set_model(self.model)
        history.on_train_begin()
        for epoch, epoch_logs in self._history:
            history.on_epoch_end(epoch, epoch_logs)
        if self.delete_checkpoint and self.save_freq is not None and not self._is_cut:
            self._path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # there is something else in it
                self.backup_dir.rmdir()

    def _write(self, epoch, batch):
        if self.save_freq is None:
            if batch:  # what workers add up where it is read, all of them must read
                for metric in _group_variables(self.model, batch)["metrics"]:
                    keras.ops.convert_to_numpy(metric)
            return
        record = {"epoch": epoch, "batch": batch, "history": self._history, "setup": self._setup}
        record["callbacks"] = [_read_counts(callback) for callback in self.callbacks]
        _backup_file.write_backup(self._path, record, _group_variables(self.model, batch))
        self._saved_at = time.monotonic()

    def _check_num_batches(self, received):
        expected = self.data.batches_per_epoch
        if received != expected:
            raise ValueError(
                "BackupAndRestore expects `fit` to read all batches of `data` in every epoch. "
                "Pass the same data to both, its true number of batches, no `steps_per_epoch`, and "
                f"a new callback to each `fit`. Received: {received} batches in an epoch of `fit`, "
                f"{expected} in `data`"
            )

    def _describe_setup(self):
        """Returns what a resumption must have in common with the training it resumes."""
        model, data = self.model, self.data
        optimizer = _describe_optimizer(model.optimizer)
        setup = {
            "backend": keras.backend.backend(),
            "dtype_policy": [
                f"{type(layer).__name__} {layer.dtype_policy.name}"
                for layer in (model, *model.layers)
            ],
            "optimizer": {"class_name": type(model.optimizer).__name__, **optimizer},
            "data": None,
            "callbacks": [type(callback).__name__ for callback in self.callbacks],
        }
        if data is not None:
            setup["data"] = {
                **data.describe(),
                "batches_per_epoch": data.batches_per_epoch,
                "element_spec": [
                    f"{spec.dtype} {tuple(spec.shape)}"
                    for spec in keras.tree.flatten(data.element_spec)
                ],
            }
        return json.loads(json.dumps(setup, default=str))


def _describe_optimizer(optimizer) -> dict[str, object]:
    """Returns the config of an optimizer with the learning rate that it began with."""
    config = optimizer.get_config()
    if isinstance(config.get("learning_rate"), float):  # as it is now
        config["learning_rate"] = _FIRST_RATES.setdefault(optimizer, config["learning_rate"])
    if "inner_optimizer" in config:
        inner = optimizer.inner_optimizer
        config["inner_optimizer"] = {
            **config["inner_optimizer"],
            "config": _describe_optimizer(inner),
        }
    return config


def _read_counts(callback) -> dict[str, float | None]:
    """Returns what a callback counts, as JSON can hold it."""
    counts = {name: getattr(callback, name) for name in _COUNTS if hasattr(callback, name)}
    return {k: None if v is None else np.asarray(v).item() for k, v in counts.items()}


def _is_finite(logs) -> bool:
    return math.isfinite((logs or {}).get("loss", 0.0))


def _on_tensorflow() -> bool:
    return keras.backend.backend() == "tensorflow"


def _group_variables(model, batch) -> dict[str, list[keras.Variable]]:
    groups = {
        "model": list({id(v): v for v in model.variables}.values()),
        "optimizer": model.optimizer.variables,
    }
    return {**groups, "metrics": model.metrics_variables} if batch else groups


def _assign(variables, arrays) -> None:
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)


def _check_equal(path, saved, current) -> None:
    """Raises unless `saved` has the same setup and variables as `current`."""
    was, now = (
        {**_flatten(tree["setup"]), **_flatten(tree["variables"])} for tree in (saved, current)
    )
    for name in {**now, **was}:
        if was.get(name) != now.get(name) and name.rpartition(".")[2] != "name":
            raise ValueError(
                f"The backup {path} belongs to a different training. Run the script that it was "
                "begun with, or delete the backup to train from the beginning. "
                f"Received: {name}={now.get(name)!r}, in the backup {was.get(name)!r}"
            )


def _flatten(tree, path=""):
    """Returns the leaves of nested dicts and lists by their paths, such as `data.seed`."""
    if not isinstance(tree, (dict, list)):
        return {path: tree}
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    leaves = {}
    for key, value in items:
        leaves |= _flatten(value, f"{path}.{key}" if path else str(key))
    return leaves
