"""The loop of every search, and the warning about a search that runs eagerly.

An eager search starts every operation of every step from Python, and on JAX every call traces and
compiles the loop again. A compiled search does neither.
"""

import contextlib
import contextvars
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

_is_warning_off = contextvars.ContextVar("expected", default=False)
_has_warned = False


class EagerSearchWarning(UserWarning):
    """Warns once per process that a search of more than ten steps ran eagerly.

    A compiled search is many times faster, on the TensorFlow and JAX backends (PyTorch always
    runs eagerly). To search eagerly without a warning:

    >>> import warnings
    >>> from keras_attention.search import EagerSearchWarning
    >>> warnings.simplefilter("ignore", EagerSearchWarning)
    """


@contextlib.contextmanager
def allow_eager_searches():
    """Lets the searches of a `with` block run eagerly without a warning."""
    token = _is_warning_off.set(True)
    try:
        yield
    finally:
        _is_warning_off.reset(token)


def run_search_loop(owner, condition, body, loop_state):
    """Returns the final `loop_state` of `ops.while_loop`; its first entry is the time.

    Args:
        owner: Name of the function the user called.
        condition: Callable that returns whether the search continues.
        body: Callable that returns the loop state after one more step, including the time.
        loop_state: Tuple of nests of tensors.
    """

    def warn_if_eager(*loop_state):
        loop_state = body(*loop_state)
        _warn_of_eager_steps(owner, loop_state[0])
        return loop_state

    loop_state = ops.while_loop(condition, warn_if_eager, loop_state)
    _warn_of_eager_steps(owner, loop_state[0])  # JAX traces the body of an eager loop too
    return loop_state


def _warn_of_eager_steps(owner, time):
    global _has_warned
    compiler = COMPILE_DECORATORS.get(keras.backend.backend())
    if _has_warned or compiler is None or _is_warning_off.get():
        return
    count = get_static_value(time)  # None while tracing
    if count is None or count <= MAX_EAGER_STEPS:
        return
    warnings.warn(
        f"{owner} runs eagerly, which is many times slower than compiled. Call it in a function "
        f"under `{compiler}`. Received: {int(count)} steps so far. (Filter EagerSearchWarning to "
        f"silence this.)",
        EagerSearchWarning,
        stacklevel=_find_user_stacklevel(),
    )
    _has_warned = True


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
