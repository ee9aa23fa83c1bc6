import io
import pathlib
import types

import pytest
import tensorflow as tf
import training_toys as toys

from examples.training import evaluation, progress, reporting
from examples.training.objectives import TokenObjective
from examples.training.saving import Position

ROW = {
    "epoch": 2,
    "steps": 40,
    "dev_loss": 1.25,
    "dev_perplexity": 3.4903,
    "dev_accuracy": 0.625,
    "bleu": 31.4159,
    "train_loss": 1.5,
    "tokens_per_second": 4321.0,
    "seconds": 83.0,
}


def show(stream, display):
    display.start("epoch 1/3", 20, 5)
    display.update(7, 2.5, "4,321 tokens/s", 83.0)
    display.message("epoch 1: [well]")
    display.close()
    return stream.getvalue()


def test_lines_show_loss_speed_and_time_left():
    stream = io.StringIO()
    text = show(stream, progress.LineProgress(stream, seconds=0))
    assert text == (
        "epoch 1/3  batch 7/20  loss 2.5000  4,321 tokens/s  1:23 left\nepoch 1: [well]\n"
    )


def test_lines_come_now_and_then():
    stream = io.StringIO()
    assert show(stream, progress.LineProgress(stream, seconds=60)) == "epoch 1: [well]\n"


def test_a_terminal_gets_a_bar_and_a_log_gets_lines():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    display = progress.make_progress(terminal)
    assert isinstance(display, progress.BarProgress)
    text = show(terminal, display)
    for part in ("epoch 1/3", "7/20", "loss 2.5000", "4,321 tokens/s", "1:23 left", "[well]"):
        assert part in text
    assert isinstance(progress.make_progress(io.StringIO()), progress.LineProgress)


def test_an_epoch_is_summed_up_with_its_metrics():
    display = toys.Quiet()
    pace = reporting.Pace()
    pace.add(compiled=True, count=50)
    reporting.Reporter(display, TokenObjective(), ["bleu"]).epoch(ROW, True, pace, num_shapes=3)
    assert display.messages[0] == (
        "epoch 2: train loss 1.5000, dev loss 1.2500, perplexity 3.490, accuracy 62.50 %, "
        "bleu 31.42, 4,321 tokens/s, 1:23 (best)"
    )
    assert "compiling 1 new batch shape (3 in all)" in display.messages[1]


def test_speed_leaves_compilation_and_pauses_out(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(reporting, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    pace = reporting.Pace(count=10.0)
    assert pace.seconds_for(3) is None
    for seconds, compiled, count in ((30.0, True, 40.0), (2.0, False, 0.0), (2.0, False, 0.0)):
        clock[0] += seconds
        pace.add(compiled, count)
    clock[0] += 500.0  # a checkpoint
    pace.resume()
    clock[0] += 2.0
    pace.add(False, 0.0)
    assert pace.compiling == 30.0
    assert pace.per_second(10.0 + 40.0 + 120.0) == 20.0
    assert pace.seconds_for(3) == 6.0


def test_batches_reach_the_display():
    display = toys.Quiet()
    reporter = reporting.Reporter(display, TokenObjective())
    reporter.batch(Position(batch=4), 9.0, train_loss=2.0, per_second=5.0)
    assert display.updates == [(4, 2.0)]


def test_evaluation_of_nothing_is_an_error():
    empty = tf.zeros([2, 3], tf.int32)
    with pytest.raises(ValueError, match="at least one token to predict"):
        evaluation.Evaluation(toys.model(), jit_compile=False)(
            [({"source": empty, "target": empty}, empty)]
        )


def test_no_class_of_the_examples_can_enter_a_saved_model():
    # DESIGN: every class a `.keras` file can hold lives in the library.
    folder = pathlib.Path(evaluation.__file__).parent
    for path in folder.glob("*.py"):
        assert "register_keras_serializable" not in path.read_text(encoding="utf-8"), path
