"""`NTM`: history and state, steps, masks, saving, training."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

import keras_attention as ka

LSTM, GRU, DENSE = keras.layers.LSTMCell, keras.layers.GRUCell, keras.layers.Dense
MASK = np.array([[1, 1, 1, 1, 1], [0, 1, 0, 1, 0], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], bool)
CONTROLLERS = {
    "lstm": lambda **o: LSTM(3, **o),
    "stack": lambda **o: keras.layers.StackedRNNCells([LSTM(3, **o), LSTM(5, **o)], **o),
    "dense": lambda **o: DENSE(3, "tanh", **o),
    "gru": lambda **o: GRU(3, **o),
}
EACH = pytest.mark.parametrize("controller", CONTROLLERS)


def make_layer(controller="lstm", dtype="float64", layer=None, **options):
    """Returns a small layer in float64, with every weight drawn once it is built."""
    set_seed(1)
    controller = CONTROLLERS[controller](dtype=dtype)
    cell = ka.NTMCell(2, 7, 5, controller, 1, 2, dtype=dtype, **options)
    return ka.NTM(cell, dtype=dtype, **(layer or {}))


def draw_inputs(batch=4, time=5, seed=1):
    return np.random.RandomState(seed).randn(batch, time, 11)


def assert_close(one, other, atol=1e-12):
    for a, b in zip(keras.tree.flatten(one), keras.tree.flatten(other), strict=True):
        np.testing.assert_allclose(np.array(a), np.array(b), atol=atol)


@EACH
@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
def test_it_does_the_steps_of_its_cell(controller, masked):
    """Outputs, weights, memory and state; a masked step copies the state and gives 0."""
    layer, inputs = make_layer(controller, layer={"return_state": True}), draw_inputs()
    options = {"mask": keras.ops.convert_to_tensor(MASK)} if masked else {}
    outputs, history, state = layer(inputs, return_auxiliary_outputs=True, **options)
    now = layer.cell.start(4)
    for step in range(5):
        keep = MASK[:, step] if masked else np.ones(4, bool)
        output, new = layer.cell.step(inputs[:, step], now)
        now = keras.tree.map_structure(
            lambda a, b, keep=keep: np.where(keep.reshape(4, *[1] * (len(a.shape) - 1)), a, b),
            new,
            now,
        )
        assert_close(outputs[:, step], np.where(keep[:, None], output, 0))
        assert_close(history["memory"][:, step], now["memory"])
        for name in ("read_weights", "write_weights"):
            assert_close(history[name][:, step], np.where(keep[:, None, None], new[name], 0))
    assert_close(state, now)


@EACH
def test_a_state_that_is_handed_on_joins_two_halves(controller):
    layer, inputs = make_layer(controller, layer={"return_state": True}), draw_inputs()
    whole, state = layer(inputs)
    first, between = layer(inputs[:, :2])
    second, last = layer(inputs[:, 2:], initial_state=between)
    assert_close(keras.ops.concatenate([first, second], 1), whole)
    assert_close(last, state)


@pytest.mark.parametrize("policy", ["mixed_float16", "bfloat16"])
def test_a_state_is_not_rounded_on_its_way(policy):
    """The memory begins at 1e-6, which half precision would not keep apart from 0."""
    set_seed(1)
    cell = ka.NTMCell(2, 7, 5, DENSE(3, "tanh", dtype=policy), dtype=policy)
    layer, inputs = ka.NTM(cell, return_state=True, dtype=policy), draw_inputs().astype("float32")
    whole, state = layer(inputs)
    first, between = layer(inputs[:, :2])
    second, last = layer(inputs[:, 2:], initial_state=between)
    assert_close(last, state, atol=0)
    for part in keras.tree.flatten(last):
        assert keras.backend.standardize_dtype(part.dtype) == "float32"
    assert keras.backend.standardize_dtype(whole.dtype) == cell.compute_dtype
    step = cell.step(inputs[:, 0], last)[1]["memory"]
    flat = [last[name] for name in ("memory", "reads", "read_weights", "write_weights")]
    _, states = cell(inputs[:, 0], [np.reshape(part, (4, -1)) for part in flat])
    assert_close(states[0], np.reshape(step, (4, -1)), atol=0)


@EACH
def test_the_last_output_is_that_of_the_last_step_kept(controller):
    layer = make_layer(controller)
    all_outputs = np.array(layer(draw_inputs(), mask=keras.ops.convert_to_tensor(MASK)))
    one = ka.NTM(layer.cell, return_sequences=False, dtype="float64")
    outputs = one(draw_inputs(), mask=keras.ops.convert_to_tensor(MASK))
    expected = [all_outputs[0, 4], all_outputs[1, 3], all_outputs[2, 1], np.zeros(2)]
    assert_close(outputs, np.array(expected))
    assert_close(one(draw_inputs()), layer(draw_inputs())[:, -1])
    assert getattr(outputs, "_keras_mask", None) is None


@pytest.mark.parametrize("controller", ["lstm", "gru"])
def test_masked_steps_leave_no_trace_wherever_they_are(controller):
    """The same steps with gaps, of NaN, between them."""
    layer = make_layer(controller, layer={"return_state": True})
    inputs = draw_inputs(batch=2, time=3)
    outputs, state = layer(inputs)
    spread = np.full((2, 6, 11), np.nan)
    spread[:, [1, 2, 4]] = inputs
    mask = np.array([[0, 1, 1, 0, 1, 0]] * 2, bool)
    apart, after = layer(spread, mask=keras.ops.convert_to_tensor(mask))
    assert_close(np.array(apart)[:, [1, 2, 4]], outputs)
    assert_close(after, state)


def test_a_mask_of_whole_sequences_keeps_the_last_output():
    layer, inputs = make_layer(layer={"return_sequences": False}), draw_inputs()
    mask = np.array([[True], [False], [True], [True]])
    assert_close(layer(inputs, mask=mask), layer(inputs, mask=np.repeat(mask, 5, axis=1)))


@EACH
def test_a_mask_may_stand_for_all_rows(controller):
    mask = keras.ops.convert_to_tensor(MASK[1:2])
    layer = make_layer(controller)
    assert_close(
        layer(draw_inputs(), mask=mask), layer(draw_inputs(), mask=keras.ops.repeat(mask, 4, 0))
    )


@EACH
def test_no_rows_and_one_step(controller):
    layer = make_layer(controller, layer={"return_state": True})
    outputs, history, state = layer(draw_inputs(batch=0), return_auxiliary_outputs=True)
    assert outputs.shape == (0, 5, 2) and history["memory"].shape == (0, 5, 7, 5)
    assert layer(draw_inputs(time=1))[0].shape == (4, 1, 2)


def test_integers_are_inputs_too():
    layer, inputs = (
        make_layer(dtype="float32"),
        np.random.RandomState(1).randint(2, size=(3, 5, 11)),
    )
    assert_close(layer(inputs.astype("int32")), layer(inputs.astype("float32")), atol=0)


@pytest.mark.parametrize("scale", [0.0, 1e4])
@pytest.mark.parametrize("controller", ["lstm", "gru"])
def test_head_parameters_at_their_extremes_give_finite_gradients(controller, scale):
    layer = make_layer(controller, dtype="float32", layer={"return_state": True})
    inputs = tf.constant(draw_inputs().astype("float32"))
    layer(inputs)
    for name in ("head_kernel", "head_bias"):
        weight = getattr(layer.cell, name)
        weight.assign(scale * np.random.RandomState(2).randn(*weight.shape))
    weights = [weight.value for weight in layer.trainable_weights]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        results = layer(inputs, return_auxiliary_outputs=True)
        total = sum(tf.reduce_sum(result**2) for result in keras.tree.flatten(results))
    for result in keras.tree.flatten(results):
        assert np.isfinite(np.array(result)).all()
    for gradient in tape.gradient(total, [inputs, *weights]):
        assert np.isfinite(np.array(gradient)).all()


@pytest.mark.thorough
@EACH
def test_a_saved_model_computes_the_same(controller, tmp_path):
    set_seed(1)
    layer = make_layer(
        controller, "float32", {"return_state": True}, shift=ka.ScalarShift(2), activation=None
    )
    inputs = keras.Input((None, 11))
    model = keras.Model(inputs, layer(inputs, return_auxiliary_outputs=True))
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    data = draw_inputs().astype("float32")
    assert_close(again(data), model(data), atol=0)
    model.save_weights(tmp_path / "model.weights.h5")
    for weight in again.weights:
        weight.assign(keras.ops.zeros_like(weight))
    again.load_weights(tmp_path / "model.weights.h5")
    assert_close(again(data), model(data), atol=0)


def test_symbols_have_the_shapes_and_dtypes_of_values():
    for controller in ("lstm", "gru"):
        layer = make_layer(controller, "mixed_float16", {"return_state": True})
        values = layer(draw_inputs().astype("float32"), return_auxiliary_outputs=True)
        symbols = layer(keras.Input((None, 11)), return_auxiliary_outputs=True)
        keras.tree.assert_same_structure(values, symbols)
        for value, symbol in zip(*map(keras.tree.flatten, (values, symbols)), strict=True):
            assert symbol.dtype == keras.backend.standardize_dtype(value.dtype)
            assert len(symbol.shape) == len(value.shape) and symbol.shape[0] is None
            sizes = zip(symbol.shape, value.shape, strict=True)
            assert all(size in (None, real) for size, real in sizes)
        shapes = layer.compute_output_shape((4, 5, 11))
        assert shapes == (
            (4, 5, 2),
            keras.tree.map_structure(lambda part: tuple(part.shape), values[2]),
        )


def echo(batch, time, seed):
    """Returns random bits, and as targets those of the step before."""
    bits = np.random.RandomState(seed).randint(2, size=(batch, time, 11)).astype("float32")
    return bits, np.concatenate([np.zeros((batch, 1, 2)), bits[:, :-1, :2]], 1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("policy", "xla"),
    [("float32", False), pytest.param("mixed_float16", True, marks=pytest.mark.slow)],
)
def test_it_learns(policy, xla):
    keras.utils.set_random_seed(1)
    cell = ka.NTMCell(2, 7, 5, DENSE(13, "tanh", dtype=policy), dtype=policy)
    model = keras.Sequential([keras.Input((5, 11)), ka.NTM(cell, dtype=policy)])
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy", jit_compile=xla)
    history = model.fit(*echo(320, 5, seed=1), batch_size=32, epochs=4, verbose=0).history["loss"]
    assert np.isfinite(history).all() and history[-1] < 0.9 * history[0]


@pytest.mark.thorough
def test_dropout_of_the_controller_is_drawn_once_a_call():
    keras.utils.set_random_seed(1)
    controller = LSTM(13, dropout=0.3, recurrent_dropout=0.2, seed=1)
    layer = ka.NTM(ka.NTMCell(2, 7, 5, controller))
    inputs, targets = echo(64, 5, seed=1)
    first, second = (np.array(layer(inputs, training=True)) for _ in range(2))
    assert not np.array_equal(first, second)
    assert_close(layer(inputs), layer(inputs, training=False), atol=0)
    model = keras.Sequential([layer])
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", jit_compile=False)
    loss = model.fit(inputs, targets, batch_size=16, epochs=8, verbose=0).history["loss"]
    assert loss[-1] < 0.97 * loss[0]
    assert controller._dropout_mask is None and controller._recurrent_dropout_mask is None


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 3, 7), r"built for `inputs` of width 11.*Received: inputs.shape=\(2, 3, 7\)"),
        ((2, 0, 11), r"at least one time step. Received: inputs.shape=\(2, 0, 11\)"),
        ((2, 11), r"\(batch, time, input_dim\).*Received: inputs.shape=\(2, 11\)"),
    ],
)
def test_inputs_are_checked(shape, message):
    layer = make_layer()
    layer.build((None, None, 11))
    with pytest.raises(ValueError, match=message):
        layer(np.ones(shape))


def test_inputs_of_unknown_width_are_refused():
    for shape in ((None, 11), (None, None, None)):
        with pytest.raises(
            ValueError, match=r"with a known input_dim, .*Received: inputs.shape=\("
        ):
            make_layer().build(shape)


def test_a_cell_of_another_kind_is_refused():
    for wrong in (LSTM(3), "ntm", None):
        with pytest.raises(
            ValueError, match=r"NTM expects `cell` to be an NTMCell.*Received: cell="
        ):
            ka.NTM(wrong)


def test_a_state_of_another_structure_is_refused():
    layer = make_layer(layer={"return_state": True})
    _, state = layer(draw_inputs())
    wrong = [
        {name: part for name, part in state.items() if name != "reads"},
        state | {"controller": state["controller"][:1]},
        state | {"memory": keras.ops.swapaxes(state["memory"], 1, 2)},
        state | {"more": state["reads"]},
        list(state.values()),
        state["memory"],
    ]
    for one in wrong:
        with pytest.raises(ValueError, match=r"dict as `NTMCell.start` returns it.*Received: "):
            layer(draw_inputs(), initial_state=one)


def test_a_mask_of_another_shape_is_refused():
    mask = keras.ops.convert_to_tensor(MASK[:, :3])
    with pytest.raises(ValueError, match=r"`mask` of shape \(batch, time\).*Received: mask.shape="):
        make_layer()(draw_inputs(), mask=mask)
