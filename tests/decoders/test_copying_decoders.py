"""What both decoders that copy have in common: steps, searches and learning."""

import keras
import numpy as np
import pytest
from copying_toys import (
    COPY_IDS,
    COPYING,
    DECODERS,
    IDS,
    MASK,
    MEMORY,
    B,
    M,
    S,
    V,
    make_copying_layer,
)
from keras import ops

from keras_attention import TokenCrossentropy, beam_search, greedy_search, score_sequences
from keras_attention.decoders import check_decoder

pytestmark = [pytest.mark.thorough, pytest.mark.parametrize("copying", COPYING)]


class WithCopyIds:
    """The layer with its `copy_ids`, and none at the columns that `check_decoder` appends."""

    compute_dtype = "float32"

    def __init__(self, layer):
        self.start, self.step, self._layer = layer.start, layer.step, layer

    def prepare(self, encoder_outputs, memory_mask=None):
        more = encoder_outputs.shape[1] - S
        copy_ids = ops.pad(ops.array(COPY_IDS), [(0, 0), (0, more)], constant_values=V)
        return self._layer.prepare(encoder_outputs, memory_mask, copy_ids)

    def __call__(self, target_ids, encoder_outputs, memory_mask=None):
        return self._layer(target_ids, encoder_outputs, COPY_IDS, memory_mask=memory_mask)


@pytest.mark.parametrize("kind", DECODERS)
def test_steps_equal_the_full_call(copying, kind):
    layer = make_copying_layer(copying, kind)
    check_decoder(WithCopyIds(layer), IDS, ops.array(MEMORY), ops.array(MASK))


@pytest.mark.parametrize("kind", ["bahdanau", "transformer"])
def test_searches_copy(copying, kind):
    layer = make_copying_layer(copying, kind)
    memory = layer.prepare(ops.array(MEMORY), ops.array(MASK), ops.array(COPY_IDS))
    state = layer.start(memory, max_length=6)
    found = beam_search(layer.step, state, memory, beam_width=4, max_length=6)
    ids = np.array(found["ids"])
    for beam in range(4):
        one = score_sequences(layer.step, state, memory, ops.array(ids[:, beam]))
        np.testing.assert_allclose(
            np.array(one["log_probs"]), np.array(found["log_probs"])[:, beam], rtol=1e-4, atol=1e-4
        )
    greedy = np.array(greedy_search(layer.step, state, memory, max_length=6)["ids"])
    assert (ids >= V).any() or (greedy >= V).any()
    assert (greedy[2] < V).all() and (ids[2] < V).all(), "nothing to copy"
    inputs = np.concatenate([np.full((B, 1), 2), greedy[:, :-1]], axis=1)
    full = np.array(layer(inputs, MEMORY, COPY_IDS, memory_mask=MASK))
    full[..., [0, 2]] = -np.inf  # a search produces neither padding nor BOS
    full = full.argmax(-1)
    length = int(np.argmax(greedy[0] == 3)) + 1 if (greedy[0] == 3).any() else 6
    np.testing.assert_array_equal(full[0, :length], greedy[0, :length])


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_it_learns_to_copy_beside_padding_of_nan(copying, policy):
    layer = make_copying_layer(copying, dtype=policy)
    ids, states = keras.Input([None], dtype="int32"), keras.Input([None, M])
    copy_ids, mask = keras.Input([None], dtype="int32"), keras.Input([None], dtype="bool")
    logits = layer(ids, states, copy_ids, memory_mask=mask)
    model = keras.Model([ids, states, copy_ids, mask], logits)
    model.compile(keras.optimizers.Adam(0.05), TokenCrossentropy(), jit_compile=True)
    labels = np.array([[13, 14, 9, 15, 3], [6, 13, 3, 0, 0], [3, 0, 0, 0, 0]])
    given = [IDS, np.where(MASK[..., None], MEMORY, np.nan), COPY_IDS, MASK]
    losses = model.fit(given, labels, epochs=12, batch_size=B, verbose=0).history["loss"]
    assert np.isfinite(losses).all() and losses[-1] < losses[0] / 2
    assert all(np.isfinite(np.array(weight)).all() for weight in model.weights)
