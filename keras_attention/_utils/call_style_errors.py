"""Errors for calls in the style of other attention layers, with the correct call."""

import functools
import inspect

from keras_attention.validation import describe_value


class SeparateTensorsMixin:
    """Mixin for a layer whose tensors and masks are separate arguments; comes before the layer.

    `keras.layers.Attention` takes lists, `layer([query, value], mask=[query_mask, value_mask])`.
    For such calls this class raises an error with the correct call, before Keras checks the
    arguments.
    """

    def __call__(self, *args, **kwargs):
        tensors, masks = _find_call_arguments(type(self))
        given = dict(zip(tensors, args, strict=False)) | kwargs
        for name in (*tensors, *(["inputs"] if tensors and not args else [])):
            if isinstance(given.get(name), (list, tuple, dict)):
                raise ValueError(
                    f"{type(self).__name__} takes its tensors one by one, not in a list or a dict "
                    f"as other layers do: call {_format_calls(type(self), tensors)}. "
                    f"Received: {name}={describe_value(given[name])}"
                )
        missing = [name for name in tensors if given.get(name) is None]
        if missing:
            raise ValueError(
                f"{type(self).__name__} needs every tensor of "
                f"{_format_calls(type(self), tensors)}. "
                f"Received: {f'{missing[0]}=None' if missing[0] in given else f'no {missing[0]}'}"
            )
        mask = kwargs.get("mask")
        if mask is not None and masks and ("mask" not in masks or isinstance(mask, (list, tuple))):
            wanted = ", ".join(f"`{name}=...`" for name in masks)
            raise ValueError(
                f"{type(self).__name__} takes the mask of each tensor by name: pass {wanted}. "
                f"Received: mask={describe_value(mask)}"
            )
        return super().__call__(*args, **kwargs)


@functools.cache
def _find_call_arguments(layer):
    """Returns the names of the tensors that a class must be called with, and of its masks."""
    parameters = dict(inspect.signature(layer.call).parameters)
    parameters.pop("self")
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    tensors = [
        name for name, one in parameters.items() if one.default is one.empty and one.kind in named
    ]
    masks = [
        name
        for name in parameters
        if name == "mask" or (name.endswith("_mask") and not name.startswith(("use_", "attention")))
    ]
    return tensors, masks


def _format_calls(layer, tensors):
    """Returns the calls that a class accepts, formatted for an error message."""
    calls = [f"`layer({', '.join(tensors)})`"]
    if "key" in inspect.signature(layer.call).parameters and "key" not in tensors:
        calls.append(f"`layer({', '.join(tensors)}, key)`")
    return " or ".join(calls)
