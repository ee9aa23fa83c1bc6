"""Every layer made under `keras.RematScope`: the gradients are those of the layer without it."""

import keras
import numpy as np
import pytest
from backends import compile_call, gradients, tensorflow_only
from layer_rows import arrays
from layer_table import TABLE
from tf_or_skip import tf

#: Rows that call a layer of Keras with keywords, which Keras' own layers cannot under
#: `RematScope` in a graph; `test_keras_refuses_its_own_layers` tells when this has changed.
KERAS_LAYERS = (
    "HierarchicalAttention",
    "AttentionRNN",
    "NTM-gru",
    "NTMCell",
    "SkipFirstUpdate",
    "ContextAddCell",
    "AttentionalVectorCell",
    "ContextInputCell",
    "LuongDecoder",
    "ScheduledSampling",
    "Seq2SeqDecoder",
    "ShowAttendTellDecoder",
    "ShowTellDecoder",
)
#: Compiling is dear. FAST run in `make test`, the others with a gradient of their own in
#: `make test-thorough`; the rest, whose recomputation is that of Keras, in `make test-slow`.
FAST = ("BahdanauAttention", "BahdanauGRU")
CUSTOM = (*FAST, "BahdanauDecoder", "EntmaxNormalizer", "LSTMN", "NTM", "ReverseTokens")


def _marks(row, xla):
    if str(row) not in CUSTOM:
        return [pytest.mark.slow] if xla else [tensorflow_only, pytest.mark.slow]
    if xla:
        return [pytest.mark.thorough]
    return [tensorflow_only, *([] if str(row) in FAST else [pytest.mark.thorough])]


ROWS = [row for row in TABLE if str(row) not in KERAS_LAYERS]
CASES = [
    pytest.param(row, xla, id=f"{row}-{'xla' if xla else 'graph'}", marks=_marks(row, xla))
    for row in ROWS
    for xla in (False, True)
]


@pytest.mark.thorough
@pytest.mark.parametrize(("row", "xla"), CASES)
def test_gradients_are_those_without_recomputation(row, xla):
    plain, data = row.built(), row.data(masks=True)
    with keras.RematScope(mode="full"):
        layer = row.build_new()
    layer.set_weights(plain.get_weights())
    results = []
    for one in (plain, layer):
        run = compile_call(row, one, lambda data, one=one: gradients(row, one, data), xla)
        results.append(arrays(run(data)))
    for one, other in zip(*results, strict=True):
        scale = max(1.0, np.abs(other).max())
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * scale)


@tensorflow_only
def test_keras_refuses_its_own_layers():
    with keras.RematScope(mode="full"):
        layer = keras.layers.Dropout(0.5)
    layer(keras.ops.ones((2, 3)))
    with pytest.raises(ValueError, match="supports keywords arguments only when eager"):
        tf.function(layer)(keras.ops.ones((2, 3)), training=True)
