"""The model server's batching session in Python: several requests become one run.

After `tensorflow_serving/batching/batching_session.cc` and `batching_util.cc`: inputs are
joined along dimension 0; with `pad_variable_length_inputs` the other dimensions are widened to
the largest, filled with *the tensor's own first element*, not with zeros; the batch is rounded
up to one of `allowed_batch_sizes` by repeating the first row of the last request.

With `enable_large_batch_splitting` a request that is too large for the batch is cut into parts,
each of which becomes a run of its own, and `tensor::Concat` puts their outputs together: it
copies bytes into the shape that the first part gives, and fails only if they do not fit.
"""

import numpy as np


def merge(requests: list[dict], allowed_sizes=(), pad=True) -> tuple[dict, list[int]]:
    """Returns the inputs of one run and the rows of each part, filling rows last.

    Args:
        requests: Dicts of arrays with the same names.
        allowed_sizes: Increasing batch sizes; none for any.
        pad: Whether dimensions may differ.

    Raises:
        ValueError: Where the server refuses: scalars, no rows, rows of unequal number, shapes
            that differ without `pad`, a batch larger than allowed.
    """
    sizes = [_rows(request) for request in requests]
    filling = _round_up(sum(sizes), allowed_sizes) - sum(sizes)
    inputs = {}
    for name in requests[0]:
        parts = [request[name] for request in requests]
        shapes = {part.shape[1:] for part in parts}
        if len(shapes) > 1 and not pad:
            raise ValueError(f"Tensors with name '{name}' from different tasks differ in shape")
        if len(shapes) > 1:
            widest = np.max([part.shape[1:] for part in parts], axis=0)
            parts = [_pad(part, widest) for part in parts]
        inputs[name] = np.concatenate([*parts, *[parts[-1][:1]] * filling])
    return inputs, sizes + [filling] * bool(filling)


def split(outputs: dict, parts: list[int], requests: int) -> list[dict]:
    """Returns the outputs of each request.

    Raises:
        ValueError: If an output does not have as many rows as went in.
    """
    for name, array in outputs.items():
        if array.ndim == 0 or len(array) != sum(parts):
            raise ValueError(f"Batched output tensor's 0th dimension does not equal: {name}")
    ends = np.cumsum(parts)[:requests]
    return [
        {name: array[end - rows : end] for name, array in outputs.items()}
        for end, rows in zip(ends, parts, strict=False)
    ]


def cut(request: dict, rows: int) -> list[dict]:
    """Returns the parts of a request of too many rows, at most `rows` in each."""
    starts = range(0, _rows(request), rows)
    return [
        {name: array[start : start + rows] for name, array in request.items()} for start in starts
    ]


def join(parts: list[dict]) -> dict:
    """Returns the outputs of the parts of one request as the server puts them together.

    Raises:
        ValueError: If the bytes do not fit.
    """
    outputs = {}
    for name, first in parts[0].items():
        shape = (sum(len(part[name]) for part in parts), *first.shape[1:])
        values = np.concatenate([part[name].ravel() for part in parts])
        whole = np.zeros(shape, first.dtype)
        if values.size > whole.size:
            raise ValueError(f"Tensor concat operation failed: {name}")
        whole.reshape(-1)[: values.size] = values
        outputs[name] = whole
    return outputs


def _rows(request):
    if any(array.ndim == 0 for array in request.values()):
        raise ValueError("Batching Run() input tensors must have at least one dimension")
    if any(array.size == 0 for array in request.values()):
        raise ValueError("Batching Run() input tensors must not be empty")
    rows = {len(array) for array in request.values()}
    if len(rows) > 1:
        raise ValueError("Batching Run() input tensors must have equal 0th dimension")
    return rows.pop()


def _pad(array, widest):
    padding = [(0, 0)] + [
        (0, wide - size) for wide, size in zip(widest, array.shape[1:], strict=True)
    ]
    return np.pad(array, padding, constant_values=array.flat[0])


def _round_up(rows, allowed_sizes):
    if not allowed_sizes:
        return rows
    fitting = [size for size in allowed_sizes if size >= rows]
    if not fitting:
        raise ValueError(f"a batch of {rows} rows is larger than {allowed_sizes[-1]}")
    return fitting[0]
