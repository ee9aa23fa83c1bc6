"""The base of all decoders, by a decoder of one's own."""

import inspect

import keras
import numpy as np
import pytest
from keras import ops

import keras_attention
from keras_attention import Decoder
from keras_attention.decoders import check_decoder

BATCH, TARGET, SOURCE, DIM, VOCABULARY = 3, 5, 7, 4, 11
CONCRETE = [
    keras_attention.BahdanauDecoder,
    keras_attention.ConvDecoder,
    keras_attention.KeyValueDecoder,
    keras_attention.LuongDecoder,
    keras_attention.Seq2SeqDecoder,
    keras_attention.ShowAttendTellDecoder,
    keras_attention.ShowTellDecoder,
    keras_attention.ChoDecoder,
    keras_attention.TransformerDecoder,
]


@keras.saving.register_keras_serializable(package="tests")
class CountingDecoder(Decoder):
    """Sums the ids so far, reads the kept source evenly and tells how many positions it kept."""

    auxiliary_outputs = ("kept",)

    def build_layers(self, target_ids_shape, encoder_outputs_shape):
        self.dense = keras.layers.Dense(self.vocabulary_size, dtype=self.dtype_policy)
        self.dense.build((*target_ids_shape, encoder_outputs_shape[-1] + 1))

    def prepare_memory(self, encoder_outputs, memory_mask):
        if memory_mask is None:
            memory_mask = ops.ones(ops.shape(encoder_outputs)[:2], dtype="bool")
        kept = ops.cast(memory_mask, self.compute_dtype)
        weights = kept / ops.maximum(ops.sum(kept, axis=1, keepdims=True), 1)
        values = ops.where(memory_mask[:, :, None], encoder_outputs, 0)
        context = ops.einsum("bs,bsd->bd", weights, ops.cast(values, self.compute_dtype))
        return {"weights": weights, "context": context}

    def start_state(self, memory, initial_state, max_length):
        return {"sum": ops.zeros((ops.shape(memory["weights"])[0],), self.compute_dtype)}

    def decode_step(self, ids, state, memory):
        total = state["sum"] + ops.cast(ids, self.compute_dtype) / 16
        beams = ops.shape(ids)[0] // ops.shape(memory["weights"])[0]
        context, weights = (ops.repeat(memory[name], beams, 0) for name in ("context", "weights"))
        return self._logits(total, context), {"sum": total}, weights

    def decode_sequence(
        self,
        target_ids,
        encoder_outputs,
        initial_state,
        memory_mask,
        training,
        return_attention_scores,
    ):
        memory = self.prepare(encoder_outputs, memory_mask)
        totals = ops.cumsum(ops.cast(target_ids, self.compute_dtype) / 16, axis=1)
        time = ops.shape(target_ids)[1]
        context, weights = (
            ops.repeat(memory[name][:, None], time, 1) for name in ("context", "weights")
        )
        kept = ops.sum(ops.cast(weights > 0, "float32"), axis=-1)
        return self._logits(totals, context), weights, {"kept": kept}

    def _logits(self, totals, context):
        return self.dense(ops.concatenate([totals[..., None], context], axis=-1))


def _data(seed=0):
    draw = np.random.default_rng(seed)
    ids = draw.integers(4, VOCABULARY, (BATCH, TARGET))
    memory = draw.normal(size=(BATCH, SOURCE, DIM)).astype("float32")
    mask = np.arange(SOURCE) < np.array([[7], [3], [5]])
    return ops.convert_to_tensor(ids, "int32"), ops.convert_to_tensor(memory), mask


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_a_decoder_of_ones_own_steps_as_it_calls(policy):
    ids, memory, mask = _data()
    decoder = CountingDecoder(VOCABULARY, dtype=policy)
    check_decoder(decoder, ids, memory, memory_mask=mask)
    prepared = decoder.prepare(memory)
    logits, state, alignment = decoder.step(ids[:, 0], decoder.start(prepared), prepared)
    dtypes = [keras.backend.standardize_dtype(x.dtype) for x in (logits, alignment, state["sum"])]
    assert dtypes == ["float32", "float32", decoder.compute_dtype]


def test_an_attached_mask_means_what_an_explicit_one_does_and_yields_to_it():
    ids, memory, mask = _data()
    decoder = CountingDecoder(VOCABULARY)
    explicit = decoder(ids, memory, memory_mask=ops.convert_to_tensor(mask))
    attached = keras.layers.Masking()(memory * ops.cast(mask[:, :, None], "float32"))
    np.testing.assert_array_equal(decoder(ids, attached), explicit)
    everything = ops.ones((BATCH, SOURCE), dtype="bool")
    won = decoder(ids, attached, memory_mask=everything)
    assert np.abs(won - explicit)[1:].max() > 1e-3


def test_a_functional_model_hands_on_masks_and_knows_all_shapes():
    ids, memory, mask = _data()
    source = keras.Input([None, DIM])
    target = keras.Input([None], dtype="int32")
    decoder = CountingDecoder(VOCABULARY, name="decoder")
    masked = keras.layers.Masking()(source)
    outputs = decoder(target, masked, return_attention_scores=True, return_auxiliary_outputs=True)
    shapes = [tuple(outputs[0].shape), tuple(outputs[1].shape), tuple(outputs[2]["kept"].shape)]
    assert shapes == [(None, None, VOCABULARY), (None, None, None), (None, None)]
    model = keras.Model([target, source], outputs)
    logits, alignment, auxiliary_outputs = model(
        [ids, memory * ops.cast(mask[:, :, None], "float32")]
    )
    assert logits.shape == (BATCH, TARGET, VOCABULARY)
    np.testing.assert_array_equal(np.asarray(alignment)[:, 0] > 0, mask)
    np.testing.assert_array_equal(
        auxiliary_outputs["kept"], np.repeat(mask.sum(1)[:, None], TARGET, 1)
    )


def test_a_decoder_of_ones_own_is_saved_and_loaded(tmp_path):
    ids, memory, _ = _data()
    inputs = [keras.Input([None], dtype="int32"), keras.Input([None, DIM])]
    model = keras.Model(inputs, CountingDecoder(VOCABULARY, dropout=0.25, seed=5)(*inputs))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded([ids, memory]), model([ids, memory]))
    config = loaded.layers[-1].get_config()
    assert (config["vocabulary_size"], config["dropout"], config["seed"]) == (VOCABULARY, 0.25, 5)


def _call_with(ids, memory, mask=None):
    return lambda decoder: decoder(ids, memory, memory_mask=mask)


BAD = [
    (_call_with(np.ones((3,), "int32"), np.ones((3, 7, 4))), r"`target_ids` of shape \(batch, ta"),
    (_call_with(np.ones((3, 5), "int32"), np.ones((3, 4))), "`encoder_outputs` of shape"),
    (_call_with(np.ones((2, 5), "int32"), np.ones((3, 7, 4))), "same size on axis 0"),
    (_call_with(np.full((3, 5), 11), np.ones((3, 7, 4))), "between 0 and 10.*with 11"),
    (_call_with(np.ones((3, 5), "int32"), np.ones((3, 7, 6))), "width 4. .*Received: .*7, 6"),
    (
        _call_with(np.ones((3, 5), "int32"), np.ones((3, 7, 4)), np.ones((3, 6), "bool")),
        r"`memory_mask` of shape \(batch, source\)",
    ),
    (lambda decoder: decoder.prepare(keras.KerasTensor((3, 7, 4))), "not on symbolic tensors"),
    (lambda decoder: decoder.start({"weights": keras.KerasTensor((3, 7))}), "not on symbolic"),
    (lambda decoder: decoder.step(np.ones((3, 1), "int32"), {}, {}), r"rank 1, \(rows,\)"),
    (lambda decoder: decoder.step(np.array([11]), {}, {}), "`ids` between 0 and 10.*with 11"),
]


@pytest.mark.parametrize(("act", "message"), BAD)
def test_the_base_refuses_what_does_not_fit(act, message):
    decoder = CountingDecoder(VOCABULARY)
    decoder.build((None, None), (None, None, DIM))
    with pytest.raises(ValueError, match=f"CountingDecoder.*{message}"):
        act(decoder)


def test_the_base_refuses_bad_arguments():
    with pytest.raises(ValueError, match="CountingDecoder .* at least 4. .*vocabulary_size=3"):
        CountingDecoder(3)
    with pytest.raises(ValueError, match=r"CountingDecoder .*\[0, 1\).*dropout=1"):
        CountingDecoder(VOCABULARY, dropout=1)


@pytest.mark.parametrize("decoder", CONCRETE)
def test_no_decoder_goes_around_the_checks(decoder):
    for name in ("prepare", "start", "step", "call", "compute_output_spec"):
        method = inspect.unwrap(getattr(decoder, name))
        assert method.__qualname__ == f"Decoder.{name}"
