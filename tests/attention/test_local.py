"""Local attention: the paper's loops, masks, gradients, steps and arguments."""

import keras
import numpy as np
import pytest
from local_layers import (
    DV,
    KEY,
    LENGTHS,
    MASK,
    MODES,
    PREDICTIVE,
    QUERY,
    VALUE,
    B,
    D,
    S,
    T,
    build_layer,
    random,
    score_windows_alone,
)
from tf_or_skip import tf

import keras_attention as ka
from keras_attention import LocalAttention


@pytest.fixture(autouse=True)
def windows_alone(monkeypatch):
    score_windows_alone(monkeypatch)


def _softmax(scores):
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum()


def _luong(layer, query, key, length, step):
    """Section 3.2 of the paper for one query and the kept keys; dot scores."""
    position, reach = min(step, length - 1), layer.window // 2
    if layer.mode == "predictive":
        kernel, vector = (np.array(weight) for weight in layer.trainable_variables)
        share = 1 / (1 + np.exp(-vector[:, 0] @ np.tanh(kernel.T @ query)))
        position = share * (length if layer.position_range == "paper" else length - 1)
    center = min(int(position), length - 1)
    inside = [s for s in range(center - reach, center + reach + 1) if 0 <= s < length]
    weights = np.zeros(len(key))
    weights[inside] = _softmax(np.array([query @ key[s] for s in inside]))
    if layer.mode == "predictive":
        weights[inside] *= [np.exp(-((s - position) ** 2) / (2 * (reach / 2) ** 2)) for s in inside]
        weights /= weights.sum() if layer.renormalize else 1
    return weights, position


def _reference(layer, query, key, value, lengths):
    """Returns context, weights and positions of a whole batch, row by row."""
    weights = np.zeros((len(query), query.shape[1], key.shape[1]))
    positions = np.zeros(query.shape[:2])
    for b in range(len(query)):
        for t in range(query.shape[1]) if lengths[b] else ():
            weights[b, t], positions[b, t] = _luong(layer, query[b, t], key[b], lengths[b], t)
    return weights @ value, weights, positions


@pytest.mark.parametrize(
    "options",
    [
        {},
        PREDICTIVE,
        {"mode": "predictive", "position_range": "inside"},
        {"mode": "predictive", "renormalize": True},
    ],
    ids=["monotonic", "predictive", "inside", "renormalized"],
)
def test_it_computes_section_3_2_of_the_paper(options):
    layer = build_layer(scorer="dot", **options)
    results = layer(
        QUERY,
        VALUE,
        KEY,
        value_mask=MASK,
        return_attention_scores=True,
        return_auxiliary_outputs=True,
    )
    expected = _reference(layer, QUERY, KEY, VALUE, LENGTHS[:, 0])
    for one, other in zip(results[:2], expected, strict=False):
        np.testing.assert_allclose(np.array(one), other, atol=1e-12)
    assert tuple(results[2]) == layer.auxiliary_outputs
    for position in results[2].values():
        np.testing.assert_allclose(np.array(position)[:2], expected[2][:2], rtol=1e-6)


@pytest.mark.parametrize(
    ("position_range", "position", "expected"),
    [
        ("paper", 4.329048, [0, 0, 0.008549, 0.053242, 0.546700, 0.132019]),
        ("inside", 3.607540, [0, 0.002419, 0.032810, 0.099313, 0.495626, 0.058170]),
    ],
)
def test_the_worked_numbers(position_range, position, expected):
    state = np.array([[0.5, -1.0]])
    value = np.array([[[1, 0], [0, 1], [1, 1], [-1, 0], [0, -1], [0.5, 0.5]]])
    layer = LocalAttention(
        5, "predictive", scorer="dot", position_range=position_range, dtype="float64"
    )
    layer.build(state.shape, value.shape)
    layer.position_kernel.assign(np.array([[1, 0], [0.5, 0.5]]).T)
    layer.position_vector.assign([[1.0], [-2.0]])
    _, weights, auxiliary_outputs = layer(
        state, value, return_attention_scores=True, return_auxiliary_outputs=True
    )
    np.testing.assert_allclose(np.array(weights)[0], expected, atol=5e-7)
    np.testing.assert_allclose(np.array(auxiliary_outputs["position"]), [position], atol=5e-7)


@MODES
@pytest.mark.parametrize("length", range(1, 8))
def test_sources_of_every_length_up_to_more_than_a_window(options, length):
    layer = build_layer(scorer="dot", **options)
    query, key, value = QUERY[:, :11], KEY[:, :length], VALUE[:, :length]
    context, weights = layer(query, value, key, return_attention_scores=True)
    expected, expected_weights, _ = _reference(layer, query, key, value, [length] * B)
    np.testing.assert_allclose(np.array(weights), expected_weights, atol=1e-12)
    np.testing.assert_allclose(np.array(context), expected, atol=1e-12)


def test_a_window_as_wide_as_the_source_equals_full_attention():
    # Queries up to the last key: a later one would stand at that key, but read the same.
    for window in (2 * S - 1, 2 * S + 101):
        local, full = build_layer(window), ka.LuongAttention("general", dtype="float64")
        full.build(QUERY.shape, VALUE.shape, KEY.shape)
        full.set_weights(local.get_weights())
        flags = {"value_mask": MASK, "return_attention_scores": True}
        for one, other in zip(
            local(QUERY, VALUE, KEY, **flags), full(QUERY, VALUE, KEY, **flags), strict=True
        ):
            np.testing.assert_allclose(np.array(one), np.array(other), atol=1e-12)


def test_a_mask_with_holes_does_not_move_positions():
    mask = MASK.copy()
    mask[0, 3:9] = mask[1, 2] = False
    _, weights = build_layer(3)(QUERY, VALUE, KEY, value_mask=mask, return_attention_scores=True)
    centers = np.minimum(np.arange(T), LENGTHS - 1)[:, :, None]
    expected = (np.abs(np.arange(S) - centers) <= 1) & mask[:, None]
    assert np.array_equal(np.array(weights) > 0, expected)


@MODES
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "mixed_float16"])
def test_padding_may_hold_anything_and_empty_rows_are_zero(options, dtype):
    layer = build_layer(dtype=dtype, **options)

    def run(value, key):
        with tf.GradientTape() as tape:
            context = layer(tf.constant(QUERY), value, key, value_mask=MASK)
            total = tf.reduce_sum(tf.cast(context, "float32"))
        gradients = tape.gradient(total, layer.trainable_variables)
        return [np.array(tf.cast(x, "float32")) for x in (context, *gradients)]

    results = run(VALUE, KEY)
    assert np.all(results[0][2] == 0) and np.all(results[0][:2].any(-1))
    junk = [np.where(MASK[..., None], x, np.nan) for x in (VALUE, KEY)]
    for one, other in zip(results, run(*junk), strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_array_equal(one, other)


def test_the_predictor_gets_the_gradient_of_finite_differences():
    layer = build_layer(**PREDICTIVE)

    def total():
        context = layer(QUERY, VALUE, KEY, value_mask=MASK)
        return tf.reduce_sum(tf.sin(context))

    weights = [layer.position_kernel, layer.position_vector]
    with tf.GradientTape() as tape:
        loss = total()
    for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
        before, direction = weight.numpy(), random(*weight.shape)
        ends = []
        for step in (1e-6, -1e-6):
            weight.assign(before + step * direction)
            ends.append(float(total()))
        weight.assign(before)
        measured = (ends[0] - ends[1]) / 2e-6
        assert abs(measured) > 1e-3
        np.testing.assert_allclose(np.sum(gradient * direction), measured, rtol=1e-6)


@pytest.mark.thorough
@MODES
def test_unknown_lengths_train_under_xla(options):
    layer = build_layer(dtype="float32", **options)
    specs = [tf.TensorSpec((None, None, width)) for width in (D, DV, D)]
    specs.append(tf.TensorSpec((None, None), "bool"))

    def step(query, value, key, mask):
        with tf.GradientTape() as tape:
            results = layer(query, value, key, value_mask=mask, return_attention_scores=True)
            total = tf.add_n([tf.reduce_sum(tf.sin(result)) for result in results])
        return [*results, *tape.gradient(total, layer.trainable_variables)]

    compiled = tf.function(step, input_signature=specs, jit_compile=True)
    for batch, queries, keys in ((3, 37, 29), (2, 5, 3)):
        data = [
            tf.constant(x[:batch, :size], "float32")
            for x, size in ((QUERY, queries), (VALUE, keys), (KEY, keys))
        ]
        mask = tf.constant(MASK[:batch, :keys])
        for one, other in zip(compiled(*data, mask), step(*data, mask), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * np.abs(other).max())


@MODES
def test_steps_and_beams_equal_the_call(options):
    layer = build_layer(**options)
    context, weights = layer(QUERY, VALUE, KEY, value_mask=MASK, return_attention_scores=True)
    prepared = layer.prepare(tf.constant(VALUE), tf.constant(KEY), value_mask=MASK)
    whole = layer.attend(tf.constant(QUERY), prepared)
    later = layer.attend(tf.constant(QUERY[:, 20:]), prepared, position=np.full(B, 20))
    order = np.array([[31, 4, 4], [0, 36, 12], [5, 6, 7]])  # every beam at a place of its own
    rows = np.arange(B)[:, None]
    beams = layer.attend(tf.constant(QUERY[rows, order]), prepared, position=tf.constant(order))
    for index, expected in enumerate((np.array(context), np.array(weights))):
        np.testing.assert_allclose(np.array(whole[index]), expected, atol=1e-12)
        np.testing.assert_allclose(np.array(later[index]), expected[:, 20:], atol=1e-12)
        np.testing.assert_allclose(np.array(beams[index]), expected[rows, order], atol=1e-12)
    for t in (0, 17, 36):
        step = layer.attend(tf.constant(QUERY[:, t]), prepared, position=np.full(B, t))
        np.testing.assert_allclose(np.array(step[0]), np.array(context)[:, t], atol=1e-12)
        np.testing.assert_allclose(np.array(step[1]), np.array(weights)[:, t], atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({}, "bahdanau"),
        pytest.param(PREDICTIVE, "luong", marks=pytest.mark.slow),
        pytest.param(PREDICTIVE, "feeding", marks=pytest.mark.slow),
    ],
)
def test_a_recurrent_layer_trains_with_it_under_xla_and_steps_alike(options, order):
    attention = LocalAttention(3, dropout=0.3, seed=5, **options)
    feeds = {"input_feeding": True} if order == "feeding" else {}
    layer = ka.AttentionRNN(
        keras.layers.GRUCell(D), attention, order="luong" if feeds else order, **feeds
    )
    inputs, memory = (tf.constant(x[:, :13], "float32") for x in (QUERY, VALUE))
    mask = tf.constant(MASK[:, :13])
    flags = {
        "return_context": True,
        "return_attention_scores": True,
        "return_auxiliary_outputs": True,
    }
    outputs, _, weights, auxiliary_outputs = layer(inputs, memory, memory_mask=mask, **flags)
    assert tuple(auxiliary_outputs) == attention.auxiliary_outputs

    @tf.function(
        jit_compile=True, input_signature=[tf.TensorSpec((None, None, n)) for n in (D, DV)]
    )
    def train(inputs, memory):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(layer(inputs, memory, training=True) ** 2)
        return tape.gradient(total, layer.trainable_variables)

    for gradient in train(inputs, memory):
        assert np.isfinite(gradient).all() and np.any(gradient)
    # Two beams a row that are the same hypothesis.
    prepared = layer.prepare(memory, mask)
    state = layer.start(prepared)
    state = keras.tree.map_structure(lambda leaf: tf.repeat(leaf, 2, axis=0), state)
    for t in range(3):
        output, _, attended, state = layer.step(tf.repeat(inputs[:, t], 2, axis=0), state, prepared)
        for one, other in ((output, outputs), (attended, weights)):
            np.testing.assert_allclose(one[::2], other[:, t], atol=1e-5)
            np.testing.assert_allclose(one[1::2], other[:, t], atol=1e-5)


@pytest.mark.parametrize("window", [2, 64])
def test_an_even_window_is_refused_with_its_neighbors(window):
    with pytest.raises(ValueError, match=f"Use {window - 1} or {window + 1}.*window={window}"):
        LocalAttention(window)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": 0}, "`window` to be a positive int"),
        ({"window": 3.0}, "`window` to be a positive int"),
        ({"window": 1, "mode": "predictive"}, "`window` to be an int of at least 3"),
        ({"window": 3, "mode": "local-p"}, "`mode` to be one of 'monotonic', 'predictive'"),
        ({"window": 3, "units": 4}, "only with mode='predictive'.*units=4"),
        ({"window": 3, "renormalize": True}, "only with mode='predictive'.*renormalize=True"),
        ({"window": 3, "mode": "predictive", "units": 0}, "`units` to be a positive int"),
        ({"window": 3, "mode": "predictive", "position_range": "all"}, "`position_range` to be"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LocalAttention(**arguments)
