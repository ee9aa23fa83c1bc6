"""The loop of every search, and the one warning of a search that runs it eagerly.

An eager search starts every operation of every step from Python; on JAX every call traces and
compiles the loop again. A compiled search does neither.
"""

import contextlib
import contextvars
import inspect
import itertools
import warnings

import keras
from keras import ops

from keras_attention.decoding import steps

MAX_EAGER_STEPS = 10  # nobody is warned of so few
#: How a search is compiled, on the backends that compile.
COMPILERS = {
    "tensorflow": "@tf.function(autograph=False, jit_compile=True)",
    "jax": "@jax.jit",
}
#: Packages whose frames may stand between a user's line and a step of the loop.
INNER = ("keras_attention.decoding", "keras", "tensorflow")

_expected = contextvars.ContextVar("expected", default=False)
_warned = False


class EagerSearchWarning(UserWarning):
    """Warns once in a process that a search of more than ten steps ran eagerly.

    A compiled search is many times faster, on the TensorFlow and JAX backends (PyTorch always
    runs eagerly). To search eagerly without a warning:

    >>> import warnings
    >>> from keras_attention.decoding import EagerSearchWarning
    >>> warnings.simplefilter("ignore", EagerSearchWarning)
    """


@contextlib.contextmanager
def expect_eager_searches():
    """Lets the searches of a `with` block run eagerly without a warning."""
    token = _expected.set(True)
    try:
        yield
    finally:
        _expected.reset(token)


def run_loop(owner, going, body, search):
    """Returns what `ops.while_loop` makes of the tuple `search`, whose first entry is the time.

    Args:
        owner: Name of the function the user called.
        going: Callable that says of a search whether there is a step to do.
        body: Callable that returns the search after one more step, time included.
        search: Tuple of nests of tensors.
    """

    def watched(*search):
        search = body(*search)
        _warn_of_eager_steps(owner, search[0])
        return search

    search = ops.while_loop(going, watched, search)
    _warn_of_eager_steps(owner, search[0])  # JAX traces the body of an eager loop too
    return search


def _warn_of_eager_steps(owner, time):
    global _warned
    compiler = COMPILERS.get(keras.backend.backend())
    if _warned or compiler is None or _expected.get():
        return
    count = steps.concrete(time)  # None while a graph is being traced
    if count is None or count <= MAX_EAGER_STEPS:
        return
    warnings.warn(
        f"{owner} runs eagerly, which is many times slower than compiled. Call it in a function "
        f"under `{compiler}`. Received: {int(count)} steps so far. (Filter EagerSearchWarning to "
        f"silence this.)",
        EagerSearchWarning,
        stacklevel=_users_level(),
    )
    _warned = True


def _users_level():
    """Returns the `stacklevel`, seen from the caller, of the line that started the search."""
    frame = inspect.currentframe().f_back
    for level in itertools.count(1):
        name = frame.f_globals.get("__name__", "")
        if frame.f_back is None or not f"{name}.".startswith(tuple(f"{p}." for p in INNER)):
            return level
        frame = frame.f_back
