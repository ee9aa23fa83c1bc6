"""Attention around cells: against loops written like the papers, in every combination."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import (
    AttentionRNN,
    BahdanauAttention,
    BahdanauGRUCell,
    LocalAttention,
    LuongAttention,
    SkipFirstUpdate,
)
from keras_attention.kernels import execution_mode, rnnsearch_sequence

B, T, S, D, M, N = 3, 5, 7, 4, 6, 8
MEMORY_MASK = np.arange(S) < np.array([[7], [3], [0]])


def _random(*shape):
    return np.random.RandomState(sum(shape)).randn(*shape).astype("float32")


INPUTS, MEMORY = _random(B, T, D), _random(B, S, M)

LAYERS = {
    "bahdanau-fused": lambda: AttentionRNN(
        BahdanauGRUCell(N), BahdanauAttention(11), order="bahdanau"
    ),
    "bahdanau-keras-cell": lambda: AttentionRNN(
        keras.layers.GRUCell(N), BahdanauAttention(11), order="bahdanau"
    ),
    "bahdanau-general": lambda: AttentionRNN(
        BahdanauGRUCell(N), LuongAttention("general"), order="bahdanau"
    ),
    "bahdanau-stack": lambda: AttentionRNN(
        [keras.layers.LSTMCell(5), keras.layers.LSTMCell(N)],
        BahdanauAttention(11),
        order="bahdanau",
    ),
    "luong": lambda: AttentionRNN(keras.layers.LSTMCell(N), LuongAttention("general")),
    "luong-no-vector": lambda: AttentionRNN(
        keras.layers.LSTMCell(N), LuongAttention("general"), attentional_units=0
    ),
    "luong-vector": lambda: AttentionRNN(
        [keras.layers.GRUCell(5), keras.layers.GRUCell(N)],
        LuongAttention("concat"),
        attentional_units=9,
    ),
    "luong-feeding": lambda: AttentionRNN(
        [keras.layers.LSTMCell(N), keras.layers.LSTMCell(N)],
        LuongAttention("general"),
        input_feeding=True,
        attentional_units=9,
    ),
    "luong-feeding-linear": lambda: AttentionRNN(
        BahdanauGRUCell(N),
        LuongAttention("general"),
        input_feeding=True,
        attentional_units=9,
        attentional_activation=None,
    ),
    "luong-feeding-context": lambda: AttentionRNN(
        SkipFirstUpdate(BahdanauGRUCell(N)),
        BahdanauAttention(11),
        input_feeding=True,
        attentional_units=0,
    ),
}


@pytest.fixture(params=LAYERS)
def layer(request):
    set_seed(1)
    return LAYERS[request.param]()


def test_steps_equal_the_full_call(layer):
    outputs, contexts, weights, state = layer(
        INPUTS,
        MEMORY,
        memory_mask=MEMORY_MASK,
        return_context=True,
        return_attention_scores=True,
        return_state=True,
    )
    prepared = layer.prepare(MEMORY, MEMORY_MASK)
    current = layer.start(prepared)
    for time in range(T):
        output, context, weight, current = layer.step(
            tf.constant(INPUTS[:, time]), current, prepared
        )
        for one, all_steps in ((output, outputs), (context, contexts), (weight, weights)):
            np.testing.assert_allclose(np.array(one), np.array(all_steps)[:, time], atol=1e-5)
    keras.tree.assert_same_structure(state, current)
    for one, other in zip(keras.tree.flatten(state), keras.tree.flatten(current), strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), atol=1e-5)
    assert np.array_equal(np.array(state["position"]), [T] * B)
    assert np.all(np.array(weights)[2] == 0) and np.all(np.array(contexts)[2] == 0)


def test_beams_share_the_memory_of_their_source(layer):
    layer.build(INPUTS.shape, MEMORY.shape)
    prepared = layer.prepare(MEMORY, MEMORY_MASK)
    state = keras.tree.map_structure(
        lambda leaf: keras.ops.repeat(leaf, 2, axis=0), layer.start(prepared)
    )
    rows = _random(2 * B, D)
    output, context, weights, _ = layer.step(tf.constant(rows), state, prepared)
    for beam in range(2):
        one, read, attended, _ = layer.step(
            tf.constant(rows[beam::2]), layer.start(prepared), prepared
        )
        np.testing.assert_allclose(np.array(output)[beam::2], np.array(one), atol=1e-5)
        np.testing.assert_allclose(np.array(context)[beam::2], np.array(read), atol=1e-5)
        np.testing.assert_allclose(np.array(weights)[beam::2], np.array(attended), atol=1e-5)


def test_masked_steps_copy_the_state_and_give_zeros(layer):
    inputs_mask = np.arange(T) < np.array([[5], [2], [3]])
    outputs, weights, state = layer(
        INPUTS,
        MEMORY,
        inputs_mask=inputs_mask,
        return_attention_scores=True,
        return_state=True,
    )
    assert np.all(np.array(outputs)[~inputs_mask] == 0)
    assert np.all(np.array(weights)[~inputs_mask] == 0)
    short, short_state = layer(INPUTS[1:2, :2], MEMORY[1:2], return_state=True)
    np.testing.assert_allclose(np.array(outputs)[1, :2], np.array(short)[0], atol=1e-5)
    for one, other in zip(keras.tree.flatten(state), keras.tree.flatten(short_state), strict=True):
        np.testing.assert_allclose(np.array(one)[1], np.array(other)[0], atol=1e-5)


def test_symbolic_shapes_equal_eager_shapes(layer):
    flags = {"return_context": True, "return_attention_scores": True, "return_state": True}
    symbolic = layer(keras.Input((T, D)), keras.Input((S, M)), **flags)
    eager = layer(INPUTS, MEMORY, **flags)
    keras.tree.assert_same_structure(symbolic, eager)
    for one, other in zip(keras.tree.flatten(symbolic), keras.tree.flatten(eager), strict=True):
        assert tuple(one.shape)[1:] == tuple(other.shape)[1:]
        assert one.dtype == keras.backend.standardize_dtype(other.dtype)


#: It compiles for ten seconds; the others are compiled in the slow tests.
COMPILED = ("bahdanau-fused",)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "layer",
    [name if name in COMPILED else pytest.param(name, marks=pytest.mark.slow) for name in LAYERS],
    indirect=True,
)
def test_it_trains_compiled_on_three_shapes_and_survives_a_file(layer, tmp_path):
    inputs = keras.Input((None, D), name="inputs")
    memory = keras.Input((None, M), name="memory")
    outputs, contexts = layer(inputs, memory, return_context=True)
    outputs = keras.layers.Dense(1)(keras.layers.Concatenate()([outputs, contexts]))
    model = keras.Model({"inputs": inputs, "memory": memory}, outputs)
    model.compile("sgd", "mse", jit_compile=True)
    before = [np.array(weight) for weight in model.trainable_weights]
    for batch, time, source in ((3, 5, 7), (2, 4, 7), (4, 3, 5)):
        data = {"inputs": _random(batch, time, D), "memory": _random(batch, source, M)}
        assert np.isfinite(model.train_on_batch(data, _random(batch, time, 1)))
    # The initial states are zeros, so a matrix may see no gradient in a first step only.
    moved = [
        not np.array_equal(old, np.array(new))
        for old, new in zip(before, model.trainable_weights, strict=True)
    ]
    assert all(moved), [
        w.path for w, m in zip(model.trainable_weights, moved, strict=True) if not m
    ]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    data = {"inputs": INPUTS, "memory": MEMORY}
    np.testing.assert_array_equal(np.array(loaded(data)), np.array(model(data)))


@pytest.mark.parametrize("name", ["bahdanau-keras-cell", "luong-feeding", "luong"])
def test_equal_the_papers_equations_in_numpy(name):
    """The orders of computation, written out with the cells' own steps."""
    set_seed(1)
    layer = LAYERS[name]()
    outputs = np.array(layer(INPUTS, MEMORY, memory_mask=MEMORY_MASK))
    cell, attention = layer.cell, layer.attention
    states = cell.get_initial_state(batch_size=B)
    states = states if isinstance(states, (list, tuple)) else [states]
    fed = np.zeros((B, 9), "float32")
    for time in range(T):
        step = INPUTS[:, time]
        if name == "bahdanau-keras-cell":
            context = attention(states[0], MEMORY, value_mask=MEMORY_MASK)
            expected, states = cell(np.concatenate([step, context], axis=1), states)
        else:
            if name == "luong-feeding":
                step = np.concatenate([step, fed], axis=1)
            hidden, states = cell(step, states)
            context = attention(hidden, MEMORY, value_mask=MEMORY_MASK)
            both = np.concatenate([context, hidden], axis=1)
            expected = fed = np.tanh(both @ np.array(layer.attentional.kernel))
        np.testing.assert_allclose(outputs[:, time], np.array(expected), atol=1e-5)
        states = states if isinstance(states, (list, tuple)) else [states]


def _compute_gradients(dtype, compiled=False, is_static=True):
    """Returns the layer of RNNsearch, and a loss of it with its gradients, as arrays.

    If not `is_static`, in a graph that knows neither the batch size nor any length.
    """
    set_seed(1)
    layer = AttentionRNN(
        BahdanauGRUCell(N, dtype=dtype),
        BahdanauAttention(11, vector_initializer="ones", dtype=dtype),
        order="bahdanau",
        dtype=dtype,
    )
    layer.build(INPUTS.shape, MEMORY.shape)
    dtype = layer.compute_dtype
    upstream = [tf.cast(_random(B, T, size), dtype) for size in (N, M, S)]
    tensors = [tf.cast(x, dtype) for x in (INPUTS, MEMORY, _random(B, N))]
    inputs = [*tensors, tf.constant(MEMORY_MASK)]
    specs = [tf.TensorSpec.from_tensor(x) for x in inputs]
    if not is_static:
        specs = [tf.TensorSpec([None, None, D], dtype), tf.TensorSpec([None, None, M], dtype)]
        specs += [tf.TensorSpec([None, N], dtype), tf.TensorSpec([None, None], "bool")]

    @tf.function(autograph=False, jit_compile=compiled, input_signature=specs)
    def compute(*inputs):
        *tensors, mask = inputs
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            results = layer(
                *tensors[:2],
                initial_state=tensors[2],
                memory_mask=mask,
                return_context=True,
                return_attention_scores=True,
            )
            loss = tf.add_n([tf.reduce_sum(r * u) for r, u in zip(results, upstream, strict=True)])
        sources = [*tensors, *(variable.value for variable in layer.trainable_variables)]
        return [loss, *tape.gradient(loss, sources)]

    return layer, [np.array(tf.cast(one, "float64")) for one in compute(*inputs)]


@pytest.mark.parametrize("on_gpu", [False, True])
def test_the_written_gradient_equals_the_automatic_one(monkeypatch, on_gpu):
    monkeypatch.setattr(execution_mode, "has_gpu", lambda: on_gpu)
    layer, written = _compute_gradients("float64", compiled=on_gpu)
    assert rnnsearch_sequence.supports(layer, training=True)
    monkeypatch.setattr(rnnsearch_sequence, "supports", lambda recurrence, training: False)
    _, automatic = _compute_gradients("float64")
    for one, other in zip(written, automatic, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert np.abs(automatic[-4]).max() > 1e-3, "the attention's weights matter here"


def test_the_written_gradient_does_without_static_lengths():
    _, expected = _compute_gradients("float64")
    _, found = _compute_gradients("float64", is_static=False)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_a_gpu_computes_the_written_gradient_in_bfloat16_too(monkeypatch, on_gpu):
    monkeypatch.setattr(execution_mode, "has_gpu", lambda: on_gpu)
    layer, written = _compute_gradients("mixed_bfloat16")
    assert rnnsearch_sequence.supports(layer, training=True) == on_gpu
    _, exact = _compute_gradients("float32")
    for one, other in zip(written, exact, strict=True):
        assert np.linalg.norm(one - other) < 0.03 * np.linalg.norm(other)


def test_keys_are_projected_once_a_source(monkeypatch):
    calls = []
    layer = LAYERS["bahdanau-general"]()
    prepare = layer.attention.scorer.prepare
    monkeypatch.setattr(
        layer.attention.scorer, "prepare", lambda key: calls.append(1) or prepare(key)
    )
    layer(INPUTS, MEMORY)
    assert len(calls) == 1


def test_attention_of_all_steps_at_once_may_compute_its_scores_in_blocks(monkeypatch):
    layer = AttentionRNN(keras.layers.LSTMCell(N), BahdanauAttention(11))
    layer.build(INPUTS.shape, MEMORY.shape)
    score, calls = layer.attention.scorer.score, []
    monkeypatch.setattr(
        layer.attention.scorer, "score", lambda *parts: calls.append(1) or score(*parts)
    )
    layer(INPUTS, MEMORY)
    assert len(calls) == 1


def test_nothing_is_kept_on_the_layer(layer):
    layer(INPUTS, MEMORY, training=True)
    before = set(vars(layer)) | set(vars(layer.attention)) | set(vars(layer.adapter.cells[0]))
    layer(2 * INPUTS, 3 * MEMORY, training=True)
    after = set(vars(layer)) | set(vars(layer.attention)) | set(vars(layer.adapter.cells[0]))
    assert before == after
    held = [v for v in vars(layer).values() if isinstance(v, tf.Tensor)]
    assert not held


@pytest.mark.thorough
@pytest.mark.parametrize("feeding", [False, True])
def test_cells_with_dropout_train_and_draw_one_mask_a_sequence(feeding):
    cells = [keras.layers.GRUCell(N, dropout=0.5, seed=1), keras.layers.LSTMCell(N)]
    attention = LuongAttention("general", dropout=0.5, seed=2)
    layer = AttentionRNN(cells, attention, input_feeding=feeding, attentional_units=N)
    run = tf.function(lambda: layer(INPUTS, MEMORY, training=True), jit_compile=True)
    first, second = run(), run()
    assert not np.allclose(first, second)
    kept = np.array(layer(INPUTS, MEMORY))
    np.testing.assert_array_equal(kept, np.array(layer(INPUTS, MEMORY)))


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: AttentionRNN(3, LuongAttention()), "`cell` to be a Keras cell.*cell=3"),
        (lambda: AttentionRNN([], LuongAttention()), "non-empty list"),
        (lambda: AttentionRNN(BahdanauGRUCell(2), "dot"), "`attention` to be an attention layer"),
        (
            lambda: AttentionRNN(BahdanauGRUCell(2), LuongAttention(), order="vaswani"),
            "'bahdanau', 'luong'.*order='vaswani'",
        ),
        (
            lambda: AttentionRNN(
                BahdanauGRUCell(2), LuongAttention(), order="bahdanau", input_feeding=True
            ),
            "require order='luong'",
        ),
        (
            lambda: AttentionRNN(BahdanauGRUCell(2), LuongAttention(), attentional_units=-1),
            "`attentional_units`",
        ),
        (lambda: LAYERS["luong"]()(INPUTS[0], MEMORY), r"`inputs` of shape \(batch, time"),
        (lambda: LAYERS["luong"]()(INPUTS, MEMORY[:2]), "same size on axis 0"),
        (
            lambda: LAYERS["luong"]()(INPUTS, MEMORY, memory_mask=MEMORY_MASK[:, :2]),
            "`memory_mask` of shape",
        ),
        (
            lambda: LAYERS["luong"]()(INPUTS, MEMORY, initial_state=_random(B, N)),
            r"of 2 tensor\(s\) of shape \(batch, 8\), \(batch, 8\)",
        ),
    ],
)
def test_bad_input_says_what_was_expected(run, message):
    with pytest.raises(ValueError, match=message):
        run()


def test_the_written_gradient_covers_rnnsearch_and_nothing_else():
    covered = {"bahdanau-fused"}
    for name, make in LAYERS.items():
        layer = make()
        layer.build(INPUTS.shape, MEMORY.shape)
        assert rnnsearch_sequence.supports(layer, training=True) == (name in covered), name


def test_the_dropout_of_a_cell_that_skips_its_first_update_is_drawn_anew():
    cell = SkipFirstUpdate(keras.layers.GRUCell(N, dropout=0.5, recurrent_dropout=0.5, seed=1))
    layer = AttentionRNN(cell, BahdanauAttention(11), order="bahdanau")
    first, second = (layer(INPUTS, MEMORY, training=True) for _ in range(2))
    assert not np.allclose(first, second)
    assert layer(INPUTS[:2], MEMORY[:2], training=True).shape == (2, T, N)


@pytest.mark.parametrize("policy", ["mixed_float16", "float64"])
def test_a_context_that_is_fed_may_come_from_another_dtype_policy(policy):
    cell = keras.layers.LSTMCell(N, dtype=policy)
    options = {"input_feeding": True, "attentional_units": 0, "dtype": policy}
    layer = AttentionRNN(cell, BahdanauAttention(11, dtype="float32"), **options)
    outputs = tf.function(layer, autograph=False)(tf.constant(INPUTS), tf.constant(MEMORY))
    assert outputs.dtype == policy.removeprefix("mixed_")


@pytest.mark.parametrize("input_feeding", [False, True])
def test_masked_steps_do_not_count_as_positions(input_feeding):
    attention = LocalAttention(3, scorer="dot")
    layer = AttentionRNN(keras.layers.GRUCell(M), attention, input_feeding=input_feeding)
    expected = np.array(layer(INPUTS[:, 2:], MEMORY))
    late = np.broadcast_to(np.arange(T) >= 2, (B, T))
    found = np.array(layer(INPUTS, MEMORY, inputs_mask=late))
    np.testing.assert_allclose(found[:, 2:], expected, atol=1e-5)
