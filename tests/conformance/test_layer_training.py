"""Every layer trains, compiled but on PyTorch, in one `fit` over batches of two shapes."""

import keras
import numpy as np
import pytest
from layer_rows import SIZES, flat_data, holds_ids
from layer_table import TABLE
from seeds import set_seed

#: Compiling is dear: one layer is trained by `make test` (on JAX one of each kind of computation),
#: every layer by `make test-thorough`, in all its variants by `make test-slow`. PyTorch trains all.
FAST = ("Attention",)
COMPILED = keras.backend.backend() != "torch"
if keras.backend.backend() == "jax":
    FAST += ("BahdanauDecoder", "ConvDecoder", "MultiHeadAttention", "TransformerDecoder")


def _marks(name):
    if name in FAST or not COMPILED:
        return []
    return [pytest.mark.slow if "-" in name else pytest.mark.thorough]


ROWS = [pytest.param(row, id=str(row), marks=_marks(str(row))) for row in TABLE]


class Scale(keras.layers.Layer):
    """One trainable number, so that a model around a layer without weights has one."""

    def build(self, input_shape):
        self.scale = self.add_weight((), "ones", name="scale")

    def call(self, inputs):
        return keras.ops.multiply(inputs, self.scale)


@pytest.mark.thorough
@pytest.mark.parametrize("row", ROWS)
def test_one_fit_over_two_shapes(row):
    set_seed(1)
    layer, symbols = row.make(), row.symbols(masks=True)
    floats = [name for name in row.inputs if not holds_ids(name)][:1]
    scaled = {name: keras.tree.map_structure(Scale(), symbols[name]) for name in floats}
    outputs = row.call(layer, symbols | scaled)
    # The scaled input is an output as well: some layers pass no gradient to theirs.
    model = keras.Model(flat_data(symbols), (*outputs, *keras.tree.flatten(scaled)))
    model.compile("sgd", ("mse",) * len(model.outputs), jit_compile=COMPILED)
    before = _values(model)

    # Keras traces once, with every size unknown that differs between these two. They are made
    # beforehand: during `fit`, JAX has taken the weights out of the model.
    made = [_batch(row, model, sizes) for sizes in SIZES[:2]]
    batches = (batch for batch in made)
    history = model.fit(batches, steps_per_epoch=len(made), shuffle=False, verbose=0)
    assert np.isfinite(history.history["loss"][0])
    moved = [not np.array_equal(*pair) for pair in zip(before, _values(model), strict=True)]
    assert all(moved) if row.trains else any(moved), [w.path for w in model.trainable_weights]


def _values(model):
    return [np.array(weight) for weight in model.trainable_weights]


def _batch(row, model, sizes):
    data, random = flat_data(row.data(sizes, masks=True)), np.random.RandomState(1)
    return data, tuple(
        random.randn(*output.shape).astype("float32") for output in keras.tree.flatten(model(data))
    )
