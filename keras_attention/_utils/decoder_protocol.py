"""Optional parts of the decoder protocol, with defaults for decoders that lack them.

    state = decoder.start(memory, initial_state=None, max_length=None)
    decoder.decoder_start_id
    state = decoder.reorder(state, parents)

A decoder with a cache needs `max_length` to allocate it; most decoders do not. Most take the BOS
token as first input; Sutskever et al. 2014 (https://arxiv.org/abs/1409.3215) use the EOS token.
Most have a state small enough for a search to gather it.
"""

import inspect

from keras_attention._utils.flat_beams import gather_beams

DECODER_START_ID = 2


def start_decoder(decoder, memory, initial_state=None, max_length=None):
    """Returns the state before the first step.

    Args:
        decoder: Has `start(memory, initial_state=None, max_length=None)`; the last argument is
            optional.
        memory: The result of `decoder.prepare`.
        initial_state: The initial state, or None.
        max_length: Int, the number of steps that will be run, or None if unknown.

    Example:

    >>> class Counter:  # needs no max_length
    ...     def start(self, memory, initial_state=None):
    ...         return {"position": memory["position"]}
    >>> start_decoder(Counter(), {"position": 0}, max_length=5)
    {'position': 0}
    """
    parameters = inspect.signature(decoder.start).parameters
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    options = {}
    if initial_state is not None or "initial_state" in parameters:
        options["initial_state"] = initial_state
    if takes_all or "max_length" in parameters:
        options["max_length"] = max_length
    return decoder.start(memory, **options)


def get_decoder_start_id(decoder) -> int:
    """Returns the id of a decoder's first input: its `decoder_start_id`, or 2, the BOS token.

    Example:

    >>> get_decoder_start_id(object())
    2
    """
    return getattr(decoder, "decoder_start_id", DECODER_START_ID)


def get_reorder_cache(decoder):
    """Returns the `reorder_cache` of a decoder, or None if a search gathers its whole state.

    Example:

    >>> import keras
    >>> parents = keras.ops.array([[1, 1]])
    >>> get_reorder_cache(object())(keras.ops.array([5, 7]), parents).numpy().tolist()
    [7, 7]
    """
    return getattr(decoder, "reorder_cache", gather_beams)
