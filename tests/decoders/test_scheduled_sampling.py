"""Scheduled sampling: its two ends, its coins, its draws, no gradient through either, decoding."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import (
    BahdanauDecoder,
    ConvDecoder,
    HardAttention,
    InverseSigmoidDecay,
    LinearDecay,
    LuongDecoder,
    ScheduledSampling,
    TransformerDecoder,
)
from keras_attention.decoders import check_decoder
from keras_attention.decoders.scheduled_sampling import sample_ids
from keras_attention.search import greedy_search

B, T, S, M, V = 3, 5, 7, 11, 13
IDS = np.array([[2, 5, 4, 7, 12], [2, 6, 1, 0, 0], [2, 11, 3, 9, 0]])
MASK = np.arange(S) < np.array([[7], [3], [5]])
MEMORY = np.random.RandomState(1).randn(B, S, M).astype("float32")
ARGUMENTS = {"encoder_outputs": MEMORY, "memory_mask": MASK}
DECODERS = {
    "bahdanau": lambda **o: BahdanauDecoder(V, 4, 8, **o),
    "luong": lambda **o: LuongDecoder(V, 4, 8, num_layers=2, **o),
    "luong-parallel": lambda **o: LuongDecoder(V, 4, 8, input_feeding=False, **o),
    "transformer": lambda **o: TransformerDecoder(V, 8, 1, 2, window=3, **o),
    "convolutional": lambda **o: ConvDecoder(V, 4, [(6, 3)], source_embeddings=False, **o),
}


def _layer(schedule, kind="luong", dropout=0.0, **options):
    set_seed(1)
    layer = ScheduledSampling(DECODERS[kind](dropout=dropout, seed=1), schedule, **options)
    layer.build(IDS.shape, MEMORY.shape)
    for weight in layer.trainable_weights:  # large logits, so that choices are clear
        weight.assign(3.0 * weight)
    return layer


def _free_running(layer, initial_state=None):
    """Returns the logits of greedy steps that never stop."""
    memory = layer.prepare(MEMORY, memory_mask=MASK)
    state = layer.start(memory, initial_state)
    ids, logits = tf.constant(IDS[:, 0], "int32"), []
    for _ in range(T):
        one, state, _ = layer.step(ids, state, memory)
        ids = tf.argmax(one, axis=-1, output_type="int32")
        logits.append(np.array(one))
    return np.stack(logits, axis=1)


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("choice", ["sample", "argmax"])
def test_with_every_token_true_it_is_teacher_forcing_exactly(kind, choice):
    layer = _layer(1.0, kind, dropout=0.3, choice=choice)
    seeds = [v for v in layer.decoder.non_trainable_variables if "seed" in v.path]
    before = [np.array(seed) for seed in seeds]
    assert seeds

    def run(called):
        for seed, value in zip(seeds, before, strict=True):
            seed.assign(value)
        with tf.GradientTape() as tape:
            logits = called(IDS, **ARGUMENTS, training=True)
            cost = tf.reduce_mean(logits**2)
        return [logits, *tape.gradient(cost, [w.value for w in layer.trainable_variables])]

    for one, other in zip(run(layer), run(layer.decoder), strict=True):
        one, other = (np.array(tf.convert_to_tensor(tensor)) for tensor in (one, other))
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", DECODERS)
def test_with_no_token_true_it_is_free_running(kind):
    layer = _layer(0.0, kind, choice="argmax")
    logits = layer(IDS, **ARGUMENTS, training=True)
    expected = _free_running(layer)
    # ConvS2S' logits reach 159 here, where float32 has steps of 1.5e-5.
    atol = max(1e-5, 1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(np.array(logits), expected, atol=atol)
    assert not np.array_equal(expected.argmax(-1)[:, :-1], IDS[:, 1:])


def test_predictions_are_those_of_decoding_whatever_training_adds():
    """No dropout, and the most probable location, though the full call has both at random."""

    class Recording(ScheduledSampling):
        def _mix_ids(self, *arguments):
            read.append(super()._mix_ids(*arguments))
            return read[-1]

    read, attention = [], HardAttention(4, seed=1)
    decoder = LuongDecoder(V, 4, 8, attention=attention, dropout=0.5, seed=1)
    layer = Recording(decoder, 0.0, choice="argmax")
    logits = [np.array(layer(IDS, **ARGUMENTS, training=True)) for _ in range(2)]
    assert not np.array_equal(*logits), "the call itself is random"
    expected = _free_running(layer).argmax(-1)
    for ids in read:
        np.testing.assert_array_equal(np.array(ids)[:, 1:], expected[:, :-1])


class OwnDecoder(keras.layers.Layer):
    """The protocol and no more; it says what it reads, and one more."""

    def build(self, target_ids_shape, encoder_outputs_shape):
        self.built = True

    def prepare(self, encoder_outputs, memory_mask=None):
        return {"value": encoder_outputs}

    def start(self, memory, initial_state=None, max_length=None):
        return {"steps": keras.ops.zeros((keras.ops.shape(memory["value"])[0],), "int32")}

    def step(self, ids, state, memory):
        source = keras.ops.zeros(keras.ops.shape(memory["value"])[:2])
        return self.call(ids, None), {"steps": state["steps"] + 1}, source

    def call(self, target_ids, encoder_outputs):
        return keras.ops.one_hot(target_ids + 1, V, dtype="float32")

    def compute_output_shape(self, target_ids_shape, encoder_outputs_shape):
        return (*target_ids_shape, V)


def test_a_decoder_of_ones_own_needs_no_further_arguments():
    layer = ScheduledSampling(OwnDecoder(), 0.0, choice="argmax")
    memory = tf.constant(MEMORY)
    memory._keras_mask = tf.constant(MASK)
    assert np.array(layer(IDS, memory, training=True)).argmax(-1)[0].tolist() == [3, 4, 5, 6, 7]
    assert layer(keras.Input((None,), dtype="int32"), keras.Input((S, M))).shape == (None, None, V)


@pytest.mark.parametrize("training", [None, False])
def test_outside_of_training_it_is_the_decoder(training):
    layer = _layer(0.0, dropout=0.5)
    options = {"return_attention_scores": True, "return_auxiliary_outputs": True}
    results = layer(IDS, **ARGUMENTS, training=training, **options)
    expected = layer.decoder(IDS, **ARGUMENTS, training=False, **options)
    for one, other in zip(keras.tree.flatten(results), keras.tree.flatten(expected), strict=True):
        np.testing.assert_array_equal(np.array(one), np.array(other))
    assert int(layer.minibatches) == 0


def _read_mixed_ids(layer, rows=600, share=None):
    """Returns true ids, and what the decoder read in their place."""
    ids = np.tile(IDS, (rows // B, 1))
    encoded = np.tile(MEMORY, (rows // B, 1, 1))
    memory = layer.prepare(encoded)
    mixed = layer._mix_ids(tf.constant(ids), share, layer.start(memory), memory)
    return ids, np.array(mixed)


def test_each_position_tosses_its_own_coin_and_the_first_none():
    layer = _layer(0.5, seed=3)
    for weight in layer.decoder.logits.weights:
        weight.assign(tf.zeros_like(weight))
    layer.decoder.logits.bias.assign(100.0 * tf.one_hot(8, V))  # predicts 8, nowhere true
    ids, mixed = _read_mixed_ids(layer, share=0.7)
    replaced = mixed != ids
    assert np.all(mixed[replaced] == 8) and not replaced[:, 0].any()
    shares = replaced[:, 1:].mean(axis=0)
    assert np.abs(shares - 0.3).max() < 0.09
    pairs = np.corrcoef(replaced[:, 1:].T)[np.triu_indices(T - 1, 1)]
    assert np.abs(pairs).max() < 0.2, "a coin for the sentence would give 1"


def test_predictions_are_drawn_as_often_as_the_decoder_says():
    layer = _layer(0.0, seed=3)
    for weight in layer.decoder.logits.weights:
        weight.assign(tf.zeros_like(weight))
    shares = np.random.RandomState(4).dirichlet(np.ones(V))
    layer.decoder.logits.bias.assign(np.log(shares))
    _, mixed = _read_mixed_ids(layer, rows=900, share=0.0)
    found = np.bincount(mixed[:, 1:].ravel(), minlength=V) / mixed[:, 1:].size
    assert np.abs(found - shares).max() < 4.5 * 0.5 / np.sqrt(mixed[:, 1:].size)


def test_a_draw_is_the_inverse_of_the_cumulative_distribution():
    shares = np.array([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    logits = np.log(np.maximum(shares, 1e-38)).astype("float32") * np.ones((5, 1))
    draws = np.array([2**-24, 0.2499, 0.2501, 0.7499, 1 - 2**-24], "float32")
    ids = sample_ids(tf.constant(logits, "float32"), tf.constant(draws))
    assert np.array(ids).tolist() == [1, 1, 3, 3, 4]
    tie = sample_ids(tf.zeros((1, 2)), tf.constant([0.5]))
    assert np.array(tie).tolist() == [0], "the first that reaches the draw"


def test_no_gradient_passes_through_choice_or_token():
    """The same as calling the decoder with the mixed ids as constants."""
    layer = _layer(0.4, seed=3)
    _, state = layer(IDS, **ARGUMENTS, training=True), np.array(layer.seed_generator.state)
    with tf.GradientTape(persistent=True) as tape:
        logits = layer(IDS, **ARGUMENTS, training=True)
        layer.seed_generator.state.assign(state)
        memory = layer.prepare(MEMORY, MASK)
        mixed = layer._mix_ids(tf.constant(IDS), 0.4, layer.start(memory), memory)
        expected = layer.decoder(np.array(mixed), **ARGUMENTS)
        costs = [tf.reduce_mean(x**2) for x in (logits, expected)]
    assert not np.array_equal(np.array(mixed), IDS)
    variables = [w.value for w in layer.trainable_variables]
    for one, other in zip(*(tape.gradient(cost, variables) for cost in costs), strict=True):
        one, other = (np.array(tf.convert_to_tensor(tensor)) for tensor in (one, other))
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("schedule", "jit_compile"), [(InverseSigmoidDecay(20), True), (LinearDecay(0.1), False)]
)
def test_it_counts_minibatches_in_fit_and_in_a_file(schedule, jit_compile, tmp_path):
    layer = _layer(schedule, "luong-parallel", seed=3, name="decoder")
    ids, memory = keras.Input((None,), dtype="int32"), keras.Input((None, M))
    model = keras.Model([ids, memory], layer(ids, memory))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, jit_compile=jit_compile)

    model.fit([IDS, MEMORY], IDS, epochs=3, verbose=0)
    assert int(layer.minibatches) == 3
    expected = float(schedule(3))
    assert float(layer._teacher_forcing_rate()) == pytest.approx(expected)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras").get_layer("decoder")
    assert int(again.minibatches) == 3 and float(again._teacher_forcing_rate()) == pytest.approx(
        expected
    )
    np.testing.assert_array_equal(np.array(again(IDS, MEMORY)), np.array(layer(IDS, MEMORY)))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["luong", "transformer", "convolutional"])
def test_it_fits_over_three_shapes(kind):
    ids, memory = keras.Input((None,), dtype="int32"), keras.Input((None, M))
    model = keras.Model([ids, memory], _layer(0.5, kind, seed=3)(ids, memory))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, jit_compile=False)
    for length in (3, 5, 4):
        assert np.isfinite(model.train_on_batch([IDS[:, :length], MEMORY], IDS[:, :length]))


@pytest.mark.thorough
def test_it_is_traced_for_an_unknown_batch_and_length():
    eager, traced = (_layer(0.5, "transformer", choice="argmax", seed=3) for _ in range(2))
    signature = [tf.TensorSpec((None, None), "int32"), tf.TensorSpec((None, None, M))]
    call = tf.function(lambda ids, memory: traced(ids, memory, training=True), signature)
    ids = tf.constant(IDS, "int32")
    np.testing.assert_allclose(call(ids, MEMORY), eager(ids, MEMORY, training=True), atol=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", DECODERS)
def test_it_decodes_as_its_decoder_does(kind):
    layer = _layer(0.5, kind)
    assert check_decoder(layer, IDS, tf.constant(MEMORY), tf.constant(MASK)) <= 1e-5
    memory = layer.prepare(MEMORY, memory_mask=MASK)
    results = [
        greedy_search(one.step, one.start(memory), memory, max_length=6)["ids"]
        for one in (layer, layer.decoder)
    ]
    np.testing.assert_array_equal(*map(np.array, results))


def test_a_mask_attached_to_the_memory_is_read_in_training_too():
    layer = _layer(0.0, choice="argmax")
    memory = tf.constant(np.where(MASK[:, :, None], MEMORY, np.float32(50)))
    expected = layer(IDS, memory, memory_mask=MASK, training=True)
    assert not np.array_equal(np.array(expected), np.array(layer(IDS, memory, training=True)))
    memory._keras_mask = tf.constant(MASK)
    found = layer(IDS, memory, training=True)
    np.testing.assert_array_equal(np.array(found), np.array(expected))


@pytest.mark.parametrize("training", [False, True])
def test_the_mask_has_the_name_that_keras_gives_it_too(training):
    expected, found, unmasked = (
        _layer(0.5, choice="argmax")(IDS, MEMORY, training=training, **masks)
        for masks in ({"memory_mask": MASK}, {"encoder_outputs_mask": MASK}, {})
    )
    np.testing.assert_array_equal(np.array(found), np.array(expected))
    assert not np.array_equal(np.array(found), np.array(unmasked))


def test_details_of_hard_attention_pass():
    attention = HardAttention(4, expected_rate=0.0, seed=1)
    layer = ScheduledSampling(LuongDecoder(V, 4, 8, attention=attention), 0.5, seed=1)
    logits, auxiliary_outputs = layer(IDS, MEMORY, training=True, return_auxiliary_outputs=True)
    assert sorted(auxiliary_outputs) == ["entropy", "log_alpha"] and auxiliary_outputs[
        "entropy"
    ].shape == (B, T)
    assert np.all(np.array(auxiliary_outputs["log_alpha"]) < 0)


def test_bad_arguments_are_named():
    decoder = LuongDecoder(V, 4, 8)
    with pytest.raises(ValueError, match="`schedule` to be a number.*InverseSigmoid.*schedule=2"):
        ScheduledSampling(decoder, 2)
    with pytest.raises(ValueError, match="`choice` to be one of 'sample', 'argmax'"):
        ScheduledSampling(decoder, 0.5, choice="beam")
    with pytest.raises(ValueError, match="`decoder` to be a layer with `prepare`.*without prepare"):
        ScheduledSampling(keras.layers.Dense(3), 0.5)
