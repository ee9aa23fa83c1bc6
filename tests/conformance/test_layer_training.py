"""Every layer trains compiled, in one `fit` over batches of three shapes."""

import keras
import numpy as np
import pytest
from layer_table import SIZES, TABLE, flat_data


class Scale(keras.layers.Layer):
    """One trainable number, so that a model around a layer without weights has one."""

    def build(self, input_shape):
        self.scale = self.add_weight((), "ones", name="scale")

    def call(self, inputs):
        return inputs * self.scale


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_one_compiled_fit_over_three_shapes(row):
    keras.utils.set_random_seed(1)
    layer, symbols = row.make(), row.symbols(masks=True)
    name = next(name for name in row.inputs if name != "target_ids")
    scaled = Scale()(symbols[name])
    outputs = row.call(layer, symbols | {name: scaled})
    # The scaled input is an output as well: UniformScorer passes no gradient to it.
    model = keras.Model(flat_data(symbols), (*outputs, scaled))
    model.compile("sgd", ("mse",) * len(model.outputs), jit_compile=True)
    before = [np.array(weight) for weight in model.trainable_weights]

    def batches():
        for sizes in SIZES:
            data, random = flat_data(row.data(sizes, masks=True)), np.random.RandomState(1)
            shapes = [output.shape for output in model(data)]
            yield data, tuple(random.randn(*shape).astype("float32") for shape in shapes)

    steps = len(SIZES)
    history = model.fit(batches(), steps_per_epoch=steps, shuffle=False, verbose=0)
    assert np.isfinite(history.history["loss"][0])
    for old, weight in zip(before, model.trainable_weights, strict=True):
        assert not np.array_equal(old, np.array(weight)), weight.path
