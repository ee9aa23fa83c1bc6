import keras
import numpy as np
import pytest

from examples.training import schedules


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (1, 1.746928e-7),
        (1000, 1.746928e-4),
        (4000, 6.987712e-4),
        (8000, 4.941059e-4),
        (100000, 1.397542e-4),
    ],
)
def test_worked_numbers_of_the_transformer_rate(step, expected):
    # Steps count from 1 in the paper and from 0 in Keras.
    rate = schedules.InverseSqrtSchedule(units=512, warmup=4000)(step - 1)
    np.testing.assert_allclose(rate, expected, rtol=1e-6)


def test_an_optimizer_takes_the_schedule_from_its_first_update():
    optimizer = keras.optimizers.SGD(schedules.InverseSqrtSchedule(units=512))
    variable = keras.Variable([0.0])
    optimizer.apply([keras.ops.ones(1)], [variable])
    np.testing.assert_allclose(variable.numpy(), -1.746928e-7, rtol=1e-6)


def test_halving_counts_epochs_and_their_parts():
    # Sutskever et al.: 0.7 for five epochs, then halved every half epoch.
    schedule = schedules.halve_after_epoch(0.7, epoch=5, batches_per_epoch=20, every=0.5)
    rates = [float(schedule(step)) for step in (99, 100, 109, 110, 149)]
    np.testing.assert_allclose(rates, [0.7, 0.35, 0.35, 0.175, 0.7 / 2**5], rtol=1e-6)


@pytest.mark.parametrize(
    "schedule",
    [schedules.InverseSqrtSchedule(64, 100, 2.0), schedules.HalvingSchedule(0.5, 7, 3)],
)
def test_schedules_round_trip_through_their_config(schedule):
    copy = type(schedule).from_config(schedule.get_config())
    assert [float(copy(s)) for s in range(20)] == [float(schedule(s)) for s in range(20)]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: schedules.InverseSqrtSchedule(0), "`units` to be a positive int.*units=0"),
        (lambda: schedules.InverseSqrtSchedule(8, warmup=0), "`warmup` to be a positive int"),
        (lambda: schedules.HalvingSchedule(0.1, 0, 1), "`first_step` to be a positive int"),
    ],
)
def test_errors_name_the_argument(make, text):
    with pytest.raises(ValueError, match=text):
        make()
