import io
import types

import pytest

from examples.training import progress, reporting


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until the test moves it."""
    now = [100.0]
    # The module's own clock: threads of other tests look at the real one.
    clock = types.SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(reporting, "time", clock)
    return now


def step(pace, clock, seconds, compiled=False):
    clock[0] += seconds
    pace.add(compiled, 0.0)


def test_nothing_is_foretold_from_a_step_or_two(clock):
    pace = reporting.Pace()
    step(pace, clock, 9.0, compiled=True)
    for _ in range(9):  # under XLA a step is counted before it has run
        step(pace, clock, 0.001)
        assert pace.seconds_for(1000) is None
    step(pace, clock, 0.001)
    assert pace.seconds_for(1000) == pytest.approx(1.0)


def test_slow_steps_are_foretold_early(clock):
    pace = reporting.Pace()
    step(pace, clock, 2.0)
    assert pace.seconds_for(3) == 6.0


def test_steps_that_run_on_count_as_steps_and_not_as_compilation(clock):
    # "0:04 left" stood there for minutes: the wait for queued steps was taken for compiling.
    pace = reporting.Pace()
    for _ in range(10):
        step(pace, clock, 0.01)
    clock[0] += 19.9
    pace.catch_up()
    step(pace, clock, 5.0, compiled=True)
    assert pace.compiling == 5.0
    assert pace.seconds_for(7) == pytest.approx(14.0)


def test_shapes_still_to_be_compiled_take_time(clock):
    pace = reporting.Pace()
    step(pace, clock, 6.0, compiled=True)
    step(pace, clock, 8.0, compiled=True)
    step(pace, clock, 2.0)
    assert pace.seconds_for(5) == 10.0
    assert pace.seconds_for(5, shapes=3) == 10.0 + 3 * 7.0


def test_waiting_before_any_step_is_not_a_step(clock):
    pace = reporting.Pace()
    clock[0] += 50.0
    pace.catch_up()
    step(pace, clock, 4.0, compiled=True)
    step(pace, clock, 3.0)
    assert pace.seconds_for(1) == 3.0


def test_an_unknown_time_left_is_said_in_words():
    stream = io.StringIO()
    display = progress.LineProgress(stream, seconds=0)
    display.start("epoch 1/3", 20, 0)
    display.update(1, 2.5, 0.0, None)
    assert stream.getvalue().endswith("  time left not known yet\n")
