"""Checks of numbers, choices, shapes, masks and ids."""

import numbers
from collections.abc import Collection
from typing import TypeVar

import keras
import numpy as np

from keras_attention._utils.shapes import broadcast_mask
from keras_attention._utils.tensor_types import (
    LayerOptions,
    OutputShape,
    Shape,
    Structure,
    TensorLike,
)

Choice = TypeVar("Choice", str, bool | str, str | None)


def check_positive_int(owner: str, name: str, value: int | None, hint: str = "") -> int:
    """Returns `value` if it is an int of at least 1."""
    return check_int_at_least(owner, name, value, 1, hint)


def check_int_at_least(
    owner: str, name: str, value: int | None, minimum: int, hint: str = ""
) -> int:
    """Returns `value` if it is an int of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        expected = "a positive int" if minimum == 1 else f"an int of at least {minimum}"
        raise ValueError(
            _format_message(f"{owner} expects `{name}` to be {expected}.", hint, name, value)
        )
    return int(value)


def check_number_in_range(
    owner: str,
    name: str,
    value: float,
    low: float | None = None,
    high: float | None = None,
    exclude_high: bool = False,
    hint: str = "",
    exclude_low: bool = False,
) -> float:
    """Returns `value` if it is a real number from `low` to `high`.

    Each endpoint is included unless excluded.
    """
    real = isinstance(value, numbers.Real) and not isinstance(value, bool) and value == value
    inside = real and (low is None or (value > low if exclude_low else value >= low))
    if inside and high is not None:
        inside = value < high if exclude_high else value <= high
    if not inside:
        opening = "(" if exclude_low or low is None else "["
        closing = ")" if exclude_high or high is None else "]"
        low, high = "-inf" if low is None else low, "inf" if high is None else high
        bounds = f"{opening}{low}, {high}{closing}"
        text = f"{owner} expects `{name}` to be a number in {bounds}."
        raise ValueError(_format_message(text, hint, name, value))
    return value


def check_one_of(
    owner: str, name: str, value: Choice, choices: Collection[Choice], hint: str = ""
) -> Choice:
    """Returns `value` if it is one of `choices`."""
    if not isinstance(value, (str, type(None), bool)) or value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(
            _format_message(f"{owner} expects `{name}` to be one of {listed}.", hint, name, value)
        )
    return value


def check_rank(
    owner: str, name: str, tensor: TensorLike | Shape, ranks: tuple[int, ...], axes: str = ""
) -> None:
    """Raises unless `tensor` has one of `ranks` dimensions; `axes` names them."""
    if len(static_shape(tensor)) not in ranks:
        expected = " or ".join(str(r) for r in ranks)
        meaning = f", {axes}" if axes else ""
        raise ValueError(
            f"{owner} expects `{name}` of rank {expected}{meaning}. "
            f"Received: {name}.shape={static_shape(tensor)}"
        )


def check_axes(
    owner: str, name: str, shape: Shape, axes: str, hint: str = "", known_width: bool = True
) -> None:
    """Raises unless `shape` has the dimensions that `axes` names.

    Args:
        axes: For example "(batch, dim)" or "(batch, dim) or (batch, length, dim)".
        known_width: Whether the size of the last dimension must be known.
    """
    ranks = [len(names.split(",")) for names in axes.split(" or ")]
    if len(shape) not in ranks or (known_width and shape[-1] is None):
        known = " with a known last dimension" if known_width else ""
        text = f"{owner} expects `{name}` of shape {axes}{known}.{' ' if hint else ''}{hint}"
        raise ValueError(f"{text} Received: {name}.shape={tuple(shape)}")


def check_inputs(
    layer: keras.layers.Layer, shape: Shape, axes: str = "(batch, time, dim)", hint: str = ""
) -> None:
    """Raises unless `inputs` have these axes and the width that the layer was built with."""
    check_axes(type(layer).__name__, "inputs", shape, axes, hint)
    check_built_dims(layer, inputs=shape)


def check_same_size(owner: str, axis: int, hint: str = "", **tensors: TensorLike | Shape) -> None:
    """Raises unless all named tensors (or shapes) agree on `axis`; None is unknown and agrees."""
    sizes = {name: static_shape(tensor)[axis] for name, tensor in tensors.items()}
    if len({size for size in sizes.values() if size is not None}) > 1:
        names = " and ".join(f"`{name}`" for name in sizes)
        received = ", ".join(f"{name}.shape={static_shape(t)}" for name, t in tensors.items())
        text = f"{owner} expects {names} to have the same size on axis {axis}."
        raise ValueError(f"{text}{' ' + hint if hint else ''} Received: {received}")


def check_previous_weights(owner: str, weights: TensorLike, shape: Shape, axes: str) -> None:
    """Raises unless the `previous_weights` of a call have `shape`, where None matches any size."""
    given, expected = tuple(weights.shape), tuple(shape)
    pairs = zip(given, expected, strict=False)
    if len(given) != len(expected) or any(a != b for a, b in pairs if None not in (a, b)):
        raise ValueError(
            f"{owner} expects `previous_weights` of shape {axes}, here {expected}: a weight for "
            f"every score. Received: previous_weights.shape={given}"
        )


def check_built_dims(layer: keras.layers.Layer, **shapes: Shape) -> None:
    """Raises unless the last axes of `shapes` match those that a layer was built with.

    Args:
        layer: A layer; one that is not built, or has no weights, accepts any width.
        shapes: Names of the arguments of its `build` to shapes, in the same order.
    """
    config = keras.layers.Layer.get_build_config(layer) if layer.built else None
    if config is None:
        return
    built = list(config.get("shapes_dict", config).values())[: len(shapes)]
    pairs = list(zip(built, shapes.values(), strict=False))
    if all(known[-1] == given[-1] for known, given in pairs) or not layer.weights:
        return
    names = " and ".join(f"`{name}`" for name in shapes)
    widths = tuple(known[-1] for known in built)
    widths = f"width {widths[0]}" if len(widths) == 1 else f"widths {widths}"
    received = ", ".join(f"{name}.shape={tuple(shape)}" for name, shape in shapes.items())
    raise ValueError(
        f"{type(layer).__name__} was built for {names} of {widths}, and its weights fit no "
        f"other width. Create a new layer for them. Received: {received}"
    )


def convert_mask(
    owner: str, name: str, mask: TensorLike | None, shape: Shape | None = None, axes: str = ""
) -> TensorLike | None:
    """Returns `mask` as booleans after checking it against the known sizes of `shape`.

    None returns None. An integer mask is cast as in Keras: 0 is masked. A float mask raises,
    because it might be an additive mask, in which 0 means attend.
    """
    if mask is None:
        return None
    if not hasattr(mask, "dtype"):
        raise ValueError(
            f"{owner} expects one boolean tensor as `{name}`. Convert it with "
            f"`keras.ops.convert_to_tensor({name})`, or pass each tensor's mask separately. "
            f"Received: {name}={describe_value(mask)}"
        )
    dtype = keras.backend.standardize_dtype(mask.dtype)
    if "int" not in dtype and dtype != "bool":
        raise ValueError(
            f"{owner} expects `{name}` to be boolean or integer, where True or 1 means attend. "
            f"Convert it with `keras.ops.cast({name}, 'bool')`, or, if it is an additive mask, "
            f"with `{name} == 0`. Received: {name}.dtype={dtype}"
        )
    if shape is not None:
        known = [(a, b) for a, b in zip(mask.shape, shape, strict=False) if None not in (a, b)]
        if len(mask.shape) != len(shape) or any(a not in (b, 1) for a, b in known):
            raise ValueError(
                f"{owner} expects `{name}` of shape {axes or tuple(shape)}, here {tuple(shape)}. "
                f"Received: {name}.shape={tuple(mask.shape)}"
            )
    return mask if dtype == "bool" else keras.ops.cast(mask, "bool")


def fit_mask(
    owner: str, name: str, mask: TensorLike | None, tensor: TensorLike, axes: str
) -> TensorLike | None:
    """Returns `mask` as `convert_mask` does, broadcast to all axes of `tensor` but the last.

    An axis of size 1 serves all batch elements, or all positions.
    """
    mask = convert_mask(owner, name, mask, tuple(tensor.shape[:-1]), axes)
    is_symbolic = isinstance(tensor, keras.KerasTensor)  # then it is only checked
    return mask if is_symbolic else broadcast_mask(mask, tensor)


def resolve_mask(
    layer: keras.layers.Layer,
    inputs: TensorLike,
    axes: str = "(batch, time)",
    **masks: TensorLike | None,
) -> TensorLike | None:
    """Returns the first of the `masks` of `inputs` that is not None, or None; checks them all.

    Keras passes the mask attached to a layer's only tensor as `mask`, and as `<argument>_mask`
    if another tensor is passed too. An explicit `mask` counts as another tensor, so Keras then
    passes the attached mask as `<argument>_mask`. List `mask` first, so that it takes precedence.
    """
    owner = type(layer).__name__
    checked = [fit_mask(owner, name, mask, inputs, axes) for name, mask in masks.items()]
    return next((mask for mask in checked if mask is not None), None)


def refuse_arguments(owner: str, options: LayerOptions, *names: str) -> None:
    """Raises if `options`, passed on to a base class, have an argument that `owner` has not."""
    for name in names:
        if name in options:
            raise ValueError(
                f"{owner} has no argument `{name}`. Received: {name}={options.get(name)!r}"
            )


def check_ids_in_vocabulary(owner: str, name: str, ids: TensorLike, vocabulary_size: int) -> None:
    """Raises if concrete `ids` lie outside the vocabulary; symbolic ids are not checked."""
    try:
        values = np.asarray(ids)
    except Exception:  # every backend has its own error for a symbolic tensor
        return
    if values.size and (values.min() < 0 or values.max() >= vocabulary_size):
        wrong = values[(values < 0) | (values >= vocabulary_size)][0]
        raise ValueError(
            f"{owner} expects `{name}` between 0 and {vocabulary_size - 1}, the last id of "
            f"the vocabulary. Use the model's own tokenizer. Received: {name} with {wrong}"
        )


def check_ready(layer: keras.layers.Layer, tensor: TensorLike) -> None:
    """Raises unless `layer` is built and `tensor` is not a symbolic Keras tensor."""
    owner = type(layer).__name__
    if isinstance(tensor, keras.KerasTensor):
        raise ValueError(
            f"{owner}.prepare, .start and .step work on values, not on symbolic tensors, "
            f"which would save weights as constants. In a functional model call the layer itself, "
            f"`{layer.name}(...)`. Received: {tensor}"
        )
    if not layer.built:
        raise ValueError(
            f"{owner} has no weights yet. Call the layer once, or `build` it with its input "
            f"shapes, before calling its methods. Received: built={layer.built}"
        )


def static_shape(tensor: TensorLike | Shape) -> OutputShape:
    """Returns the static shape of a tensor, or a shape itself, as a tuple.

    Unknown sizes are None.
    """
    return tuple(tensor.shape) if hasattr(tensor, "shape") else tuple(tensor)


def describe_value(value: Structure) -> str:
    """Returns a value formatted for an error message: tensors by their shape."""
    if isinstance(value, (list, tuple)):
        items = ", ".join(describe_value(item) for item in value[:3])
        return f"[{items}{', ...' if len(value) > 3 else ''}]"
    if isinstance(value, dict):
        items = [f"{key!r}: {describe_value(item)}" for key, item in list(value.items())[:3]]
        return f"{{{', '.join(items)}{', ...' if len(value) > 3 else ''}}}"
    return f"a tensor of shape {tuple(value.shape)}" if hasattr(value, "shape") else repr(value)


def _format_message(text, hint, name, value):
    return f"{text}{' ' + hint if hint else ''} Received: {name}={value!r}"
