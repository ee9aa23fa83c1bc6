"""What a search asks of a decoder beside `prepare` and `step`.

    state = decoder.start(memory, initial_state, max_length)
    decoder.decoder_start_id                                        2 by default
    state = decoder.reorder_cache(state, parents)                   gathers the state by default
    decoder.get_capacity(state)                                     None, any number of steps

A decoder with a cache needs `max_length` to allocate it; others ignore it. A search of more steps
than `get_capacity` of the step's owner names is refused. Most take the BOS token as first input;
Sutskever et al. 2014 (https://arxiv.org/abs/1409.3215) use the EOS token.
"""

import inspect
from collections.abc import Callable
from typing import Protocol

from keras_attention._utils.flat_beams import gather_beams
from keras_attention._utils.tensor_types import Structure, Tensor

DECODER_START_ID = 2


class StartedDecoder(Protocol):
    """Any object with the `start` of a decoder; every `Decoder` is one."""

    def start(
        self, memory: Structure, initial_state: Structure = None, max_length: int | None = None
    ) -> Structure:
        """Returns the state before the first step."""


def start_decoder(
    decoder: StartedDecoder,
    memory: Structure,
    initial_state: Structure = None,
    max_length: int | None = None,
) -> Structure:
    """Returns the state before the first step.

    Args:
        decoder: Has `start(memory, initial_state=None, max_length=None)`.
        memory: The result of `decoder.prepare`.
        initial_state: The initial state, or None.
        max_length: Int, the number of steps that will be run, or None if unknown.

    Raises:
        TypeError: If `decoder.start` takes different arguments.

    Example:

    >>> class Counter:
    ...     def start(self, memory, initial_state=None, max_length=None):
    ...         return {"position": memory["position"]}
    >>> start_decoder(Counter(), {"position": 0}, max_length=5)
    {'position': 0}
    """
    signature = inspect.signature(decoder.start)
    try:
        signature.bind(memory, initial_state, max_length)
    except TypeError:
        raise TypeError(
            f"{type(decoder).__name__} defines `start`, which is called with the positional "
            "arguments `start(memory, initial_state, max_length)`. Define it as `def start(self, "
            "memory, initial_state=None, max_length=None)`; a decoder without a cache ignores "
            f"`max_length`. Received: `def start{signature}`"
        ) from None
    return decoder.start(memory, initial_state, max_length)


def get_decoder_start_id(decoder: StartedDecoder) -> int:
    """Returns the id of a decoder's first input: its `decoder_start_id`, or 2, the BOS token.

    Example:

    >>> get_decoder_start_id(object())
    2
    """
    return getattr(decoder, "decoder_start_id", DECODER_START_ID)


def get_reorder_cache(decoder: StartedDecoder) -> Callable[[Structure, Tensor], Structure]:
    """Returns the `reorder_cache` of a decoder, or a function that gathers its whole state.

    Example:

    >>> import keras
    >>> parents = keras.ops.array([[1, 1]])
    >>> get_reorder_cache(object())(keras.ops.array([5, 7]), parents).numpy().tolist()
    [7, 7]
    """
    return getattr(decoder, "reorder_cache", gather_beams)
