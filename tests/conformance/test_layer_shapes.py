"""What a layer cannot be called with, `compute_output_shape` and a symbolic call refuse as well.

All three say the same, and a refusal leaves nothing behind: the right call works afterwards.
"""

import keras
import numpy as np
import pytest
from layer_table import SIZES, TABLE, holds_ids

import keras_attention as ka

#: Layers that define `compute_output_shape` themselves; the others have that of Keras.
LAYERS = (
    ka.AttentionMechanism,
    ka.AttentionOverAttention,
    ka.AttentionPooling,
    ka.AttentionRNN,
    ka.Decoder,
    ka.GaussianGlimpse,
    ka.GaussianWriter,
    ka.HierarchicalAttention,
    ka.MultiQueryPooling,
    ka.MultiStepAttention,
    ka.NTM,
    ka.Normalizer,
    ka.RetinaGlimpse,
    ka.Scorer,
    ka.SelfAttention,
    ka.TransformerDecoderLayer,
    ka.TransformerEncoderLayer,
    ka.WeightNormalizedDense,
)
#: An argument whose shape `compute_output_shape` is not given.
UNSEEN = "previous_weights"
ROWS = [row for row in TABLE if issubclass(row.layer, LAYERS) and UNSEEN not in row.inputs]
CELLS = [row for row in TABLE if hasattr(row.make(), "state_size")]
EVERY = pytest.mark.parametrize("row", ROWS, ids=str)


def _shapes(row):
    return {name: tuple(SIZES[0].get(a, a) for a in axes) for name, axes in row.inputs.items()}


def _changed(shapes):
    """Yields shapes of which one has another rank, or another size on one axis."""
    for name, shape in shapes.items():
        yield {**shapes, name: (*shape, 3)}
        yield {**shapes, name: shape[1:]}
        for axis in range(len(shape)):
            sizes = list(shape)
            sizes[axis] += 1
            yield {**shapes, name: tuple(sizes)}


def _dtype(name):
    return "int32" if holds_ids(name) else "float32"


def _arrays(shapes):
    return [np.ones(shape, _dtype(name)) for name, shape in shapes.items()]


def _symbols(shapes):
    return [keras.KerasTensor(shape, _dtype(name)) for name, shape in shapes.items()]


def _refusal(function, *arguments):
    """Returns what a `ValueError` says, without what Keras puts around it; None if none came."""
    try:
        function(*arguments)
    except ValueError as error:
        return str(error).split("\x1b[1m")[-1].split("\x1b[0m")[0]
    return None


@EVERY
def test_shapes_and_symbols_are_refused_as_the_call_refuses(row):
    shapes, layer = _shapes(row), row.make()
    layer(*_arrays(shapes), **row.flags)
    refused = 0
    for changed in _changed(shapes):
        by_shape = _refusal(layer.compute_output_shape, *changed.values())
        by_symbol = _refusal(layer.compute_output_spec, *_symbols(changed))
        assert by_shape == by_symbol, changed
        by_call = _refusal(layer, *_arrays(changed))
        assert by_call == by_shape, changed
        refused += by_call is not None
    assert refused or issubclass(row.layer, ka.Normalizer)


@EVERY
def test_a_refusal_leaves_nothing_behind(row):
    shapes, layer = _shapes(row), row.make()
    for changed in _changed(shapes):
        if _refusal(layer.compute_output_spec, *_symbols(changed)) is not None:
            assert _refusal(layer, *_arrays(changed)) is not None
    layer(*_arrays(shapes), **row.flags)
    again = row.make()
    again(*_arrays(shapes), **row.flags)
    kinds = [[tuple(weight.shape) for weight in one.weights] for one in (layer, again)]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ka.Attention("dot"),
        lambda: ka.Attention("cosine"),
        lambda: ka.Attention("uniform"),
        lambda: ka.LuongAttention("scaled_dot"),
        lambda: ka.LocalAttention(3, scorer="dot"),
        lambda: ka.MultiQueryPooling("dot"),
        ka.AttentionOverAttention,
        ka.DotScorer,
    ],
)
def test_a_layer_without_weights_takes_any_width(make):
    layer = make()
    for width in (5, 7):
        given = keras.ops.ones((2, 3, width)), keras.ops.ones((2, 11, width))
        symbols = [keras.KerasTensor(one.shape) for one in given]
        assert tuple(layer(*given).shape) == tuple(layer.compute_output_spec(*symbols).shape)


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_a_symbolic_look_makes_no_weights(row):
    layer, symbols = row.make(), row.symbols(SIZES[0])
    before = len(layer.weights)
    try:
        layer.compute_output_spec(*symbols.values(), **row.flags)
    except ValueError:  # some have to be built first, and say so
        assert not layer.built
    assert len(layer.weights) == before


@pytest.mark.parametrize("row", CELLS, ids=str)
@pytest.mark.parametrize("shape", [(3, 5, 11), (11,), (3, None)])
def test_a_cell_is_built_for_one_step_only(row, shape):
    layer = row.make()
    with pytest.raises(ValueError, match=r"expects `inputs` of shape \(batch, input_dim\)"):
        layer.build(shape)
    row.call(layer, row.data())


def test_a_symbolic_look_at_other_widths_binds_nothing():
    layer = ka.BahdanauAttention(5)
    layer.compute_output_spec(keras.KerasTensor((3, 2, 4)), keras.KerasTensor((3, 7, 9)))
    assert tuple(layer(keras.ops.ones((3, 2, 11)), keras.ops.ones((3, 7, 13))).shape) == (3, 2, 13)
    with pytest.raises(ValueError, match="of widths \\(11, 13\\) .*Received: query.shape"):
        layer(keras.ops.ones((3, 2, 4)), keras.ops.ones((3, 7, 13)))
