"""What a layer cannot be called with, `compute_output_shape` and a symbolic call refuse as well.

All three say the same, and a refusal leaves nothing behind: the right call works afterwards.
"""

import functools
import inspect

import keras
import numpy as np
import pytest
from layer_rows import SIZES, holds_ids
from layer_table import TABLE

import keras_attention as ka

#: Layers that define `compute_output_shape` themselves; the others have that of Keras.
LAYERS = (
    ka.AttentionMechanism,
    ka.AttentionOverAttention,
    ka.AttentionPooling,
    ka.AttentionRNN,
    ka.AttentionSum,
    ka.BahdanauGRU,
    ka.BahdanauGRUCell,
    ka.ChoGRUCell,
    ka.ContextAddCell,
    ka.AttentionalVectorCell,
    ka.ContextInputCell,
    ka.CopyNetDecoder,
    ka.CoverageLoss,
    ka.Decoder,
    ka.DoublyStochasticLoss,
    ka.GatedConvBlock,
    ka.GaussianGlimpse,
    ka.GaussianWriter,
    ka.HierarchicalAttention,
    ka.LearnedPositionalEmbedding,
    ka.MemoryHops,
    ka.MultiQueryPooling,
    ka.MultiStepAttention,
    ka.NTM,
    ka.NTMCell,
    ka.Normalizer,
    ka.PointerGeneratorDecoder,
    ka.ReinforceLoss,
    ka.RetinaGlimpse,
    ka.ReverseTokens,
    ka.Scorer,
    ka.SelfAttention,
    ka.SkipFirstUpdate,
    ka.TransformerDecoderLayer,
    ka.TransformerEmbedding,
    ka.TransformerEncoderLayer,
    ka.WeightNormalizedDense,
)
ROWS = [row for row in TABLE if issubclass(row.layer, LAYERS)]
CELLS = [row for row in TABLE if hasattr(row.make(), "state_size")]
EVERY = pytest.mark.parametrize("row", ROWS, ids=str)


def _shapes(row):
    """Returns the shape of each input; of a cell's states the list of theirs."""
    return {
        name: [_sizes(one) for one in axes] if isinstance(axes, list) else _sizes(axes)
        for name, axes in row.inputs.items()
    }


def _sizes(axes):
    return tuple(SIZES[0].get(axis, axis) for axis in axes)


def _change_shapes(shapes):
    """Yields shapes of which one has another rank, or another size on one axis."""
    for name, shape in shapes.items():
        if isinstance(shape, list):
            continue
        yield {**shapes, name: (*shape, 3)}
        yield {**shapes, name: shape[1:]}
        for axis in range(len(shape)):
            sizes = list(shape)
            sizes[axis] += 1
            yield {**shapes, name: tuple(sizes)}


def _dtype(name):
    return "int32" if holds_ids(name) else "float32"


def _arrays(shapes):
    return _map_shapes(np.ones, shapes)


def _symbols(shapes):
    return _map_shapes(keras.KerasTensor, shapes)


def _map_shapes(function, shapes):
    return [
        [function(one, _dtype(name)) for one in shape]
        if isinstance(shape, list)
        else function(shape, _dtype(name))
        for name, shape in shapes.items()
    ]


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
    for changed in _change_shapes(shapes):
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
    for changed in _change_shapes(shapes):
        if _refusal(layer.compute_output_spec, *_symbols(changed)) is not None:
            assert _refusal(layer, *_arrays(changed)) is not None
    layer(*_arrays(shapes), **row.flags)
    again = row.make()
    again(*_arrays(shapes), **row.flags)
    kinds = [[tuple(weight.shape) for weight in one.weights] for one in (layer, again)]
    assert kinds[0] == kinds[1]


def _optional_tensors(layer):
    """Returns the names of the masks and the earlier weights that a call takes."""
    names = inspect.signature(layer.call).parameters
    return [name for name in names if name.endswith("mask") or name == "previous_weights"]


@EVERY
def test_a_first_call_with_a_wrong_mask_makes_no_weights(row):
    layer, shapes = row.make(), _shapes(row)
    arrays = _arrays(shapes)
    if layer.built or issubclass(row.layer, ka.Normalizer):
        return
    before = len(layer.weights)
    for name in _optional_tensors(layer):
        if name.startswith("use_") or name in shapes:
            continue
        wrong = np.ones((17, 19, 23, 29, 31), "float32" if name == "previous_weights" else "bool")
        refusal = _refusal(functools.partial(layer, **{name: wrong}), *arrays)
        if refusal is None and name in ("previous_weights", "mask"):
            return  # not every layer looks at them
        assert refusal and not layer.built and len(layer.weights) == before, name


@pytest.mark.parametrize("make", [ka.CoverageScorer, lambda n: ka.LocationSensitiveScorer(n, 2, 3)])
@pytest.mark.parametrize(
    "around",
    [
        lambda scorer: scorer,
        ka.Attention,
        lambda scorer: ka.MultiHeadAttention(2, 3, scorer=scorer),
    ],
)
def test_a_first_call_with_wrong_weights_binds_no_widths(make, around):
    layer, key = around(make(5)), keras.ops.ones((3, 7, 13))
    with pytest.raises(ValueError, match="expects `previous_weights` of shape"):
        layer(keras.ops.ones((3, 5)), key, previous_weights=keras.ops.ones((3, 5, 7)))
    heads = (2,) if isinstance(layer, ka.MultiHeadAttention) else ()
    weights = keras.ops.ones((3, *heads, 5, 7))
    assert layer(keras.ops.ones((3, 5, 11)), key, previous_weights=weights).shape[:2] == (3, 5)


def test_a_first_call_with_an_unknown_id_binds_no_width():
    decoder, ids = ka.BahdanauDecoder(13, 5, 3), np.ones((3, 5), "int32")
    with pytest.raises(ValueError, match="Received: target_ids with 17"):
        decoder(ids + 16, keras.ops.ones((3, 7, 5)))
    assert decoder(ids, keras.ops.ones((3, 7, 11))).shape == (3, 5, 13)


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
    with pytest.raises(ValueError, match=r"(?s)of widths \(11, 13\).*Received: query.shape"):
        layer(keras.ops.ones((3, 2, 4)), keras.ops.ones((3, 7, 13)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: ka.BahdanauGRU(5),
        lambda: keras.layers.Bidirectional(ka.BahdanauGRU(5)),
        lambda: keras.layers.RNN(ka.BahdanauGRUCell(5)),
        lambda: keras.layers.RNN(ka.ChoGRUCell(5, 3)),
        lambda: keras.layers.RNN(ka.NTMCell(3, 7, 5)),
        lambda: keras.layers.RNN(ka.ContextInputCell(keras.layers.GRUCell(5), 3)),
    ],
)
@pytest.mark.parametrize("width", [9, 13])
def test_a_built_recurrent_layer_refuses_another_width(make, width):
    layer = make()
    layer(np.ones((2, 3, 11), "float32"))
    with pytest.raises(ValueError, match="was built for .* of width 11"):
        layer(np.ones((2, 3, width), "float32"))
    if type(layer) is not keras.layers.RNN:  # whose symbolic call asks no cell
        with pytest.raises(ValueError, match="was built for .* of width 11"):
            layer(keras.Input((3, width)))


def test_a_gru_refuses_another_state():
    layer, sequences = ka.BahdanauGRU(5), np.ones((2, 3, 11), "float32")
    for shape in ((2, 4), (3, 5), (2, 1, 5)):
        by_call = _refusal(layer, sequences, np.ones(shape, "float32"))
        by_shape = _refusal(layer.compute_output_shape, sequences.shape, shape)
        assert by_call == by_shape is not None


@EVERY
def test_the_first_shape_is_that_of_the_output(row):
    layer = row.built()
    shapes = layer.compute_output_shape(*_shapes(row).values())
    first = shapes[0] if isinstance(shapes[0], (tuple, list)) else shapes
    value = row.call(layer, row.data(SIZES[0]))[0]
    assert tuple(first) == tuple(value.shape)
