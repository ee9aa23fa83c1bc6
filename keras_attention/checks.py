"""Argument checks shared by every layer and function: expected, received, way out.

They raise `ValueError` before a tensor is touched, so that a wrong argument never
surfaces as a shape error from inside the backend. `owner` is the name of the class
or function the user called.
"""

import numbers

import keras
import numpy as np


def positive_int(owner: str, name: str, value, hint: str = "") -> int:
    """Returns `value` if it is an int of at least 1."""
    return int_at_least(owner, name, value, 1, hint)


def int_at_least(owner: str, name: str, value, minimum: int, hint: str = "") -> int:
    """Returns `value` if it is an int of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        expected = "a positive int" if minimum == 1 else f"an int of at least {minimum}"
        raise ValueError(_message(f"{owner} expects `{name}` to be {expected}.", hint, name, value))
    return int(value)


def number_in_range(
    owner: str,
    name: str,
    value,
    low=None,
    high=None,
    below: bool = False,
    hint: str = "",
    above: bool = False,
):
    """Returns `value` if it is a real number with `low <= value <= high`.

    With `above` it must be larger than `low`, with `below` smaller than `high`.
    """
    real = isinstance(value, numbers.Real) and not isinstance(value, bool) and value == value
    inside = real and (low is None or (value > low if above else value >= low))
    if inside and high is not None:
        inside = value < high if below else value <= high
    if not inside:
        opening = "(" if above or low is None else "["
        closing = ")" if below or high is None else "]"
        low, high = "-inf" if low is None else low, "inf" if high is None else high
        bounds = f"{opening}{low}, {high}{closing}"
        text = f"{owner} expects `{name}` to be a number in {bounds}."
        raise ValueError(_message(text, hint, name, value))
    return value


def one_of(owner: str, name: str, value, choices, hint: str = ""):
    """Returns `value` if it is one of `choices`."""
    if not isinstance(value, (str, type(None), bool)) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(
            _message(f"{owner} expects `{name}` to be one of {listed}.", hint, name, value)
        )
    return value


def rank(owner: str, name: str, tensor, ranks: tuple[int, ...], axes: str = "") -> None:
    """Raises unless `tensor` has one of `ranks` dimensions; `axes` says what they mean."""
    if len(tensor.shape) not in ranks:
        expected = " or ".join(str(r) for r in ranks)
        meaning = f", {axes}" if axes else ""
        raise ValueError(
            f"{owner} expects `{name}` of rank {expected}{meaning}. "
            f"Received: {name}.shape={tuple(tensor.shape)}"
        )


def same_dim(owner: str, axis: int, hint: str = "", **tensors) -> None:
    """Raises unless all named tensors (or shapes) agree on `axis`; None is unknown and agrees."""
    sizes = {name: _shape(tensor)[axis] for name, tensor in tensors.items()}
    if len({size for size in sizes.values() if size is not None}) > 1:
        names = " and ".join(f"`{name}`" for name in sizes)
        received = ", ".join(f"{name}.shape={_shape(t)}" for name, t in tensors.items())
        text = f"{owner} expects {names} to have the same size on axis {axis}."
        raise ValueError(f"{text}{' ' + hint if hint else ''} Received: {received}")


def boolean_mask(owner: str, name: str, mask, shape=None, axes: str = "") -> None:
    """Raises unless `mask` is None or boolean and, where both are known, of `shape`."""
    if mask is None:
        return
    if keras.backend.standardize_dtype(mask.dtype) != "bool":
        raise ValueError(
            f"{owner} expects `{name}` to be boolean, True for positions to keep. Convert it with "
            f"`keras.ops.cast({name}, 'bool')`. Received: {name}.dtype="
            f"{keras.backend.standardize_dtype(mask.dtype)}"
        )
    if shape is None:
        return
    known = [(a, b) for a, b in zip(mask.shape, shape, strict=False) if None not in (a, b)]
    if len(mask.shape) != len(shape) or any(a not in (b, 1) for a, b in known):
        raise ValueError(
            f"{owner} expects `{name}` of shape {axes or tuple(shape)}, here {tuple(shape)}. "
            f"Received: {name}.shape={tuple(mask.shape)}"
        )


def own_mask(owner: str, shape, axes: str, **masks):
    """Returns the first of a layer's `masks` that is given, or None, and checks them all.

    Keras puts the mask attached to a layer's only tensor into `mask`, and into
    `<argument>_mask` where another tensor is given too. An explicit `mask` is such a tensor:
    named first here, it wins over the attached one.
    """
    for name, mask in masks.items():
        boolean_mask(owner, name, mask, tuple(shape), axes)
    return next((mask for mask in masks.values() if mask is not None), None)


def ids_in_vocabulary(owner: str, name: str, ids, vocabulary_size: int) -> None:
    """Raises if concrete `ids` leave the vocabulary; values of a traced graph are not known."""
    try:
        values = np.asarray(ids)
    except Exception:  # every backend has its own error for a symbolic tensor
        return
    if values.size and (values.min() < 0 or values.max() >= vocabulary_size):
        wrong = values[(values < 0) | (values >= vocabulary_size)][0]
        raise ValueError(
            f"{owner} expects `{name}` between 0 and {vocabulary_size - 1}, the vocabulary's "
            f"last id. Check that the tokenizer belongs to the model. Received: {name} with {wrong}"
        )


def check_ready(layer, tensor):
    """Raises unless `layer` is built and `tensor` is not a symbolic Keras tensor."""
    owner = type(layer).__name__
    if isinstance(tensor, keras.KerasTensor):
        raise ValueError(
            f"{owner}.prepare, .start and .step work on values, not on symbolic tensors: their "
            f"weights would be saved as constants. Call the layer itself, `{layer.name}(...)`, in "
            f"a functional model. Received: {tensor}"
        )
    if not layer.built:
        raise ValueError(
            f"{owner} has no weights yet. Call the layer once, or `build` it with its input "
            f"shapes, before its plain methods. Received: built={layer.built}"
        )


def _shape(tensor):
    return tuple(tensor.shape) if hasattr(tensor, "shape") else tuple(tensor)


def _message(text, hint, name, value):
    return f"{text}{' ' + hint if hint else ''} Received: {name}={value!r}"
