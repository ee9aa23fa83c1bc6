"""`NTMCell` against the paper in NumPy, its weights, its initial state, its errors."""

import keras
import numpy as np
import pytest
from ntm_reference import one_row, sigmoid, softmax
from seeds import set_seed

import keras_attention as ka

LSTM, DENSE = keras.layers.LSTMCell, keras.layers.Dense
SHIFTS = {
    "softmax": ka.SoftmaxShift(2),
    "scalar": ka.ScalarShift(2),
    "unbounded": ka.ScalarShift(None),
}


def make_cell(heads=(1, 1), controller="lstm", **options):
    """Returns a small cell in float64, built, every weight drawn."""
    set_seed(1)
    controller = LSTM(3, dtype="float64") if controller == "lstm" else controller
    if controller == "feed_forward":
        controller = DENSE(3, "tanh", dtype="float64")
    options = {"memory_size": 7, "word_size": 5, "dtype": "float64"} | options
    cell = ka.NTMCell(
        2, controller=controller, num_read_heads=heads[0], num_write_heads=heads[1], **options
    )
    cell.build((None, 11))
    random = np.random.RandomState(1)
    for weight in cell.weights:
        weight.assign(0.7 * random.randn(*weight.shape))
    return cell


def rows(state):
    """Returns the states of the rows of a batch."""
    arrays = keras.tree.map_structure(lambda part: np.array(part, "float64"), state)
    batch = len(arrays["memory"])
    return [keras.tree.map_structure(lambda part, i=i: part[i], arrays) for i in range(batch)]


@pytest.mark.parametrize("controller", ["lstm", "feed_forward"])
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize(
    ("heads", "read_from"), [((1, 1), "written"), ((2, 3), "written"), ((3, 2), "previous")]
)
def test_it_computes_what_the_paper_says(heads, read_from, shift, controller):
    activation = "linear" if read_from == "previous" else "tanh"
    cell = make_cell(
        heads, controller, shift=SHIFTS[shift], read_from=read_from, head_activation=activation
    )
    inputs = np.random.RandomState(2).randn(2, 4, 11)
    state = cell.start(2)
    expected = rows(state)
    for step in range(4):
        output, state = cell.step(inputs[:, step], state)
        outputs, expected = zip(
            *[
                one_row(cell, x, before)
                for x, before in zip(inputs[:, step], expected, strict=True)
            ],
            strict=True,
        )
        np.testing.assert_allclose(np.array(output), outputs, atol=1e-9)
        for one, other in zip(rows(state), expected, strict=True):
            keras.tree.map_structure(
                lambda a, b: np.testing.assert_allclose(a, b, atol=1e-8), one, other
            )


def test_numbers_of_the_heads_are_clipped():
    cell = make_cell(head_activation="linear")
    cell.head_kernel.assign(1e3 * np.array(cell.head_kernel))
    inputs, before = np.random.RandomState(2).randn(2, 11), cell.start(2)
    output, state = cell.step(inputs, before)
    for index, (x, row) in enumerate(zip(inputs, rows(before), strict=True)):
        expected, after = one_row(cell, x, row)
        np.testing.assert_allclose(np.array(output)[index], expected, atol=1e-9)
        np.testing.assert_allclose(np.array(state["memory"])[index], after["memory"], atol=1e-8)


#: Width of inputs and outputs; heads and sizes of the two controllers (SPEC's table).
TASKS = {
    "copy": (9, 8, (1, 100), (1, [100])),
    "repeat copy": (10, 9, (1, 100), (1, [100])),
    "associative recall": (8, 6, (4, 256), (1, [100])),
    "dynamic n-grams": (1, 1, (1, 100), (1, [100])),
    "priority sort": (9, 8, (8, 512), (5, [100, 100])),
}
#: Of our layout, with a constant initial memory, for feed-forward and LSTM.
COUNTS = {
    "copy": (13536, 62536),
    "repeat copy": (13757, 63057),
    "associative recall": (120486, 61894),
    "dynamic n-grams": (11889, 58489),
    "priority sort": (472200, 213848),
}


def count(inputs, outputs, heads, sizes, lstm, memory_size=128, word_size=20):
    """Returns the number of weights of the documented layout, as many heads read as write."""
    read = heads * word_size
    total, fed = 0, inputs + read
    for units in sizes:
        total += 4 * units * (fed + units + 1) if lstm else units * (fed + 1)
        fed = units
    a_head = word_size + 3 + 3  # key; strength, gate, sharpening; three shifts
    total += (fed + 1) * heads * (2 * a_head + 2 * word_size)  # erase and addition of write heads
    total += (fed + read + 1) * outputs
    return total + read + 2 * heads * memory_size  # the learned first reads and weights


@pytest.mark.parametrize("lstm", [False, True], ids=["feed_forward", "lstm"])
@pytest.mark.parametrize("task", TASKS)
def test_the_layout_of_weights_is_the_documented_one(task, lstm):
    inputs, outputs, *configurations = TASKS[task]
    heads, sizes = configurations[lstm]
    sizes = sizes if lstm else [sizes]
    cells = [LSTM(units) for units in sizes]
    stack = keras.layers.StackedRNNCells(cells) if len(cells) > 1 else cells[0]
    controller = stack if lstm else DENSE(sizes[0], "tanh")
    cell = ka.NTMCell(outputs, controller=controller, num_read_heads=heads, num_write_heads=heads)
    cell.build((None, inputs))
    assert cell.count_params() == count(inputs, outputs, heads, sizes, lstm) == COUNTS[task][lstm]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"controller": "feed_forward"}, 13536),
        ({"controller": "feed_forward", "initial_memory": "learned"}, 16096),
        ({"initial_memory": "learned", "initial_controller": "learned"}, 65296),
        ({"initial_weights": "first", "initial_reads": "zeros"}, 62536 - 20 - 256),
    ],
)
def test_parameter_counts_of_copying(options, expected):
    cell = ka.NTMCell(8, **options)
    cell.build((None, 9))
    assert cell.count_params() == expected
    assert [weight.name for weight in cell.weights][:4] == [
        "head_kernel",
        "head_bias",
        "output_kernel",
        "output_bias",
    ]


def test_weights_of_one_shape_start_apart():
    cell = ka.NTMCell(3, controller=LSTM(5), initial_controller="learned")
    cell.build((None, 7))
    one, other = (cell.initial_state.learned[f"initial_controller_{i}"] for i in (0, 1))
    assert not np.array_equal(np.array(one), np.array(other))


def test_the_default_initial_state():
    cell = make_cell((2, 3))
    state = cell.start(4)
    assert {name: np.shape(part) for name, part in state.items() if name != "controller"} == {
        "memory": (4, 7, 5),
        "reads": (4, 2, 5),
        "read_weights": (4, 2, 7),
        "write_weights": (4, 3, 7),
    }
    np.testing.assert_array_equal(np.array(state["memory"]), np.full((4, 7, 5), 1e-6))
    for part in state["controller"]:
        np.testing.assert_array_equal(np.array(part), np.zeros((4, 3)))
    learned = {name: np.array(value) for name, value in cell.initial_state.learned.items()}
    reads = np.tanh(learned["initial_reads"]).reshape(2, 5)
    weights = np.array([softmax(row) for row in learned["initial_weights"]])
    for row in range(4):
        np.testing.assert_allclose(np.array(state["reads"])[row], reads, atol=1e-12)
        np.testing.assert_allclose(np.array(state["read_weights"])[row], weights[:2], atol=1e-12)
        np.testing.assert_allclose(np.array(state["write_weights"])[row], weights[2:], atol=1e-12)


def test_the_other_initial_states():
    cell = make_cell(
        initial_memory="learned",
        initial_reads="zeros",
        initial_weights="first",
        initial_controller="learned",
    )
    state, learned = cell.start(2), cell.initial_state.learned
    np.testing.assert_array_equal(np.array(state["memory"])[1], np.array(learned["initial_memory"]))
    np.testing.assert_array_equal(np.array(state["reads"]), np.zeros((2, 1, 5)))
    np.testing.assert_array_equal(np.array(state["write_weights"])[1, 0], np.eye(7)[0])
    for index in (0, 1):
        expected = np.tanh(np.array(learned[f"initial_controller_{index}"]))
        np.testing.assert_allclose(np.array(state["controller"][index])[1], expected, atol=1e-12)


@pytest.mark.parametrize("read_from", ["written", "previous"])
@pytest.mark.parametrize("controller", ["lstm", "feed_forward"])
@pytest.mark.parametrize("masked", [False, True])
def test_keras_own_recurrent_layer_computes_what_ntm_does(controller, read_from, masked):
    cell = make_cell((2, 1), controller, read_from=read_from)
    inputs = np.random.RandomState(3).randn(3, 5, 11)
    mask = np.array([[1, 1, 1, 1, 1], [0, 1, 0, 1, 0], [1, 1, 0, 0, 0]], bool)
    options = {"mask": keras.ops.convert_to_tensor(mask)} if masked else {}
    layer = keras.layers.RNN(cell, return_sequences=True, return_state=True, dtype="float64")
    expected, *states = layer(inputs, **options)
    outputs, state = ka.NTM(cell, return_state=True)(inputs, **options)
    kept = mask if masked else np.ones_like(mask)
    np.testing.assert_allclose(np.array(outputs)[kept], np.array(expected)[kept], atol=1e-12)
    assert np.all(np.array(outputs)[~kept] == 0)
    packed = keras.tree.flatten([state["controller"]]) + [
        state[name] for name in ("memory", "reads", "read_weights", "write_weights")
    ]
    for one, other in zip(packed, states, strict=True):
        np.testing.assert_allclose(np.reshape(one, np.shape(other)), np.array(other), atol=1e-12)


def test_it_runs_in_a_stateful_recurrent_layer():
    """The second call goes on where the first ended, whatever the weights were at the build."""
    lstm = LSTM(3, dtype="float64")
    cell = ka.NTMCell(3, 7, 5, lstm, initial_controller="learned", dtype="float64")
    inputs = np.random.RandomState(4).randn(2, 6, 11)
    layer = keras.layers.RNN(cell, return_sequences=True, stateful=True, dtype="float64")
    layer.build((2, 3, 11))
    random = np.random.RandomState(5)
    cell.set_weights([random.randn(*weight.shape) for weight in cell.weights])
    expected = keras.layers.RNN(cell, return_sequences=True, dtype="float64")(inputs)
    np.testing.assert_allclose(expected, ka.NTM(cell)(inputs), atol=1e-12)
    for _ in range(2):
        halves = [np.array(layer(half)) for half in (inputs[:, :3], inputs[:, 3:])]
        np.testing.assert_allclose(np.concatenate(halves, 1), np.array(expected), atol=1e-12)
        layer.reset_state()


def test_rows_start_one_by_one():
    cell = make_cell()
    inputs = np.random.RandomState(4).randn(2, 11)
    _, states = cell(inputs, cell.get_initial_state(2))
    mixed = [np.array(state) * np.array([[1.0], [0.0]]) for state in states]
    _, found = cell(inputs, mixed)
    _, goes_on = cell(inputs, states)
    for one, going, starting in zip(found, goes_on, states, strict=True):
        np.testing.assert_allclose(one[0], going[0], atol=1e-12)
        np.testing.assert_allclose(one[1], starting[1], atol=1e-12)


class Width(keras.layers.Layer):
    """A layer without `training`, whose output has the rank asked for."""

    def __init__(self, rank):
        super().__init__()
        self.rank = rank

    def call(self, inputs):
        return inputs if self.rank == 2 else keras.ops.expand_dims(inputs, 1)


def test_any_layer_may_be_the_controller():
    cell = ka.NTMCell(2, 7, 5, controller=Width(2))
    outputs = keras.layers.RNN(cell)(np.ones((3, 4, 11), "float32"))
    assert outputs.shape == (3, 2) and cell.head_kernel.shape[0] == 11 + 5
    model = keras.Sequential([DENSE(13, "relu"), DENSE(3)])
    cell = ka.NTMCell(2, 7, 5, controller=model)
    assert keras.layers.RNN(cell)(np.ones((3, 4, 11), "float32")).shape == (3, 2)


def test_a_cell_all_in_half_precision_can_be_built():
    for controller in ("lstm", "feed_forward"):
        cell = ka.NTMCell(2, 7, 5, controller=controller, dtype="bfloat16")
        outputs = keras.layers.RNN(cell, dtype="bfloat16")(np.ones((3, 4, 11), "float32"))
        assert np.isfinite(np.array(outputs, "float32")).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"controller": DENSE(3, activity_regularizer="l2", name="some")},
            r"without `activity_regularizer`.*Received: controller='some'",
        ),
        ({"output_dim": 0}, r"`output_dim` to be a positive int.*output_dim=0"),
        ({"memory_size": -1}, r"`memory_size` to be a positive int.*memory_size=-1"),
        ({"word_size": 0}, r"`word_size` to be a positive int.*word_size=0"),
        ({"word_size": 2.0}, r"`word_size` to be a positive int.*word_size=2.0"),
        ({"num_read_heads": 0}, r"`num_read_heads` to be a positive int.*num_read_heads=0"),
        ({"num_write_heads": 0}, r"`num_write_heads` to be a positive int.*num_write_heads=0"),
        (
            {"shift": ka.SoftmaxShift(3), "memory_size": 6},
            r"at least 7 slots, or a smaller max_shift. Received: memory_size=6, "
            r"shift=SoftmaxShift\(max_shift=3",
        ),
        ({"memory_size": 2}, r"at least 3 slots, or a smaller max_shift"),
        (
            {"shift": ka.ScalarShift(2), "memory_size": 4},
            r"at least 5 slots, or a smaller max_shift",
        ),
        ({"shift": "cubic"}, r"'softmax', 'scalar'.*Received: shift='cubic'"),
        ({"read_from": "next"}, r"'written', 'previous'.*read_from='next'"),
        ({"head_activation": "relu"}, r"'tanh', 'linear'.*head_activation='relu'"),
        ({"initial_memory": "zeros"}, r"finite number or 'learned'.*initial_memory='zeros'"),
        ({"initial_memory": np.inf}, r"finite number or 'learned'.*initial_memory=inf"),
        ({"initial_reads": "first"}, r"'learned', 'zeros'.*initial_reads='first'"),
        ({"initial_weights": "zeros"}, r"'learned', 'first'.*initial_weights='zeros'"),
        ({"initial_controller": None}, r"'zeros', 'learned'.*initial_controller=None"),
        ({"controller": "gru"}, r"'lstm', 'feed_forward'.*controller='gru'"),
        ({"controller": 100}, r"Keras cell or layer.*controller=100"),
        ({"controller": keras.layers.LSTM(3)}, r"the cell of a recurrent layer.*controller=<LSTM"),
    ],
)
def test_arguments_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        ka.NTMCell(**({"output_dim": 3} | options))


def _built(layer, width):
    layer.build((None, width))
    return layer


@pytest.mark.parametrize(
    ("controller", "message"),
    [
        (lambda: _built(LSTM(3), 7), r"here 16; .*Received: .*built for the width 7"),
        (lambda: _built(DENSE(3), 7), r"here 16; .*Received: .*built for the width 7"),
        (
            lambda: _built(keras.layers.StackedRNNCells([LSTM(3), LSTM(5)]), 7),
            r"here 16; .*Received: .*built for the width 7",
        ),
        (lambda: _built(keras.Sequential([DENSE(3)]), 7), r"here 16; .*Received: controller='seq"),
        (lambda: Width(3), r"of the shape \(batch, units\)|shape \(None, 1, 16\)"),
    ],
)
def test_a_controller_that_does_not_fit_is_refused(controller, message):
    cell = ka.NTMCell(2, 7, 5, controller=controller())
    with pytest.raises(ValueError, match=message):
        cell.build((None, 11))


def test_inputs_without_a_known_width_are_refused():
    for shape in ((None, None), (None, 3, 11)):
        with pytest.raises(
            ValueError, match=r"\(batch, input_dim\) .*Received: inputs.shape=\(None"
        ):
            ka.NTMCell(2).build(shape)


def test_a_state_of_another_structure_is_refused():
    cell, inputs = make_cell(), np.ones((2, 11))
    states = cell.get_initial_state(2)
    for wrong in (states[:-1], [*states, states[0]], states[::-1], states[0], [None] * 6):
        with pytest.raises(ValueError, match=r"sizes \[3, 3, 35, 5, 7, 7\].*Received: shapes="):
            cell(inputs, wrong)
    layer = keras.layers.RNN(cell, dtype="float64")
    with pytest.raises(ValueError, match=r"sizes \[3, 3, 35, 5, 7, 7\]|initial_state"):
        layer(inputs[:, None], initial_state=[*states[:-1], states[0]])


def test_plain_methods_need_weights_and_values():
    with pytest.raises(ValueError, match="NTMCell has no weights yet"):
        ka.NTMCell(3).start(2)
    cell = make_cell()
    with pytest.raises(ValueError, match="not on symbolic tensors"):
        cell.step(keras.KerasTensor((2, 11)), cell.start(2))


def test_dropout_that_keras_recurrent_layer_cannot_draw_is_refused():
    cell = ka.NTMCell(2, 7, 5, controller=LSTM(3, dropout=0.5))
    layer, inputs = keras.layers.RNN(cell), np.ones((2, 3, 11), "float32")
    assert layer(inputs).shape == (2, 2)
    with pytest.raises(ValueError, match=r"Run it in `NTM`.*Received: cell.dropout=0.5"):
        layer(inputs, training=True)


def test_outputs_have_the_activation_asked_for():
    cell = make_cell()
    inputs, state = np.ones((2, 11)), cell.start(2)
    expected = np.array(cell.step(inputs, state)[0])
    cell.activation = keras.activations.linear
    np.testing.assert_allclose(expected, sigmoid(np.array(cell.step(inputs, state)[0])), atol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("policy", "stateful", "jit_compile"),
    [
        ("mixed_float16", False, False),
        ("mixed_float16", True, True),
        ("mixed_bfloat16", True, False),
    ],
)
def test_half_precision_in_the_graphs_of_keras(policy, stateful, jit_compile):
    cell = ka.NTMCell(3, 7, 5, keras.layers.Dense(4), dtype=policy)
    layer = keras.layers.RNN(cell, return_sequences=True, stateful=stateful, dtype=policy)
    inputs = keras.Input(batch_shape=(2, 6, 4))
    model = keras.Model(inputs, layer(inputs))
    data = np.random.RandomState(1).randn(2, 6, 4).astype("float32")
    model.compile("sgd", "mse", jit_compile=jit_compile)
    predicted = model.predict(data, batch_size=2, verbose=0)
    assert predicted.shape == (2, 6, 3) and np.isfinite(predicted).all()
    history = model.fit(data, np.ones((2, 6, 3)), batch_size=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()


def test_a_step_in_half_precision_keeps_its_dict_in_float32():
    cell = ka.NTMCell(3, 7, 5, dtype="mixed_float16")
    cell.build((2, 4))
    _, state = cell.step(keras.ops.ones((2, 4)), cell.start(2))
    kinds = {keras.backend.standardize_dtype(part.dtype) for part in keras.tree.flatten(state)}
    assert kinds == {"float32"}
