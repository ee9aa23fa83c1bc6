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


def cell_inputs(owner: str, shape) -> None:
    """Raises unless the inputs of a cell have the shape of one step, `(batch, input_dim)`."""
    if len(shape) != 2 or shape[-1] is None:
        raise ValueError(
            f"{owner} expects `inputs` of shape (batch, input_dim) with a known input_dim. "
            f"Received: inputs.shape={tuple(shape)}"
        )


def same_dim(owner: str, axis: int, hint: str = "", **tensors) -> None:
    """Raises unless all named tensors (or shapes) agree on `axis`; None is unknown and agrees."""
    sizes = {name: _shape(tensor)[axis] for name, tensor in tensors.items()}
    if len({size for size in sizes.values() if size is not None}) > 1:
        names = " and ".join(f"`{name}`" for name in sizes)
        received = ", ".join(f"{name}.shape={_shape(t)}" for name, t in tensors.items())
        text = f"{owner} expects {names} to have the same size on axis {axis}."
        raise ValueError(f"{text}{' ' + hint if hint else ''} Received: {received}")


def built_widths(layer, **shapes) -> None:
    """Raises unless the last axes of `shapes` are those that a layer's weights were made for.

    Args:
        layer: A layer; one that is not built, or has no weights, takes any widths.
        shapes: Names of the arguments of its `build` to shapes, in their order.
    """
    config = layer.get_build_config() if layer.built else None
    if config is None:
        return
    built = list(config.get("shapes_dict", config).values())
    pairs = list(zip(built, shapes.values(), strict=False))
    if all(known[-1] == given[-1] for known, given in pairs) or not layer.weights:
        return
    names = " and ".join(f"`{name}`" for name in shapes)
    widths = tuple(known[-1] for known in built)
    widths = f"width {widths[0]}" if len(widths) == 1 else f"widths {widths}"
    received = ", ".join(f"{name}.shape={tuple(shape)}" for name, shape in shapes.items())
    raise ValueError(
        f"{type(layer).__name__} was built for {names} of {widths} and has weights for no "
        f"other. Make another layer for them. Received: {received}"
    )


def boolean_mask(owner: str, name: str, mask, shape=None, axes: str = ""):
    """Returns `mask` as booleans, None for None, if it is of `shape` where both are known.

    An integer mask is cast, as Keras does: 0 masks, any other number keeps. A float mask is
    refused: it may as well be one that is added to scores, where 0 keeps.
    """
    if mask is None:
        return None
    if not hasattr(mask, "dtype"):
        raise ValueError(
            f"{owner} expects one boolean tensor as `{name}`; convert it with "
            f"`keras.ops.convert_to_tensor({name})`, or give each tensor its mask. "
            f"Received: {name}={described(mask)}"
        )
    dtype = keras.backend.standardize_dtype(mask.dtype)
    if "int" not in dtype and dtype != "bool":
        raise ValueError(
            f"{owner} expects `{name}` to be boolean or integer, True or 1 for positions to keep. "
            f"Convert it with `keras.ops.cast({name}, 'bool')`, or, where 0 keeps because it is "
            f"added to scores, with `{name} == 0`. Received: {name}.dtype={dtype}"
        )
    if shape is not None:
        known = [(a, b) for a, b in zip(mask.shape, shape, strict=False) if None not in (a, b)]
        if len(mask.shape) != len(shape) or any(a not in (b, 1) for a, b in known):
            raise ValueError(
                f"{owner} expects `{name}` of shape {axes or tuple(shape)}, here {tuple(shape)}. "
                f"Received: {name}.shape={tuple(mask.shape)}"
            )
    return mask if dtype == "bool" else keras.ops.cast(mask, "bool")


def own_mask(owner: str, shape, axes: str, **masks):
    """Returns the first of a layer's `masks` that is given, or None, and checks them all.

    Keras puts the mask attached to a layer's only tensor into `mask`, and into
    `<argument>_mask` where another tensor is given too. An explicit `mask` is such a tensor:
    named first here, it wins over the attached one.
    """
    checked = [boolean_mask(owner, name, mask, tuple(shape), axes) for name, mask in masks.items()]
    return next((mask for mask in checked if mask is not None), None)


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


def described(value) -> str:
    """Returns a value as an error shows it: tensors by their shape, for they print long."""
    if isinstance(value, (list, tuple)):
        items = ", ".join(described(item) for item in value[:3])
        return f"[{items}{', ...' if len(value) > 3 else ''}]"
    return f"a tensor of shape {tuple(value.shape)}" if hasattr(value, "shape") else repr(value)


def _message(text, hint, name, value):
    return f"{text}{' ' + hint if hint else ''} Received: {name}={value!r}"
