"""The way of one run through its epochs, from checkpoint to checkpoint."""

import dataclasses
import math
import time

import tensorflow as tf

from examples.training import distribution
from examples.training.checkpoints import Checkpoints
from examples.training.evaluation import Evaluation
from examples.training.history import History
from examples.training.progress import clock
from examples.training.reporting import Pace, Reporter
from examples.training.saving import Best, Position, Saver
from examples.training.settings import TrainingDiverged, TrainingResult
from examples.training.steps import TrainingStep
from examples.training.workers import Workers

STEPS_BETWEEN_WORDS = 10  # how often several workers ask each other whether to stop
SKIPS_IN_A_ROW = 50  # float16 updates left out before the run is called diverged


class Run:
    """One run: its pieces and the way through them. `position` is all that changes."""

    def __init__(
        self, model, batches, dev_batches, settings, directory, *, objective, monitor, metrics, save
    ):
        self.model, self.settings, self.directory = model, settings, directory
        self.batches, self.dev_batches = batches, dev_batches
        self.objective, self.monitor, self.metrics = objective, monitor, metrics
        self.save_model = save
        self.position, self.best = Position(), Best()
        self.pending, self.gradient_norm = [], 0.0
        self.pace, self.evaluating = Pace(), 0.0

    def prepare(self, optimizer, plateau, average, strategy, progress):
        """Makes what trains, measures and saves."""
        settings = self.settings
        self.optimizer, self.plateau = optimizer, plateau
        self.average, self.strategy = average, strategy
        self.workers = Workers(strategy)
        writes = self.workers.is_chief
        self.directory.mkdir(parents=True, exist_ok=True)
        tensorboard = self.directory / "tensorboard" if settings.tensorboard and writes else None
        self.reporter = Reporter(
            progress, self.objective, (m.name for m in self.metrics), tensorboard
        )
        with self.workers.scope():
            self.step = TrainingStep(
                self.model,
                optimizer,
                self.objective,
                settings.clip_norm,
                settings.clip_value,
                settings.jit_compile,
                self.average,
                strategy,
            )
        self.evaluation = Evaluation(self.model, settings.jit_compile, self.objective)
        self.history = History(self.directory / "history.csv" if writes else None)
        checkpoints = Checkpoints(
            self.directory / "checkpoints", settings.keep_checkpoints, self.reporter.message
        )
        self.saver = Saver(
            checkpoints, self.model, optimizer, self.step, self.batches, self.history, self.plateau
        )

    def restore(self, resume):
        """Goes to where the newest checkpoint is, if wanted and there is one."""
        if not resume and self.saver.checkpoints.names():
            raise ValueError(
                "train expects a directory without checkpoints of an earlier run. Resume that run "
                f"(--resume) or choose another directory. Received: directory={self.directory}"
            )
        found = self.saver.restore() if resume else None
        if found is not None:
            self.position, self.best = found
            self.reporter.message(
                f"Resumed at epoch {self.position.epoch + 1}, batch {self.position.batch}, step "
                f"{self.position.steps}."
            )
        elif resume:
            self.reporter.message(f"No checkpoint in {self.directory}: starting anew.")
        self.workers.check_same("a position in the run", dataclasses.asdict(self.position))
        if self.strategy is not None:
            distribution.spread_seeds(self.strategy, self.saver.seed_states())

    def go(self, interrupts):
        """Returns the `TrainingResult`."""
        self.started = self.saved_at = time.monotonic()
        self.seconds_before, self.saved_step = self.position.seconds, self.position.steps
        reason = self._finished()
        while reason is None:
            stopped = self._train_epoch(interrupts)
            if stopped == "interrupted":
                return self._interrupted()
            if stopped == "minutes":
                self._checkpoint(required=True)  # a longer run goes on from here
            row = self.workers.told(self._evaluate(interrupts) if self.workers.is_chief else None)
            if row is None:
                return self._interrupted()
            self._end_epoch(row)
            if stopped == "minutes":
                return self._finish(stopped)
            self.position.epoch += 1
            self.position.batch, self.position.loss_sum, self.position.count = 0, 0.0, 0.0
            reason = self._finished()
            if reason or self._checkpoint_due():
                self._checkpoint(required=reason is not None)
        return self._finish(reason)

    def _finished(self):
        """Returns why the run is over, or None; asked between two epochs."""
        settings, position = self.settings, self.position
        if position.epoch >= settings.epochs:
            return "epochs"
        if settings.patience is not None and position.waited >= settings.patience:
            return "patience"
        if settings.goal is not None and self.monitor.reached(settings.goal, self.best.value):
            return "goal"
        if position.batch == 0 and self.workers.any(self._time_is_up())[0]:
            return "minutes"
        return None

    def _told_to_stop(self, interrupts, total):
        """Returns why the epoch stops here, or None; the same in every worker."""
        if self.workers.count > 1:
            if self.position.steps % STEPS_BETWEEN_WORDS:
                return None
            self._drain()  # a loss that is no number ends all of them here
        late = self.position.batch < total and self._time_is_up()
        interrupted, late = self.workers.any(interrupts.requested, late)
        return "interrupted" if interrupted else "minutes" if late else None

    # One epoch.

    def _train_epoch(self, interrupts):
        """Returns None at the epoch's end, or why it stopped before."""
        position = self.position
        total = self.batches.batches_per_epoch(position.epoch)
        title = f"epoch {position.epoch + 1}/{self.settings.epochs}"
        self.reporter.progress.start(title, total, position.batch)
        self.pace = Pace(position.count)
        if position.batch and self.workers.any(self._time_is_up())[0]:
            return "minutes"
        dataset = self.batches.epoch(position.epoch, start=position.batch)
        if self.strategy is not None:
            dataset = distribution.distribute(self.strategy, dataset)
        for inputs, labels in dataset:
            self._train_batch(inputs, labels)
            looks = self.pace.should_look() or len(self.pending) >= self.settings.log_steps
            if self.workers.is_chief and looks:
                self._drain()
                self.pace.catch_up()
                self._show(total)
            if (stop := self._told_to_stop(interrupts, total)) is not None:
                return stop
            if self._checkpoint_due():
                self._checkpoint()
        self._drain()
        self.pace.catch_up()
        if position.batch != total:
            raise ValueError(
                "train expects `batches.epoch` to yield as many batches as `batches_per_epoch` "
                f"says, {total} in epoch {position.epoch}. Received: {position.batch} batches"
            )
        return None

    def _train_batch(self, inputs, labels):
        is_new = self.step.is_new(inputs, labels)
        if is_new:
            self._drain()
            self.pace.catch_up()
        count = self.position.count
        self.pending.append(self.step(inputs, labels))
        self.position.batch += 1
        self.position.steps += 1
        if is_new:
            self._drain()
        self.pace.add(is_new, self.position.count - count)

    def _drain(self):
        """Reads the results of the last steps and checks that they are numbers."""
        position = self.position
        first = position.steps - len(self.pending) + 1
        pending, self.pending = self.pending, []
        for step, results in enumerate(pending, first):
            values = {name: float(value) for name, value in results.items()}
            finite = math.isfinite(values["loss_sum"]) and math.isfinite(values["gradient_norm"])
            position.skipped = 0 if values["applied"] else position.skipped + 1
            if position.skipped >= SKIPS_IN_A_ROW or (values["applied"] and not finite):
                raise TrainingDiverged(self._diverged(step, values))
            if values["applied"]:
                position.loss_sum += values["loss_sum"]
                position.count += values["count"]
                self.gradient_norm = values["gradient_norm"]

    def _diverged(self, step, values):
        names = self.saver.checkpoints.names()
        kept = f"The last checkpoint, {names[-1]}, is" if names else "No checkpoint is"
        return (
            f"The training diverged at step {step} (epoch {self.position.epoch + 1}): loss sum "
            f"{values['loss_sum']}, gradient norm {values['gradient_norm']}. {kept} from before "
            "that. Lower the learning rate, warm up longer or clip harder (clip_norm)."
        )

    def _show(self, total):
        position = self.position
        loss = position.loss_sum / max(position.count, 1.0)
        epochs = self.settings.epochs - position.epoch - 1
        left = self.pace.seconds_for(total - position.batch + epochs * total, self._new_shapes())
        if left is not None:
            left += epochs * self.evaluating
        if self.settings.minutes is not None:
            budget = max(0.0, self.settings.minutes * 60 - self._seconds())
            left = budget if left is None else min(left, budget)
        self.reporter.batch(
            position,
            left,
            train_loss=loss,
            gradient_norm=self.gradient_norm,
            per_second=self.pace.per_second(position.count),
            learning_rate=self._rate(),
        )

    # After an epoch.

    def _evaluate(self, interrupts):
        """Returns the row of history.csv; changes nothing that a checkpoint holds.

        None if it was interrupted. Of several workers the chief alone does this, outside the
        strategy's scope, so that nothing in it waits for the others.
        """
        position, began = self.position, time.monotonic()
        try:
            with interrupts.abrupt(), self.average.applied():
                dev = self.evaluation(self.dev_batches)
                measured = {m.name: float(m.compute(self.model)) for m in self.metrics}
        except KeyboardInterrupt:
            return None
        self.evaluating = time.monotonic() - began
        return {
            "epoch": position.epoch + 1,
            "steps": position.steps,
            "train_loss": position.loss_sum / max(position.count, 1.0),
            self.objective.unit: int(position.count),
            "learning_rate": self._rate(),
            **{f"dev_{name}": dev[name] for name in dev if name != self.objective.unit},
            **measured,
            f"{self.objective.unit}_per_second": round(self.pace.per_second(position.count), 1),
            "seconds": round(self._seconds(), 3),
        }

    def _end_epoch(self, row):
        improved = self.monitor.improves(row, self.best.value)
        self.position.waited = 0 if improved else self.position.waited + 1
        self._try(lambda: self.history.append(row), "history.csv")
        self.reporter.epoch(row, improved, self.pace, self.step.num_shapes)
        if improved:
            with self.average.applied():
                arrays = [variable.numpy() for variable in self.model.weights]
                if self.save_model is not None and self.workers.is_chief:
                    self._try(lambda: self.save_model(self.model), "the model")
            self.best = Best(self.monitor.value_in(row), row["epoch"], arrays)
        self.average.end_epoch()
        if self.plateau is not None:
            rate = self.plateau.update(improved, self._rate())
            if rate != self._rate():
                self.reporter.message(f"The learning rate is {rate:g} from here on.")
                self.optimizer.learning_rate = rate

    # Saving and ending.

    def _checkpoint_due(self):
        settings = self.settings
        steps = self.position.steps - self.saved_step
        if settings.checkpoint_steps is not None and steps >= settings.checkpoint_steps:
            return True
        age = time.monotonic() - self.saved_at
        return settings.checkpoint_seconds is not None and age >= settings.checkpoint_seconds

    def _checkpoint(self, required=False):
        self._drain()
        self.pace.catch_up()
        self.position.seconds = self._seconds()
        if not self.workers.is_chief:
            return

        def write():
            self.saver.write(self.position, self.best)

        write() if required else self._try(write, "a checkpoint")
        self.saved_at, self.saved_step = time.monotonic(), self.position.steps
        self.pace.resume()

    def _try(self, write, what):
        """Training outlives a disk that is full for a while; the end of the run does not."""
        try:
            write()
        except OSError as error:
            self.reporter.message(
                f"Could not write {what} ({error}); going on, trying again later."
            )

    def _interrupted(self):
        self._checkpoint(required=True)
        self.reporter.close()
        self.reporter.message(
            f"Interrupted at epoch {self.position.epoch + 1}, batch {self.position.batch}. A "
            f"checkpoint is in {self.directory}; the same command with --resume goes on from it."
        )
        return self._result("interrupted")

    def _finish(self, reason):
        self.history.write()
        if self.best.arrays is not None:
            for variable, array in zip(self.model.weights, self.best.arrays, strict=True):
                variable.assign(array)
        if self.save_model is not None and self.workers.is_chief:
            self.save_model(self.model)
        self.reporter.close()
        if self.best.value is not None:
            self.reporter.message(
                f"Finished ({reason}) after {clock(self._seconds())}: best {self.settings.monitor} "
                f"{self.best.value:.4f} at epoch {self.best.epoch}."
            )
        return self._result(reason)

    def _result(self, reason):
        return TrainingResult(
            reason,
            [dict(row) for row in self.history.rows],
            self.best.value,
            self.best.epoch,
            self.position.steps,
            self._seconds(),
        )

    # Small things.

    def _seconds(self):
        return self.seconds_before + time.monotonic() - self.started

    def _time_is_up(self):
        minutes = self.settings.minutes if self.workers.is_chief else None  # one clock counts
        return minutes is not None and self._seconds() + self.evaluating >= minutes * 60

    def _new_shapes(self):
        """How many batch shapes are still to be compiled, 0 if the batches do not say."""
        shapes = getattr(self.batches, "shapes", None)
        return max(0, len(shapes()) - self.step.num_shapes) if callable(shapes) else 0

    def _rate(self):
        return float(tf.convert_to_tensor(self.optimizer.learning_rate))
