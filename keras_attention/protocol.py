"""What is asked of a decoder beside its steps, where its author may have said nothing.

    state = decoder.start(memory, initial_state=None, max_length=None)
    decoder.first_id
    state = decoder.reorder(state, parents)

A decoder with a cache needs to know for how many steps there must be room; most do not. Most read
the start id first; Sutskever et al. 2014 (https://arxiv.org/abs/1409.3215) read the end id. Most
have a state small enough for a search to gather its rows.
"""

import inspect

from keras_attention.beams import follow

FIRST_ID = 2


def started(decoder, memory, initial_state=None, max_length=None):
    """Returns the state before the first step.

    Args:
        decoder: Has `start(memory, initial_state=None, max_length=None)`, perhaps without the
            last argument.
        memory: What `decoder.prepare` returned.
        initial_state: What the decoder begins from, or None.
        max_length: Int, the number of steps that will be done, or None if it is not known.

    Example:

    >>> class Counter:  # needs no room
    ...     def start(self, memory, initial_state=None):
    ...         return {"position": memory["position"]}
    >>> started(Counter(), {"position": 0}, max_length=5)
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


def first_id(decoder) -> int:
    """Returns the id that a decoder reads first: its `first_id`, or 2, the start id.

    Example:

    >>> first_id(object())
    2
    """
    return getattr(decoder, "first_id", FIRST_ID)


def reordering(decoder):
    """Returns how a search reorders the beams of a decoder: its `reorder`, or a gather of all rows.

    Example:

    >>> import keras
    >>> parents = keras.ops.array([[1, 1]])
    >>> reordering(object())(keras.ops.array([5, 7]), parents).numpy().tolist()
    [7, 7]
    """
    return getattr(decoder, "reorder", follow)
