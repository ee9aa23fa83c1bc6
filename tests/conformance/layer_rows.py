"""A row of the conformance table: how to make a layer, what it reads, what its masks promise."""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
from seeds import set_seed

#: Three (batch, length) shapes; the first is the one most tests use.
SIZES = (
    {"batch": 3, "query": 5, "key": 7},
    {"batch": 2, "query": 3, "key": 11},
    {"batch": 5, "query": 2, "key": 3},
)
VOCABULARY = 17


@dataclasses.dataclass(frozen=True)
class Mask:
    """What a mask argument covers and what it silences.

    Attributes:
        axes: Its axes, words of `SIZES`.
        covers: The input whose masked positions must not be read.
        zeros: Indices of the outputs that are exactly 0 where nothing is kept.
        by_position: Whether `zeros` speaks of each masked position of the output, or of the
            batch elements where every position is masked.
        implicit: Whether a mask attached to the covered input means the same.
        passes: Indices of the outputs that carry the mask on when it came attached.
    """

    axes: tuple
    covers: str
    zeros: tuple = ()
    by_position: bool = False
    implicit: bool = True
    passes: tuple = ()


@dataclasses.dataclass(frozen=True)
class Row:
    """A layer under test.

    Attributes:
        layer: The class.
        make: Callable that takes the base layer's keyword arguments and returns one.
        inputs: Call argument to its axes, or to a list of axes; words of `SIZES` and widths.
            Arguments that end in `ids` hold ids, all others floats.
        masks: Mask argument to `Mask`.
        flags: Further call arguments.
        label: What tells two rows of one class apart.
        output_dtype: The dtype of all outputs, or a tuple with that of each; None is the compute
            dtype.
        valid: Callable from an input's name and drawn numbers to numbers that it may have.
        noisy: Like `make`, a layer that draws noise while training; None if `make`'s does.
        trains: Whether the gradient of the outputs reaches every trainable weight.
    """

    layer: type
    make: Callable
    inputs: dict
    masks: dict = dataclasses.field(default_factory=dict)
    flags: dict = dataclasses.field(default_factory=dict)
    label: str = ""
    output_dtype: str | tuple | None = None
    valid: Callable | None = None
    noisy: Callable | None = None
    trains: bool = True
    _layers: dict = dataclasses.field(default_factory=dict, init=False)

    def __str__(self):
        return self.layer.__name__ + (f"-{self.label}" if self.label else "")

    def data(self, sizes=SIZES[0], scale=1.0, masks=False):
        """Returns the call's tensors: name to array (or list of arrays)."""
        data = {name: _values(name, axes, sizes, scale) for name, axes in self.inputs.items()}
        if self.valid is not None:
            data = {name: self.valid(name, values) for name, values in data.items()}
        if masks:
            data |= {name: mask_values(mask, sizes) for name, mask in self.masks.items()}
        return data

    def symbols(self, sizes=None, masks=False):
        """Returns a `keras.Input` for every tensor, by default of unknown batch and length."""
        symbols = {}
        for name, axes in self.inputs.items():
            dtype = "int32" if holds_ids(name) else keras.config.floatx()
            if isinstance(axes, list):
                symbols[name] = [
                    _symbol(f"{name}_{index}", one, sizes, dtype) for index, one in enumerate(axes)
                ]
            else:
                symbols[name] = _symbol(name, axes, sizes, dtype)
        if masks:
            for name, mask in self.masks.items():
                symbols[name] = _symbol(name, mask.axes, sizes, "bool")
        return symbols

    def call(self, layer, data, **flags):
        """Returns the layer's outputs as a flat list; inputs by position, masks by name."""
        positional = [data[name] for name in self.inputs]
        masks = {name: data[name] for name in self.masks if name in data}
        return keras.tree.flatten(layer(*positional, **masks, **self.flags, **flags))

    def build_new(self, seed=1, **options):
        """Returns a new built layer whose weights follow from `seed`."""
        set_seed(seed)
        layer = self.make(**options)
        self.call(layer, self.data())
        return layer

    def built(self, seed=1, **options):
        """Returns the layer of `build_new` with its initial weights; all tests share it.

        Building takes a third of the time of most tests.
        """
        key = seed, keras.config.floatx(), *options.items()
        if key not in self._layers:
            layer = self.build_new(seed, **options)
            self._layers[key] = layer, [np.array(variable) for variable in layer.variables]
        layer, values = self._layers[key]
        for variable, value in zip(layer.variables, values, strict=True):
            variable.assign(value)
        return layer

    def model(self, layer, masks=True):
        """Returns a functional model from named inputs to a list of outputs, lengths unknown."""
        symbols = self.symbols(masks=masks)
        return keras.Model(flat_data(symbols), self.call(layer, symbols))


def holds_ids(name):
    """Returns whether an input of this name holds ids."""
    return name.endswith("ids")


def flat_data(data):
    """Returns the data under one name a tensor: a list `states` becomes `states_0`, ..."""
    flat = {}
    for name, value in data.items():
        if isinstance(value, list):
            flat |= {f"{name}_{index}": one for index, one in enumerate(value)}
        else:
            flat[name] = value
    return flat


def arrays(tensors):
    """Returns the tensors as a flat list of float64 arrays, whatever float they hold."""
    flat = keras.tree.flatten(tensors)
    flat = [keras.ops.convert_to_numpy(keras.ops.cast(tensor, "float32")) for tensor in flat]
    return [array.astype("float64") for array in flat]


def mask_values(mask, sizes):
    """Returns a mask whose batch elements are kept whole, kept in part, and empty."""
    shape = tuple(sizes[axis] for axis in mask.axes)
    last = np.arange(shape[-1])
    kept = np.array([shape[-1], 2, 0])[np.arange(shape[0]) % 3]
    rows = last < kept.reshape(-1, *[1] * (len(shape) - 1))
    return np.broadcast_to(rows, shape).copy()


def _values(name, axes, sizes, scale):
    if isinstance(axes, list):
        return [_values(f"{name}{index}", one, sizes, scale) for index, one in enumerate(axes)]
    shape = tuple(sizes.get(axis, axis) for axis in axes)
    random = np.random.RandomState(sum(map(ord, name)) + sum(shape))
    if holds_ids(name):
        return random.randint(1, VOCABULARY, size=shape).astype("int32")
    return (scale * random.randn(*shape)).astype(keras.config.floatx())


def _symbol(name, axes, sizes, dtype):
    shape = tuple((sizes or {}).get(axis) if isinstance(axis, str) else axis for axis in axes)
    return keras.Input(batch_shape=shape, dtype=dtype, name=name)
