"""The loop of every search, its parts, and the warning about a search that runs eagerly.

An eager search starts every operation of every step from Python, and on JAX every call traces and
compiles the loop again. A compiled search does neither.
"""

import abc
import inspect
import itertools
import warnings

import keras
from keras import ops

from keras_attention.search._argument_tensors import get_static_value

MAX_EAGER_STEPS = 10  # shorter searches cause no warning
#: How to compile a search, on the backends that compile.
COMPILE_DECORATORS = {
    "tensorflow": "@tf.function(autograph=False, jit_compile=True)",
    "jax": "@jax.jit",
}
#: Packages whose frames may lie between a user's line and a step of the loop.
LIBRARY_PACKAGES = ("keras_attention.search", "keras", "tensorflow")


class EagerSearchWarning(UserWarning):
    """Warns that a search of more than ten steps runs eagerly.

    A compiled search is many times faster, on the TensorFlow and JAX backends (PyTorch always
    runs eagerly). Python shows the warning once for each line of your code. To search eagerly
    without it:

    >>> import warnings
    >>> from keras_attention.search import EagerSearchWarning
    >>> warnings.simplefilter("ignore", EagerSearchWarning)
    """


class SearchLoop(abc.ABC):
    """A search in parts: `run` calls them one after another, `ResumableSearch` one at a time.

    Attributes:
        owner: Name of the function the user called.
        state_type: The named tuple of a loop state. Its first field is `time`, the number of
            steps, a scalar; `active` `(batch,)` are the batch elements whose search goes on.
        time_major: Names of its fields of shape `(target, batch, ...)`.
        flat_beams: Names of its fields of shape `(batch * beam_width, ...)`.
        beam_width: Int, the number of hypotheses of a batch element.
    """

    owner: str
    state_type: type
    time_major: frozenset
    flat_beams: frozenset
    beam_width: int = 1

    @abc.abstractmethod
    def start(self):
        """Returns the loop state after the first step, and arguments fitted to its outputs."""

    @abc.abstractmethod
    def run_step(self, loop_state, fitted=None):
        """Returns the loop state after one more step; without `fitted` it fits the arguments."""

    @abc.abstractmethod
    def finish(self, loop_state):
        """Returns the result of the search as a dict."""

    @abc.abstractmethod
    def find_certain(self, loop_state):
        """Returns the tokens that are certain, a dict of `ids`, `lengths` and `alignments`."""

    def advance(self, loop_state, num_steps=None, fitted=None):
        """Returns the loop state after `num_steps` more steps, or once no element is active."""
        last = None if num_steps is None else loop_state.time + num_steps

        def goes_on(*loop_state):
            loop_state = self.state_type(*loop_state)
            is_active = ops.any(loop_state.active)
            return is_active if last is None else is_active & (loop_state.time < last)

        def body(*loop_state):
            return tuple(self.run_step(self.state_type(*loop_state), fitted))

        return self.state_type(*run_search_loop(self.owner, goes_on, body, tuple(loop_state)))

    def run(self):
        """Returns the result of the whole search."""
        loop_state, fitted = self.start()
        return self.finish(self.advance(loop_state, fitted=fitted))


def run_search_loop(owner, condition, body, loop_state):
    """Returns the final `loop_state` of `ops.while_loop`; its first entry is the time.

    Args:
        owner: Name of the function the user called.
        condition: Callable that returns whether the search continues.
        body: Callable that returns the loop state after one more step, including the time.
        loop_state: Tuple of nests of tensors.
    """

    compiler = COMPILE_DECORATORS.get(keras.backend.backend())
    has_warned = compiler is None

    def warn_of_eager_steps(time):
        nonlocal has_warned
        count = None if has_warned else get_static_value(time)  # None while tracing
        if count is None or count <= MAX_EAGER_STEPS:
            return
        has_warned = True
        warnings.warn(
            f"{owner} runs eagerly, which is many times slower than compiled. Call it in a "
            f"function under `{compiler}`. Received: {int(count)} steps so far. (Filter "
            "EagerSearchWarning to silence this.)",
            EagerSearchWarning,
            stacklevel=_find_user_stacklevel(),
        )

    def run_step(*loop_state):
        loop_state = body(*loop_state)
        warn_of_eager_steps(loop_state[0])
        return loop_state

    loop_state = ops.while_loop(condition, run_step, loop_state)
    warn_of_eager_steps(loop_state[0])  # JAX traces the body of an eager loop too
    return loop_state


def _find_user_stacklevel():
    """Returns the `stacklevel`, from the caller's view, of the line that started the search."""
    frame = inspect.currentframe().f_back
    for level in itertools.count(1):
        name = frame.f_globals.get("__name__", "")
        if frame.f_back is None or not f"{name}.".startswith(
            tuple(f"{p}." for p in LIBRARY_PACKAGES)
        ):
            return level
        frame = frame.f_back
