import keras
import numpy as np
import pytest
from keras import ops

from keras_attention.decoders import check_decoder

IDS = np.array([[2, 5, 4, 6, 4, 7, 5], [2, 6, 6, 4, 0, 0, 0], [2, 7, 4, 5, 6, 0, 0]])
MASK = np.array([[True] * 5, [True] * 3 + [False] * 2, [True] * 4 + [False]])


@keras.saving.register_keras_serializable(package="decoding_tests")
class SumDecoder(keras.layers.Layer):
    """Attends with a running sum of embeddings: a small decoder written twice, rightly.

    `fault` names one way to get it wrong.
    """

    def __init__(self, fault=None, **kwargs):
        super().__init__(**kwargs)
        self.fault = fault

    def build(self, target_ids_shape, encoder_outputs_shape=None):
        draw = keras.initializers.RandomNormal(seed=keras.random.SeedGenerator(1))
        self.embeddings = self.add_weight(shape=(11, 3), initializer=draw)
        self.projection = self.add_weight(shape=(3, 11), initializer=draw)
        self.built = True

    def prepare(self, encoder_outputs, memory_mask=None):
        values = ops.cast(encoder_outputs, self.compute_dtype)
        if memory_mask is None or self.fault == "reads padding":
            memory_mask = ops.ones_like(values[..., 0], dtype="bool")
        return {"values": values, "mask": memory_mask}

    def start(self, memory, initial_state=None, max_length=None):
        sums = ops.zeros_like(memory["values"][:, 0])
        if initial_state is not None:
            sums = sums + ops.cast(initial_state, self.compute_dtype)
        return {"sums": sums}

    def step(self, ids, state, memory):
        embeddings = ops.cast(self.embeddings, self.compute_dtype)
        sums = state["sums"] + ops.take(embeddings, ids, axis=0)
        values, mask = memory["values"], memory["mask"]
        batch, _, dim = values.shape
        query = ops.reshape(sums, (batch, -1, dim))
        logits, weights = self._read(query, values, mask)
        if self.fault == "ignores state":
            sums = ops.zeros_like(sums)
        if self.fault == "shares beams":
            sums = ops.repeat(ops.reshape(sums, (batch, -1, dim))[:, 0], len(ids) // batch, axis=0)
        if self.fault == "weights":
            weights = weights * 2.0
        logits = ops.reshape(logits, (-1, 11))
        if self.fault == "dtype":
            logits = ops.cast(logits, "float16")
        return logits, {"sums": sums}, ops.reshape(weights, (-1, values.shape[1]))

    def call(self, target_ids, encoder_outputs, initial_state=None, memory_mask=None):
        memory = self.prepare(encoder_outputs, memory_mask)
        state = self.start(memory, initial_state)["sums"]
        embeddings = ops.cast(self.embeddings, self.compute_dtype)
        sums = ops.cumsum(ops.take(embeddings, target_ids, axis=0), axis=1) + state[:, None]
        return self._read(sums, memory["values"], memory["mask"])[0]

    def _read(self, query, values, mask):
        scores = ops.cast(ops.einsum("bqd,bkd->bqk", query, values), "float32")
        weights = ops.softmax(ops.where(mask[:, None], scores, -1e9))
        weights = weights * ops.cast(mask[:, None], "float32")
        context = ops.einsum("bqk,bkd->bqd", ops.cast(weights, self.compute_dtype), values)
        projection = ops.cast(self.projection, self.compute_dtype)
        return ops.cast(ops.einsum("bqd,dv->bqv", context + query, projection), "float32"), weights


def encoder_outputs(seed=0):
    return ops.array(np.random.default_rng(seed).normal(size=(3, 5, 3)).astype("float32"))


@pytest.mark.parametrize("masks", [{}, {"memory_mask": ops.array(MASK)}, {"memory_mask": MASK}])
@pytest.mark.parametrize("states", [{}, {"initial_state": np.ones((3, 3), "float32")}])
def test_a_right_decoder_passes(masks, states):
    difference = check_decoder(SumDecoder(), IDS, encoder_outputs(), **masks, **states)
    assert 0.0 <= difference < 1e-6


@pytest.mark.parametrize("dtype", ["bfloat16", "mixed_bfloat16", "mixed_float16"])
def test_a_right_decoder_passes_in_low_precision(dtype):
    assert check_decoder(SumDecoder(dtype=dtype), IDS, encoder_outputs(), ops.array(MASK)) < 2e-2


@pytest.mark.parametrize(
    "fault, text",
    [
        ("ignores state", "`step` differs from the full call.*worst in batch element"),
        ("shares beams", "`step` differs from the full call.*worst in batch element"),
        ("reads padding", "0 where `memory_mask` is False"),
        ("weights", "alignments of at least 0 that sum to at most 1.*largest sum 2"),
        ("dtype", "logits of `step` in float32 under every dtype policy. Received: float16"),
    ],
)
def test_each_fault_is_found(fault, text):
    with pytest.raises(AssertionError, match=text):
        check_decoder(SumDecoder(fault=fault), IDS, encoder_outputs(), ops.array(MASK))


def test_a_difference_above_the_tolerance_is_found():
    class Shifted(SumDecoder):
        def step(self, ids, state, memory):
            logits, state, alignment = super().step(ids, state, memory)
            return logits + 1e-4, state, alignment

    with pytest.raises(AssertionError, match="differs from the full call by 0.0001"):
        check_decoder(Shifted(), IDS, encoder_outputs())
    assert check_decoder(Shifted(), IDS, encoder_outputs(), tolerance=1e-3) > 5e-5


def test_arguments_are_checked():
    decoder, outputs = SumDecoder(), encoder_outputs()
    with pytest.raises(ValueError, match="expects a decoder with `prepare`, `start`, `step`"):
        check_decoder(keras.layers.Dense(3), IDS, outputs)
    with pytest.raises(ValueError, match=r"two columns of `target_ids`.*shape=\(3, 1\)"):
        check_decoder(decoder, IDS[:, :1], outputs)
    with pytest.raises(ValueError, match="`target_ids` and `encoder_outputs` to have the same"):
        check_decoder(decoder, IDS[:2], outputs)
    with pytest.raises(ValueError, match="`memory_mask` to be boolean"):
        check_decoder(decoder, IDS, outputs, ops.ones((3, 5)))
    with pytest.raises(ValueError, match="ids that are not all padding"):
        check_decoder(decoder, np.zeros((3, 4), "int32"), outputs)
