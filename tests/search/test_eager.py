"""An eager search of more than a few steps says what to do about it."""

import warnings

import numpy as np
import pytest
from search_models import HashModel
from tf_or_skip import tf

from keras_attention.search import (
    EagerSearchWarning,
    beam_search,
    check_beam_search,
    greedy_search,
    sample_search,
    score_sequences,
)

LONG = 11  # one more than nobody is warned of
MODEL = HashModel(seed=171, batch=2, vocabulary=7, end_bias=-20.0)
SEARCHES = {
    "beam_search": lambda length, **given: beam_search(beam_width=2, max_length=length, **given),
    "greedy_search": lambda length, **given: greedy_search(max_length=length, **given),
    "sample_search": lambda length, **given: sample_search(
        seed=np.array([1, 2]), max_length=length, **given
    ),
    "score_sequences": lambda length, **given: score_sequences(
        target_ids=np.full((2, length), 4), **given
    ),
}
each_search = pytest.mark.parametrize("name", list(SEARCHES))


def run(name, length):
    given = {"step": MODEL.step, "state": MODEL.state(), "memory": MODEL.memory()}
    return SEARCHES[name](length, **given)


@pytest.fixture
def eager_warnings():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def kinds(found):
    return [warning.category for warning in found]


@each_search
def test_a_long_eager_search_warns_at_the_line_of_the_user(name, eager_warnings):
    run(name, LONG)
    (warning,) = eager_warnings
    assert warning.category is EagerSearchWarning
    assert warning.filename == __file__
    text = rf"{name} runs eagerly, .*`@tf.function\(autograph=False, jit_compile=True\)`.*11 steps"
    with pytest.raises(EagerSearchWarning, match=text):
        raise warning.message


@pytest.mark.thorough
def test_python_shows_the_warning_once_for_each_line():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(3):
            run("greedy_search", LONG)
        run("beam_search", LONG)
    assert kinds(found) == [EagerSearchWarning] * 2


@each_search
def test_a_few_eager_steps_warn_of_nothing(name, eager_warnings):
    run(name, LONG - 1)
    assert not eager_warnings


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_remedy_silences_the_warning(jit_compile, eager_warnings):
    compiled = tf.function(
        lambda: run("greedy_search", LONG), autograph=False, jit_compile=jit_compile
    )
    compiled()
    assert not eager_warnings


def test_it_warns_while_the_search_is_running():
    calls = []

    def step(*given):
        calls.append(1)
        return MODEL.step(*given)

    with warnings.catch_warnings():
        warnings.simplefilter("error", EagerSearchWarning)
        with pytest.raises(EagerSearchWarning):
            greedy_search(step, MODEL.state(), MODEL.memory(), max_length=10**6)
    assert len(calls) == LONG


@pytest.mark.thorough
def test_checks_that_search_eagerly_on_purpose_are_silent(eager_warnings):
    given = MODEL.step, MODEL.state(), MODEL.memory()
    check_beam_search(*given, beam_width=1, max_length=LONG)
    assert not eager_warnings
    run("greedy_search", LONG)  # what the check kept silent is still told
    assert kinds(eager_warnings) == [EagerSearchWarning]


def test_a_user_may_turn_it_off():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", EagerSearchWarning)
        run("greedy_search", LONG)
    assert not found
