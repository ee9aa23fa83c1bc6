"""Local attention: the paper's loops, the spans of keys that stand for them, steps, limits."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

import keras_attention as ka
from keras_attention import LocalAttention
from keras_attention.attention import local

B, T, S, D, DV = 3, 37, 29, 5, 7  # long enough for several spans
LENGTHS = np.array([[29], [11], [0]])
MASK = np.arange(S) < LENGTHS


def _random(*shape, dtype="float64"):
    return np.random.RandomState(sum(shape)).randn(*shape).astype(dtype)


QUERY, VALUE, KEY = _random(B, T, D), _random(B, S, DV), _random(B, S, D)
PREDICTIVE = {"mode": "predictive", "units": 3}
MODES = pytest.mark.parametrize("options", [{}, PREDICTIVE], ids=["monotonic", "predictive"])


@pytest.fixture(autouse=True)
def no_dense_form_for_speed(monkeypatch):
    """Sources of a test are so short that every layer here would score all keys."""
    for factors in (local.DENSE_SPANS, local.DENSE_SHARED_SPANS):
        for mode in factors:
            monkeypatch.setitem(factors, mode, 0)
    monkeypatch.setattr(local, "FEW_SCORES", 0)


def _built(window=5, dtype="float64", **options):
    set_seed(1)
    layer = LocalAttention(window, dtype=dtype, **options)
    layer.build(QUERY.shape, VALUE.shape, KEY.shape)
    return layer


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
    layer = _built(scorer="dot", **options)
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
    layer = _built(scorer="dot", **options)
    query, key, value = QUERY[:, :11], KEY[:, :length], VALUE[:, :length]
    context, weights = layer(query, value, key, return_attention_scores=True)
    expected, expected_weights, _ = _reference(layer, query, key, value, [length] * B)
    np.testing.assert_allclose(np.array(weights), expected_weights, atol=1e-12)
    np.testing.assert_allclose(np.array(context), expected, atol=1e-12)


SCORERS = {
    "dot": ka.DotScorer,
    "scaled_dot": ka.ScaledDotScorer,
    "cosine": ka.CosineScorer,
    "general": ka.GeneralScorer,
    "bilinear": ka.BilinearScorer,
    "low_rank": lambda **o: ka.LowRankBilinearScorer(3, **o),
    "additive": lambda **o: ka.AdditiveScorer(3, **o),
    "concat": lambda **o: ka.ConcatScorer(3, **o),
    "mlp": lambda **o: ka.MLPScorer([3, 2], **o),
    "uniform": ka.UniformScorer,
}
NORMALIZERS = {
    "softmax": ka.SoftmaxNormalizer,
    "sparsemax": ka.SparsemaxNormalizer,
    "entmax": ka.EntmaxNormalizer,
}


def _with_gradients(layer, dtype, **flags):
    """Returns context, weights and all gradients under masks of every kind."""
    query, value, key = (tf.constant(x, dtype) for x in (QUERY, VALUE, KEY))
    with tf.GradientTape() as tape:
        tape.watch([query, value, key])
        results = layer(
            query,
            value,
            key,
            query_mask=np.arange(T) < np.array([[T], [31], [T]]),
            value_mask=MASK,
            attention_mask=np.random.RandomState(2).rand(B, T, S) > 0.2,
            return_attention_scores=True,
            **flags,
        )
        total = tf.add_n([tf.reduce_sum(tf.sin(5 * result)) for result in results])
    watched = [query, value, key, *layer.trainable_variables]
    gradients = tape.gradient(total, watched, unconnected_gradients="zero")
    return [np.array(x) for x in (*results, *gradients)]


def _assert_forms_agree(make, dtype, monkeypatch, **flags):
    spans = _with_gradients(make(), dtype, **flags)
    monkeypatch.setattr(LocalAttention, "_should_score_all_keys", lambda *arguments: True)
    dense = _with_gradients(make(), dtype, **flags)
    tolerance = 1e-10 if dtype == "float64" else 1e-5
    for one, other in zip(spans, dense, strict=True):
        assert np.isfinite(one).all()
        bound = tolerance * max(1e-3, np.abs(other).max())
        np.testing.assert_allclose(one, other, rtol=0, atol=bound)


@MODES
@pytest.mark.parametrize("scorer", SCORERS)
def test_spans_equal_the_dense_form_under_every_scorer(options, scorer, monkeypatch):
    def make():
        set_seed(1)
        return _built(scorer=SCORERS[scorer](dtype="float64"), **options)

    _assert_forms_agree(make, "float64", monkeypatch)


@MODES
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_spans_equal_the_dense_form_under_every_normalizer(
    options, normalizer, causal, dtype, monkeypatch
):
    def make():
        given = NORMALIZERS[normalizer](dtype=dtype)
        return _built(dtype=dtype, scorer="dot", normalizer=given, **options)

    _assert_forms_agree(make, dtype, monkeypatch, use_causal_mask=causal)


def test_a_window_as_wide_as_the_source_equals_full_attention():
    # Queries up to the last key: a later one would stand at that key, but read the same.
    for window in (2 * S - 1, 2 * S + 101):
        local, full = _built(window), ka.LuongAttention("general", dtype="float64")
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
    _, weights = _built(3)(QUERY, VALUE, KEY, value_mask=mask, return_attention_scores=True)
    centers = np.minimum(np.arange(T), LENGTHS - 1)[:, :, None]
    expected = (np.abs(np.arange(S) - centers) <= 1) & mask[:, None]
    assert np.array_equal(np.array(weights) > 0, expected)


@MODES
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "mixed_float16"])
def test_padding_may_hold_anything_and_empty_rows_are_zero(options, dtype):
    layer = _built(dtype=dtype, **options)

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
    layer = _built(**PREDICTIVE)

    def total():
        context = layer(QUERY, VALUE, KEY, value_mask=MASK)
        return tf.reduce_sum(tf.sin(context))

    weights = [layer.position_kernel, layer.position_vector]
    with tf.GradientTape() as tape:
        loss = total()
    for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
        before, direction = weight.numpy(), _random(*weight.shape)
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
    layer = _built(dtype="float32", **options)
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
    layer = _built(**options)
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


@MODES
def test_dropout_acts_on_the_place_in_the_window(options):
    layer = _built(dropout=0.4, seed=3, **options)
    noise = layer.noise(B, T, S, training=True)
    assert noise["dropout"].shape == (B, T, 5)
    prepared = layer.prepare(tf.constant(VALUE), tf.constant(KEY), value_mask=MASK)
    context, weights = layer.attend(tf.constant(QUERY), prepared, noise=noise, training=True)
    plain, plain_weights = layer.attend(tf.constant(QUERY), prepared)
    np.testing.assert_array_equal(weights, plain_weights)
    assert np.abs(np.array(context) - plain).max() > 0.1
    # By the dense form: the noise of a place belongs to the key that stands there.
    steps = [
        layer.attend(
            tf.constant(QUERY[:, t]),
            prepared,
            position=np.full(B, t),
            noise={"dropout": noise["dropout"][:, t]},
            training=True,
        )[0]
        for t in range(T)
    ]
    np.testing.assert_allclose(np.stack(steps, axis=1), context, atol=1e-12)


@MODES
def test_nothing_as_large_as_queries_times_keys_is_built(options):
    size = 1024
    layer = LocalAttention(3, **options)
    layer.build((1, size, 2), (1, size, 2))

    @tf.function(input_signature=[tf.TensorSpec((1, size, 2)), tf.TensorSpec((1, size), "bool")])
    def step(values, mask):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(layer(values, values, value_mask=mask, query_mask=mask))
        return tape.gradient(total, layer.trainable_variables)

    graph = step.get_concrete_function().graph
    shapes = [output.shape for op in graph.get_operations() for output in op.outputs]
    sizes = [shape.num_elements() or 0 for shape in shapes if shape.rank is not None]
    assert max(sizes) <= 100 * size


@pytest.mark.parametrize("mode", ["monotonic", "predictive"])
def test_a_scorer_that_reads_positions_is_read_densely(mode):
    scorer = ka.LocationScorer(S, dtype="float64")
    layer = _built(3, mode=mode, scorer=scorer)
    flags = {"return_attention_scores": True, "return_auxiliary_outputs": True}
    _, weights, auxiliary_outputs = layer(QUERY, VALUE, KEY, **flags)
    centers = (
        np.array(auxiliary_outputs["position"]) if mode == "predictive" else np.arange(T)[None]
    )
    inside = np.abs(np.arange(S) - np.minimum(centers.astype(int), S - 1)[..., None]) <= 1
    scores = np.where(inside, QUERY @ np.array(scorer.kernel), -np.inf)
    expected = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    if mode == "predictive":
        expected *= np.exp(-((np.arange(S) - centers[..., None]) ** 2) / (2 * 0.5**2))
    np.testing.assert_allclose(np.array(weights), expected, atol=1e-6)


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
