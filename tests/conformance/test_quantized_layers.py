"""What `model.quantize` and `enable_lora` leave of the numbers: those of the layers inside."""

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
#: By how much of the largest logit the rounding of all weights may move one.
MOVES = {"int8": 0.01, "int4": 0.2}


@pytest.mark.filterwarnings("ignore:.*does not have a `quantize` method:UserWarning")
@pytest.mark.parametrize("mode", ["int8", pytest.param("int4", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", DECODERS)
def test_quantized_logits_are_near_the_exact_ones_and_survive_files(tmp_path, name, mode):
    set_seed(1)
    decoder = DECODERS[name]()
    inputs = keras.Input((None,), dtype="int32"), keras.Input((None, M))
    model = keras.Model(inputs, decoder(*inputs))
    exact = np.array(decoder(IDS, MEMORY))
    model.quantize(mode)
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
