import dataclasses
import itertools

import keras
import numpy as np
import pytest
import training_toys as toys

from examples.data.rows import RowBatches
from examples.training.fitting import BACKUP, evaluate, make_trainer, train
from examples.training.history import read_history
from examples.training.recorder import Plateau
from examples.training.settings import Measure, TrainingDiverged, TrainingSettings
from examples.training.training_plan import TrainingPlan
from keras_attention import TokenCrossentropy
from keras_attention.metrics import Perplexity, TokenAccuracy

pytestmark = pytest.mark.thorough


class Kill(keras.callbacks.Callback):
    """Interrupts a training before an update."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def on_train_batch_begin(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == self.step:
            raise KeyboardInterrupt


def make_batches():
    groups = [toys.batch(rows, source, target, seed=rows) for rows, source, target in toys.GROUPS]
    return (
        RowBatches(groups, 4, seed=5),
        RowBatches(groups[:1], 4, is_training=False),
    )


def make_plan(directory, callbacks=(), measures=(), rate=0.01, dtype=None, dropout=0.3, **settings):
    model = toys.model(dropout, dtype=dtype)
    saved = []
    average = settings.get("uses_average", False)
    options = {"use_ema": average, "ema_momentum": 0.9}
    batches, validation_batches = make_batches()
    defaults = {"epochs": 3, "monitor": "perplexity", "checkpoint_seconds": 0.0}
    plan = TrainingPlan(
        model,
        batches,
        validation_batches,
        TrainingSettings(**defaults | {"jit_compile": False} | settings),
        keras.optimizers.Adam(rate, global_clipnorm=1.0, **options),
        TokenCrossentropy(label_smoothing=0.1),
        save=lambda best: saved.append(best.get_weights()),
        digests={},
        metrics=[Perplexity(), TokenAccuracy(name="accuracy")],
        measures=measures,
        callbacks=callbacks,
    )
    return plan, saved


def without_times(rows):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


@pytest.mark.parametrize("settings", [{}, {"uses_average": True, "dtype": "mixed_bfloat16"}])
def test_a_killed_training_goes_on_to_the_same_numbers(tmp_path, settings):
    directories = tmp_path / "whole", tmp_path / "killed"

    def callbacks(directory):
        return (Plateau(directory, "perplexity", 0.5, 1),)

    whole, saved = make_plan(directories[0], callbacks(directories[0]), **settings)
    expected = train(whole, directories[0])
    count = whole.batches.batches_per_epoch()
    for step in (1, count + 2):
        plan, _ = make_plan(directories[1], (*callbacks(directories[1]), Kill(step)), **settings)
        with pytest.raises(KeyboardInterrupt):
            train(plan, directories[1])
    plan, again = make_plan(directories[1], callbacks(directories[1]), **settings)
    result = train(plan, directories[1])
    assert without_times(result.history) == without_times(expected.history)
    assert len(result.history) == 3
    assert result.reason == expected.reason == "epochs"
    for ours, theirs in zip(plan.model.variables, whole.model.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    if again:
        assert all(map(np.array_equal, again[-1], saved[-1]))


def test_history_has_a_row_for_each_epoch_and_the_best_weights_are_saved(tmp_path):
    values = iter([2.0, 1.0, 3.0])
    plan, saved = make_plan(
        tmp_path, measures=(Measure("wer", lambda model: next(values)),), monitor="wer"
    )
    result = train(plan, tmp_path)
    rows = read_history(tmp_path / "history.csv")
    assert rows == result.history
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert [row["wer"] for row in rows] == [2.0, 1.0, 3.0]
    assert {"loss", "perplexity", "accuracy", "val_loss", "val_perplexity"} <= set(rows[0])
    assert rows[-1]["steps"] == 3 * plan.batches.batches_per_epoch()
    assert (result.best, result.best_epoch, len(saved)) == (1.0, 2, 2)


def test_a_training_killed_before_its_last_best_weights_are_there_saves_them(tmp_path):
    plan, _ = make_plan(tmp_path, epochs=1)

    def kill(best):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(dataclasses.replace(plan, save=kill), tmp_path)
    plan, saved = make_plan(tmp_path, epochs=1)
    assert train(plan, tmp_path).best_epoch == len(saved) == 1


def test_a_training_killed_at_its_first_weights_has_a_backup(tmp_path):
    def kill(best):
        raise KeyboardInterrupt

    killed = tmp_path / "killed"
    plan, _ = make_plan(killed, checkpoint_seconds=3600.0)
    with pytest.raises(KeyboardInterrupt):
        train(dataclasses.replace(plan, save=kill), killed)
    assert (killed / BACKUP / "training.backup").exists()
    models = []
    for directory in (killed, tmp_path / "whole"):
        plan, _ = make_plan(directory, checkpoint_seconds=3600.0)
        train(plan, directory)
        models.append(plan.model)
    for ours, theirs in zip(*(model.variables for model in models), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_larger_accuracy_is_better(tmp_path):
    values = iter([0.1, 0.3, 0.2])
    measures = (Measure("exact_match", lambda model: next(values)),)
    plan, saved = make_plan(tmp_path, measures=measures, monitor="exact_match")
    assert train(plan, tmp_path).best == 0.3
    assert len(saved) == 2


def test_averaged_weights_are_measured_and_saved(tmp_path):
    seen = []

    def measure(model):
        seen.append(model.get_weights())
        return len(seen)

    measures = (Measure("wer", measure),)
    plan, saved = make_plan(tmp_path, measures=measures, monitor="wer", epochs=1, uses_average=True)
    train(plan, tmp_path)
    plain, _ = make_plan(tmp_path / "plain", epochs=1)
    train(plain, tmp_path / "plain")
    assert all(map(np.array_equal, seen[0], saved[0]))
    own = [v for v in plain.model.get_weights() if v.dtype.kind == "f"]
    averages = [v for v in saved[0] if v.dtype.kind == "f"]
    assert not any(map(np.array_equal, own, averages))


@pytest.mark.parametrize(
    ("settings", "values", "reason", "epochs"),
    [
        ({"patience": 2}, [1.0, 2.0, 3.0, 0.5], "patience", 3),
        ({"patience": 2}, [1.0, 2.0, 0.5, 2.0, 2.0], "patience", 5),
        ({"stop_at_metric": 1.5}, [2.0, 1.5, 1.0], "stop_at_metric", 2),
        ({"max_minutes": 0.0}, [1.0], "max_minutes", 1),
        ({"epochs": 2}, [1.0, 2.0], "epochs", 2),
    ],
)
def test_why_a_training_ends(tmp_path, settings, values, reason, epochs):
    values = iter(values)
    measures = (Measure("wer", lambda model: next(values)),)
    plan, _ = make_plan(tmp_path, measures=measures, **{"epochs": 9, "monitor": "wer"} | settings)
    result = train(plan, tmp_path)
    assert (result.reason, len(result.history)) == (reason, epochs)
    plan, _ = make_plan(tmp_path, measures=measures, **{"epochs": 9, "monitor": "wer"} | settings)
    assert train(plan, tmp_path).history == result.history, "what is over trains no more"


def test_a_finished_training_can_be_made_longer(tmp_path):
    train(make_plan(tmp_path, epochs=1)[0], tmp_path)
    longer = train(make_plan(tmp_path, epochs=2)[0], tmp_path)
    once = train(make_plan(tmp_path / "once", epochs=2)[0], tmp_path / "once")
    assert without_times(longer.history) == without_times(once.history)


class Breaking(keras.Model):
    """A model whose loss can be made no number."""

    factor = 1.0

    def compute_loss(self, *arguments, **options):
        return super().compute_loss(*arguments, **options) * self.factor


def test_a_loss_that_is_no_number_ends_the_training_and_keeps_the_backup(tmp_path, monkeypatch):
    def make(epochs):
        return dataclasses.replace(make_plan(tmp_path, epochs=epochs)[0], trainer=Breaking)

    train(make(1), tmp_path)
    before = (tmp_path / BACKUP / "training.backup").read_bytes()
    monkeypatch.setattr(Breaking, "factor", float("nan"))
    with pytest.raises(TrainingDiverged, match=r"diverged at step 4: loss nan.*--clip-norm"):
        train(make(2), tmp_path)
    assert (tmp_path / BACKUP / "training.backup").read_bytes() == before


def test_a_validation_loss_that_is_no_number_ends_the_training(tmp_path):
    def make(callbacks):
        return make_plan(tmp_path, callbacks, epochs=2, checkpoint_seconds=1e6)[0]

    class Spoil(keras.callbacks.Callback):
        """Makes a weight no number after the last update of the second epoch."""

        def on_train_batch_end(self, batch, logs=None):
            if int(self.model.optimizer.iterations) == 2 * batches_per_epoch:
                weight = self.model.trainable_variables[0]
                weight.assign(np.full(weight.shape, np.nan))

    batches_per_epoch = make(()).batches.batches_per_epoch()
    with pytest.raises(TrainingDiverged, match="validation loss nan"):
        train(make((Spoil(),)), tmp_path)
    assert len(train(make(()), tmp_path).history) == 2


def test_a_training_cut_short_by_its_minutes_goes_on_to_the_same_numbers(tmp_path):
    expected = train(make_plan(tmp_path / "whole")[0], tmp_path / "whole")
    cut = train(make_plan(tmp_path / "cut", max_minutes=0.0)[0], tmp_path / "cut")
    assert (cut.history[-1]["steps"], cut.reason) == (1, "max_minutes")
    result = train(make_plan(tmp_path / "cut")[0], tmp_path / "cut")
    assert without_times(result.history) == without_times(expected.history)
    assert result.history[0]["seconds"] > cut.history[-1]["seconds"]


def test_a_monitor_that_nothing_measures_is_refused(tmp_path):
    plan, _ = make_plan(tmp_path, monitor="bleu")
    with pytest.raises(ValueError, match="expects `monitor` to be the name of a metric.*'bleu'"):
        train(plan, tmp_path)


def test_another_seed_does_not_go_on_from_a_backup(tmp_path):
    train(make_plan(tmp_path, epochs=1)[0], tmp_path)
    plan, _ = make_plan(tmp_path, epochs=2)
    plan.batches.seed = 6
    with pytest.raises(ValueError, match=r"data\.seed=6, in the backup 5"):
        train(plan, tmp_path)


def test_a_plateau_lowers_the_rate(tmp_path):
    values = iter([1.0, 2.0, 2.0, 2.0])
    measures = (Measure("wer", lambda model: next(values)),)
    plan, _ = make_plan(
        tmp_path, (Plateau(tmp_path, "wer", 0.5, 2),), measures, monitor="wer", epochs=4
    )
    rates = [row["learning_rate"] for row in train(plan, tmp_path).history]
    np.testing.assert_allclose(rates, [0.01, 0.01, 0.01, 0.005])


def test_a_trained_model_is_not_compiled(tmp_path):
    plan, _ = make_plan(tmp_path, epochs=1)
    train(plan, tmp_path)
    assert not plan.model.compiled


@pytest.mark.parametrize("jit_compile", [False, True])
def test_float16_scales_the_loss(tmp_path, jit_compile):
    options = {"uses_average": True, "jit_compile": jit_compile}
    plan, _ = make_plan(tmp_path, dtype="mixed_float16", epochs=2, rate=0.003, **options)
    trainer = make_trainer(plan.model, plan.loss, plan.metrics, plan.optimizer, jit_compile)
    assert isinstance(trainer.optimizer, keras.optimizers.LossScaleOptimizer)
    plan, _ = make_plan(tmp_path, dtype="mixed_float16", epochs=2, rate=0.003, **options)
    first, second = train(plan, tmp_path).history
    assert second["loss"] < first["loss"]
    assert second["learning_rate"] == pytest.approx(0.003)
    assert second["steps"] == 2 * plan.batches.batches_per_epoch()


def test_evaluate_measures_all_batches():
    model = toys.model()
    _, validation_batches = make_batches()
    metrics = [Perplexity(), TokenAccuracy(name="accuracy")]
    found = evaluate(model, validation_batches.epoch(0), TokenCrossentropy(), metrics)
    losses = count = 0.0
    for inputs, labels in validation_batches.epoch(0):
        logits = model(inputs)
        tokens = float(keras.ops.sum(labels != 0))
        losses += float(TokenCrossentropy()(labels, logits)) * tokens
        count += tokens
    np.testing.assert_allclose(found["perplexity"], np.exp(losses / count), rtol=1e-5)


def test_xla_learns_the_same(tmp_path):
    # Keras draws other numbers for dropout under XLA.
    plan, _ = make_plan(tmp_path, epochs=2, jit_compile=True, dropout=0.0)
    plain, _ = make_plan(tmp_path / "plain", epochs=2, dropout=0.0)
    ours, theirs = (train(each, tmp_path / str(id(each))).history for each in (plan, plain))
    for name in ("loss", "val_loss", "val_perplexity"):
        np.testing.assert_allclose(
            [row[name] for row in ours], [row[name] for row in theirs], rtol=1e-4
        )


def test_two_trainers_of_a_model_share_its_weights():
    model = toys.model()
    first, second = (make_trainer(model, TokenCrossentropy(), None) for _ in range(2))
    for a, b in itertools.pairwise([model.weights, first.weights, second.weights]):
        assert all(x is y for x, y in zip(a, b, strict=True))
