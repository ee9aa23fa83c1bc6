"""What `model.quantize` and `enable_lora` leave of the numbers, and of the bytes."""

import keras
import numpy as np
import pytest
from seeds import set_seed

import keras_attention as ka

B, T, S, V, D, M = 3, 5, 7, 31, 8, 6
IDS = np.random.RandomState(0).randint(1, V, (B, T)).astype("int32")
MEMORY = np.random.RandomState(1).randn(B, S, M).astype("float32")

DECODERS = {
    "tied": lambda: ka.TransformerDecoder(V, D, 2, 2, dropout=0.0),
    "untied": lambda: ka.TransformerDecoder(V, D, 2, 2, dropout=0.0, tie_output=False),
    "bahdanau": lambda: ka.BahdanauDecoder(V, D, M),
    "luong": lambda: ka.LuongDecoder(V, D, M),
    "conv": lambda: ka.ConvDecoder(V, D, [(D, 3)], source_embeddings=False),
    "shared": lambda: ka.TransformerDecoder(
        V, D, 1, 2, dropout=0.0, embedding=keras.layers.Embedding(V, D)
    ),
}
#: By how much of the largest logit the rounding of the tables may move one.
TABLES_MOVE = {"int8": 0.01, "int4": 0.2}
#: The same of all weights, and of what the projections read. Each rounds to 1/127 of the largest
#: number of its column or row, or to 1/7 in int4.
MOVES = {"int8": 0.02, "int4": 0.25}
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have a `quantize` method:UserWarning"),
    pytest.mark.usefixtures("frozen_heap"),
    pytest.mark.thorough,
]


def make_model(name):
    """Returns a decoder and a model of it."""
    set_seed(1)
    decoder = DECODERS[name]()
    inputs = keras.Input((None,), dtype="int32"), keras.Input((None, M))
    return decoder, keras.Model(inputs, decoder(*inputs))


def list_layers(layer):
    """Returns all layers inside, in their order."""
    return list(layer._flatten_layers(include_self=False))


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("name", DECODERS)
def test_quantized_tables_move_logits_little(name, mode):
    decoder, _ = make_model(name)
    exact = np.array(decoder(IDS, MEMORY))
    tables = [one for one in list_layers(decoder) if isinstance(one, keras.layers.Embedding)]
    assert tables
    for table in {id(one): one for one in tables}.values():
        table.quantize(mode)
    rounded = np.array(decoder(IDS, MEMORY))
    assert 0 < np.abs(rounded - exact).max() < TABLES_MOVE[mode] * np.abs(exact).max()


def round_matrix(weight, axis):
    """Returns the numbers that int8 keeps of a matrix, with a scale along `axis`."""
    scale = 127 / np.maximum(np.abs(weight).max(axis=axis, keepdims=True), 1e-7)
    return np.clip(np.round(weight * scale), -127, 127) / scale


@pytest.mark.parametrize("name", DECODERS)
def test_quantized_weights_are_those_rounded_by_hand(name):
    """Where the inputs stay float, the model is the float model with the rounded weights."""
    (quantized, model), (by_hand, _) = make_model(name), make_model(name)
    model.quantize(
        "int8", config=keras.quantizers.Int8QuantizationConfig(activation_quantizer=None)
    )
    done = set()
    for layer, other in zip(list_layers(by_hand), list_layers(quantized), strict=True):
        if other.quantization_mode is None or id(layer) in done:
            continue
        done.add(id(layer))
        is_table = isinstance(layer, keras.layers.Embedding)
        for weight in layer._trainable_variables:
            if len(weight.shape) > 1 and weight.shape[-1] > 1:
                axis = -1 if is_table else tuple(range(len(weight.shape) - 1))
                weight.assign(round_matrix(np.array(weight), axis))
    assert done
    expected = np.array(by_hand(IDS, MEMORY))
    close = 1e-4 * np.abs(expected).max()
    np.testing.assert_allclose(quantized(IDS, MEMORY), expected, atol=close)


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("name", DECODERS)
def test_quantized_logits_are_near_the_exact_ones_and_survive_files(tmp_path, name, mode):
    decoder, model = make_model(name)
    exact = np.array(decoder(IDS, MEMORY))
    model.quantize(mode)
    if mode == "int8" and name != "luong":  # Keras does not quantize its recurrent cells
        assert measure_int8_fraction(model) > 0.95
    rounded = np.array(decoder(IDS, MEMORY))
    assert np.abs(rounded - exact).max() < MOVES[mode] * np.abs(exact).max()
    memory = decoder.prepare(keras.ops.convert_to_tensor(MEMORY))
    logits, state, _ = decoder.step(IDS[:, 0], decoder.start(memory, max_length=T), memory)
    np.testing.assert_allclose(logits, rounded[:, 0], atol=1e-4)
    for file in ("model.keras", "again.keras"):  # a model from a file is saved as well
        model.save(tmp_path / file)
        again = keras.saving.load_model(tmp_path / file)
        np.testing.assert_array_equal(again([IDS, MEMORY]), rounded)
        assert sum(map(_count_bytes, again.weights)) == sum(map(_count_bytes, model.weights))
        model = again


def _count_bytes(weight):
    return np.array(weight).nbytes


def measure_int8_fraction(model):
    """Returns the fraction of the numbers of the kernels and tables that int8 holds."""
    sizes = {weight.path: np.prod(weight.shape) for weight in model.weights}
    matrices = [w for w in model.weights if len(w.shape) > 1 and w.shape[-1] > 1]
    kernels = [weight for weight in matrices if "scale" not in weight.name]
    int8 = sum(sizes[weight.path] for weight in kernels if weight.dtype == "int8")
    return int8 / sum(sizes[weight.path] for weight in kernels)


def test_sublayers_of_every_kind_are_quantized_in_the_file(tmp_path):
    """A recurrence of Keras' cells, a memory network and a machine with a dense controller."""
    story, question = keras.Input((5, 7), dtype="int32"), keras.Input((5,), dtype="int32")
    sequence = keras.Input((None, M))
    machine = ka.NTM(ka.NTMCell(3, 7, 5, keras.layers.Dense(11, "tanh")))
    pooled = ka.HierarchicalAttention(5)(keras.ops.expand_dims(sequence, 1))
    outputs = ka.MemoryHops(V, 5)(story, question), machine(sequence), pooled
    model = keras.Model([story, question, sequence], outputs)
    machine.cell.controller.quantize("int8")
    data = np.ones((B, 5, 7), "int32"), np.ones((B, 5), "int32"), MEMORY
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    for one, other in zip(again(data), model(data), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("mode", MOVES)
def test_tied_logits_are_products_with_the_rows_that_the_table_gives(mode):
    set_seed(1)
    table = keras.layers.Embedding(V, D)
    layer = ka.TransformerEmbedding(V, D, embedding=table)
    layer.build((None, None))
    table.quantize(mode)
    table.enable_lora(2)
    table.lora_embeddings_b.assign(np.random.randn(2, D))
    states = np.random.randn(B, D).astype("float32")
    expected = states @ np.array(table(np.arange(V))).T
    np.testing.assert_allclose(layer.project(states), expected, atol=1e-5)


def test_a_machine_runs_with_a_quantized_controller():
    set_seed(1)
    machine = ka.NTM(ka.NTMCell(3, 7, 5, keras.layers.Dense(11, "tanh")))
    exact = np.array(machine(MEMORY))
    machine.cell.controller.quantize("int8")
    np.testing.assert_allclose(machine(MEMORY), exact, atol=0.01)


# The matrices that layers of the library own.

OWNERS = {
    "gru": lambda: ka.BahdanauGRU(D, return_sequences=True),
    "both": lambda: keras.layers.Bidirectional(ka.BahdanauGRU(D, return_sequences=True)),
    "rnn": lambda: keras.layers.RNN(ka.ChoGRUCell(D), return_sequences=True),
    "normalized": lambda: ka.WeightNormalizedDense(D),
    "positions": lambda: ka.LearnedPositionalEmbedding(S),
    "block": lambda: ka.GatedConvBlock(D, 3),
    "pooling": lambda: ka.AttentionPooling(D),
    "encoder": lambda: ka.TransformerEncoderLayer(2, 16),
}


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("name", OWNERS)
def test_the_matrices_of_a_layer_become_int8_and_survive_files(tmp_path, name, dtype):
    set_seed(1)
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(dtype)
    try:
        inputs = keras.Input((None, M))
        model = keras.Model(inputs, OWNERS[name]()(inputs))
    finally:
        keras.config.set_dtype_policy(before)
    exact, count = np.array(model(MEMORY), "float32"), len(model.trainable_weights)
    if name == "pooling":  # `model.quantize` passes over layers with a layer inside
        model.layers[-1].quantize("int8")
    model.quantize("int8")
    assert measure_int8_fraction(model) > 0.95 and len(model.trainable_weights) < count
    rounded = np.array(model(MEMORY), "float32")
    close = {"float32": 0.02, "mixed_bfloat16": 0.04}[dtype] * np.abs(exact).max()
    np.testing.assert_allclose(rounded, exact, atol=close)
    assert np.any(rounded != exact) and model(MEMORY).dtype == model.compute_dtype
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert measure_int8_fraction(again) > 0.95
    np.testing.assert_array_equal(np.array(again(MEMORY), "float32"), rounded)


def test_a_quantized_matrix_is_rounded_to_steps_of_its_column():
    scorer = ka.GeneralScorer()
    scorer.build((None, None, 3), (None, None, 2))
    scorer.kernel.assign([[1.27, -3.0], [0.504, 0.0], [-0.006, 0.02]])
    scorer.quantize("int8")
    np.testing.assert_array_equal(scorer._kernel, [[127, -127], [50, 0], [-1, 1]])
    np.testing.assert_allclose(scorer.kernel_scale, [[100, 127 / 3]], rtol=1e-5)
    expected = [[1.27, -3.0], [0.5, 0.0], [-0.01, 3 / 127]]
    np.testing.assert_allclose(scorer.kernel, expected, rtol=1e-5)
    scores = scorer(np.array([[[1.0, 1.0, 1.0]]]), np.array([[[1.0, 2.0]]]))
    np.testing.assert_allclose(scores, [[[np.dot(np.sum(expected, 0), [1, 2])]]], rtol=1e-5)
    with pytest.raises(AttributeError, match="'GeneralScorer' object has no attribute 'kernels'"):
        scorer.kernels  # noqa: B018


@pytest.mark.parametrize("name", ["tied", "bahdanau"])
def test_a_second_quantization_is_refused_and_changes_nothing(name):
    decoder, model = make_model(name)
    model.quantize("int8")
    rounded = np.array(decoder(IDS, MEMORY))
    with pytest.raises(ValueError, match="already quantized|can be quantized once"):
        model.quantize("int8")
    np.testing.assert_array_equal(decoder(IDS, MEMORY), rounded)


def test_what_a_layer_cannot_do_is_refused():
    cell, dropout = ka.BahdanauGRUCell(D), ka.CounterDropout(0.1)
    with pytest.raises(ValueError, match="isn't yet built"):
        cell.quantize("int8")
    cell.build((None, M))
    dropout.build((None, M))
    for layer, mode in ((cell, "float8"), (cell, "int4"), (dropout, "int8")):
        with pytest.raises(NotImplementedError, match="does not have a `quantize` method"):
            layer.quantize(mode)
    cell.quantize("int8")
    with pytest.raises(ValueError, match="BahdanauGRUCell can be quantized once"):
        cell.quantize("int8")


@pytest.mark.thorough
def test_projections_train_in_float8():
    set_seed(1)
    inputs = keras.Input((None, M))
    model = keras.Model(inputs, ka.TransformerEncoderLayer(2, 16, dropout=0.0)(inputs))
    exact = np.array(model(MEMORY))
    model.quantize("float8")
    assert model.layers[1].attention.query_dense.quantization_mode == "float8"
    np.testing.assert_allclose(model(MEMORY), exact, atol=0.1 * np.abs(exact).max())
    model.compile(keras.optimizers.Adam(0.01), "mse")
    losses = model.fit(MEMORY, MEMORY[::-1], epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


@pytest.mark.thorough
@pytest.mark.parametrize("mode", [None, "int8"])
def test_lora_trains_updates_of_the_projections_alone_and_files_hold_the_sums(tmp_path, mode):
    set_seed(1)
    inputs = keras.Input((None, M))
    model = keras.Model(inputs, ka.TransformerEncoderLayer(2, 16, dropout=0.0)(inputs))
    layer = model.layers[1]
    if mode:
        model.quantize(mode)
    exact = np.array(model(MEMORY))
    layer.enable_lora(2)
    names = {weight.name for weight in model.trainable_weights}
    assert names == {"lora_kernel_a", "lora_kernel_b"} and len(model.trainable_weights) == 2 * 6
    shapes = [tuple(weight.shape) for weight in layer.attention.query_dense.trainable_weights]
    assert shapes == [(M, 2), (2, M)]
    np.testing.assert_allclose(model(MEMORY), exact, atol=1e-6)
    frozen = [np.array(weight) for weight in model.non_trainable_weights]
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.fit(MEMORY, MEMORY[::-1], epochs=3, verbose=0)
    for weight, value in zip(model.non_trainable_weights, frozen, strict=True):
        np.testing.assert_array_equal(weight, value)
    trained = np.array(model(MEMORY))
    assert np.abs(trained - exact).max() > 0.01
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert len(again.trainable_weights) == len(model.trainable_weights)
    assert not np.any(again.layers[1].attention.query_dense.lora_kernel_b)
    close = 0.02 * np.abs(trained).max() if mode else 1e-5  # sums of int8 kernels are rounded again
    np.testing.assert_allclose(again(MEMORY), trained, atol=close)


def test_lora_of_a_part_with_a_rank_of_its_own_survives_a_file(tmp_path):
    inputs = keras.Input((None, M))
    model = keras.Model(inputs, ka.TransformerEncoderLayer(2, 16, dropout=0.0)(inputs))
    model.layers[1].attention.enable_lora(3)
    model.layers[1].enable_lora(2)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    shapes = [weight.shape for weight in model.trainable_weights]
    assert [weight.shape for weight in again.trainable_weights] == shapes
    assert {shape[-1] for shape in shapes} >= {2, 3}


def test_lora_needs_a_rank_and_projections():
    layer = ka.TransformerEncoderLayer(2, 16)
    layer.build((None, None, M))
    with pytest.raises(ValueError, match="enable_lora expects `rank` to be a positive int"):
        layer.enable_lora(0)
    gru = ka.BahdanauGRU(D)
    gru.build((None, None, M))
    with pytest.raises(ValueError, match="BahdanauGRU has no `Dense` or `Embedding` inside"):
        gru.enable_lora(2)
