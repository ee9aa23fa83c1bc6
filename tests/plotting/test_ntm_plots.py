"""Pictures of bits and of a memory's use: what is drawn where, and what is refused."""

import numpy as np
import pytest
from drawn_figures import assert_legible, draw, texts

from keras_attention.plotting import _fonts, plot_bits, plot_memory_use

matplotlib = pytest.importorskip("matplotlib")

GENERATOR = np.random.default_rng(1)
STEPS, CHANNELS, BITS, SLOTS, SLOT_DIM = 7, 5, 3, 11, 2
INPUTS = GENERATOR.integers(0, 2, (STEPS, CHANNELS))
OUTPUTS = GENERATOR.random((STEPS, BITS))


def on_slots(*heads, steps=STEPS, slots=SLOTS):
    """Returns weights `(steps, heads, slots)` of heads that stand on these slots, step by step."""
    weights = np.zeros((steps, len(heads), slots))
    for head, places in enumerate(heads):
        weights[np.arange(steps), head, places] = 1.0
    return weights


DIAGONAL = on_slots(range(2, 2 + STEPS))


def read_image(axes):
    return np.asarray(axes.images[0].get_array())


def titles(figure):
    return [ax.get_title(loc="left") for ax in figure.axes]


def assert_inside(figure):
    """Asserts that nothing is cut off at the figure's edges, and that every text is legible."""
    draw(figure)
    assert_legible(figure)
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height


def bit_panels(figure):
    return [ax for ax in figure.axes if ax.get_ylabel()]


def test_targets_stand_above_outputs_with_time_from_left_to_right():
    targets = GENERATOR.integers(0, 2, (STEPS, BITS))
    figure = plot_bits([targets], [OUTPUTS], titles=["seven"])
    above, below, bar = figure.axes
    np.testing.assert_array_equal(read_image(above), targets.T)
    np.testing.assert_allclose(read_image(below), OUTPUTS.T, rtol=1e-6)
    assert [above.get_ylabel(), below.get_ylabel()] == ["targets", "outputs"]
    assert above.get_position().y0 > below.get_position().y1
    assert above.yaxis_inverted() and not above.xaxis_inverted()
    assert titles(figure) == ["seven", "", ""]
    assert bar.get_ylim() == (0, 1) and texts(bar.get_yticklabels()) == ["0", "0.5", "1"]
    assert_inside(figure)


def test_all_bits_have_one_color_scale_in_which_darker_is_more():
    figure = plot_bits([np.zeros((2, 3))] * 2, [np.full((2, 3), 0.25)] * 2)
    images = [ax.images[0] for ax in bit_panels(figure)]
    assert {image.get_clim() for image in images} == {(0, 1)}
    brightness = images[0].cmap(images[0].norm([0.0, 0.25, 0.5, 1.0]))[:, :3].sum(axis=1)
    assert (np.diff(brightness) < 0).all()


def test_lengths_in_a_column_share_one_size_of_cell():
    lengths = (10, 20, 120)
    bits = [GENERATOR.integers(0, 2, (length, 8)) for length in lengths]
    figure = plot_bits(bits, bits, titles=[f"length {length}" for length in lengths])
    panels = bit_panels(figure)
    assert [read_image(ax).shape[1] for ax in panels] == [10, 10, 20, 20, 120, 120]
    across = [ax.get_window_extent().width / read_image(ax).shape[1] for ax in panels]
    down = [ax.get_window_extent().height / read_image(ax).shape[0] for ax in panels]
    np.testing.assert_allclose(across + down, across[0], rtol=1e-3)
    assert across[0] >= 0.08 * figure.dpi, "a cell of 120 steps can be told from the next"
    lefts = [ax.get_window_extent().x0 for ax in panels]
    np.testing.assert_allclose(lefts, lefts[0], atol=0.01)
    assert max(figure.get_size_inches()) < 15
    assert_inside(figure)


@pytest.mark.parametrize("titles", [None, ["one", "long", "two", "wide"]])
def test_panels_and_their_color_bar_never_overlap(titles):
    bits = [GENERATOR.random(shape) for shape in ((1, 1), (211, 1), (2, 1), (3, 8))]
    figure = plot_bits(bits, bits, titles=titles)
    draw(figure)
    boxes = [ax.get_window_extent() for ax in figure.axes]
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])


def test_a_single_step_of_a_single_bit_is_drawn():
    figure = plot_bits([[[1]]], [[[0.5]]])
    assert [read_image(ax).tolist() for ax in bit_panels(figure)] == [[[1.0]], [[0.5]]]
    assert_inside(figure)


def test_half_precision_tensors_are_drawn():
    import keras

    half = keras.ops.cast(OUTPUTS, "bfloat16")
    figure = plot_bits([np.round(OUTPUTS).astype("float16")], [half])
    np.testing.assert_allclose(read_image(figure.axes[1]), OUTPUTS.T, atol=4e-3)
    weights = DIAGONAL.astype("float16")
    figure = plot_memory_use(INPUTS.astype("float16"), half, weights, weights)
    np.testing.assert_array_equal(read_image(figure.axes[2]), DIAGONAL[:, 0, 2:9].T)


def test_titles_of_any_script_are_drawn_and_missing_fonts_named_once(monkeypatch):
    figure = plot_bits([OUTPUTS], [OUTPUTS], titles=["$длина$ 7"])
    draw(figure)
    assert titles(figure)[0] == "$длина$ 7"
    monkeypatch.setattr(_fonts, "_advised_fonts", set())
    monkeypatch.setattr(_fonts, "choose_families", lambda texts: (["DejaVu Sans"], {"年"}))
    with pytest.warns(UserWarning, match="No installed font contains 年") as caught:
        figure = plot_bits([OUTPUTS], [OUTPUTS], titles=["年a"])
    assert len(caught) == 1 and caught[0].filename == __file__
    assert titles(figure)[0] == "□a"
    monkeypatch.setattr(_fonts, "_advised_fonts", set())
    with pytest.warns(UserWarning, match="No installed font contains 年") as caught:
        figure = plot_memory_use(INPUTS, OUTPUTS, DIAGONAL, DIAGONAL, title="年b")
    assert len(caught) == 1 and caught[0].filename == __file__
    assert texts(figure.axes[0].texts) == ["□b"]


def test_heads_stand_below_inputs_and_outputs_on_one_time_axis():
    reading = on_slots([8] + [2] * (STEPS - 1))
    figure = plot_memory_use(INPUTS, OUTPUTS, DIAGONAL, reading, title="Copy")
    ends, heads = figure.axes[:2], figure.axes[2:4]
    assert titles(figure)[:4] == ["inputs", "outputs", "write weights", "read weights"]
    np.testing.assert_array_equal(read_image(ends[0]), INPUTS.T)
    np.testing.assert_allclose(read_image(ends[1]), OUTPUTS.T, rtol=1e-6)
    np.testing.assert_array_equal(read_image(heads[0]), np.eye(7))
    np.testing.assert_array_equal(read_image(heads[1])[[0, 6]], [[0] + [1] * 6, [1] + [0] * 6])
    for end, head in zip(ends, heads, strict=True):
        above, below = end.get_window_extent(), head.get_window_extent()
        assert above.y0 > below.y1
        assert (above.x0, above.x1) == pytest.approx((below.x0, below.x1))
        assert head.yaxis_inverted() and head.images[0].get_clim() == (0, 1)
    assert heads[0].get_window_extent().x1 < heads[1].get_window_extent().x0
    assert texts(figure.axes[0].texts) == ["Copy"]
    assert_inside(figure)


def test_only_the_slots_in_use_are_drawn_and_named():
    weights = on_slots([5, 6, 8], steps=3) * 0.9 + 0.1 / 12  # 0.1 is spread over all the others
    figure = plot_memory_use(INPUTS[:3], OUTPUTS[:3], weights, weights)
    for ax in figure.axes[2:4]:
        assert read_image(ax).shape == (4, 3), "slot 7 lies between two that are in use"
        assert ax.get_ylabel() == "slots\n5 to 8 of 11"
        shown = zip(ax.get_yticks(), texts(ax.get_yticklabels()), strict=True)
        assert all(int(text) == 5 + place for place, text in shown)
    np.testing.assert_allclose(read_image(figure.axes[2]), weights[:, 0, 5:9].T, rtol=1e-6)


def test_slots_in_use_on_both_sides_of_the_rings_end_stay_together():
    weights = on_slots(np.arange(9, 9 + 4) % SLOTS, steps=4)
    figure = plot_memory_use(INPUTS[:4], OUTPUTS[:4], weights, weights)
    ax = figure.axes[2]
    np.testing.assert_array_equal(read_image(ax), np.eye(4))
    assert ax.get_ylabel() == "slots\n9 to 10,\n0 to 1 of 11"
    shown = dict(zip(ax.get_yticks(), texts(ax.get_yticklabels()), strict=True))
    assert all(int(text) == (9 + place) % SLOTS for place, text in shown.items())


@pytest.mark.parametrize("used", [[0, 1, 2, 3, 4], []])
def test_all_slots_are_drawn_in_order_when_all_or_none_are_in_use(used):
    weights = np.zeros((5, 1, 5))
    weights[used, 0, used] = 1.0
    figure = plot_memory_use(INPUTS[:5], OUTPUTS[:5], weights, weights)
    np.testing.assert_array_equal(read_image(figure.axes[2]), weights[:, 0].T)
    assert figure.axes[2].get_ylabel() == "all 5 slots"
    assert_inside(figure)


def test_one_slot_in_use_is_drawn_alone():
    weights = on_slots([4] * STEPS)
    figure = plot_memory_use(INPUTS, OUTPUTS, weights, weights)
    np.testing.assert_array_equal(read_image(figure.axes[3]), np.ones((1, STEPS)))
    assert figure.axes[3].get_ylabel() == "slots\n4 to 4 of 11"


def test_several_heads_stand_one_below_the_other():
    writing = on_slots([1] * STEPS, range(1, 8), [7] * STEPS)
    reading = on_slots(range(8, 1, -1), [3] * STEPS)  # slot 8: in use only here
    figure = plot_memory_use(INPUTS, OUTPUTS, writing, reading)
    heads = figure.axes[2:7]
    assert titles(figure)[2:7] == [
        "write weights, head 1",
        "write weights, head 2",
        "write weights, head 3",
        "read weights, head 1",
        "read weights, head 2",
    ]
    together = np.concatenate([writing, reading], axis=1)[:, :, 1:9]
    for number, ax in enumerate(heads):
        np.testing.assert_array_equal(read_image(ax), together[:, number].T)
    tops = [ax.get_window_extent().y1 for ax in heads]
    assert tops[0] > tops[1] > tops[2] and tops[3:] == pytest.approx(tops[:2])
    assert_inside(figure)


def test_the_memory_stands_beside_the_weights_row_by_row():
    memory_matrix = GENERATOR.normal(size=(SLOTS, SLOT_DIM)) * 3
    figure = plot_memory_use(INPUTS, OUTPUTS, DIAGONAL, DIAGONAL, memory_matrix=memory_matrix)
    reading, ax = figure.axes[3], figure.axes[5]
    np.testing.assert_allclose(read_image(ax), memory_matrix[2:9], rtol=1e-6)
    low, high = ax.images[0].get_clim()
    assert high == pytest.approx(np.abs(memory_matrix[2:9]).max()) and low == -high, "0 is white"
    beside, box = reading.get_window_extent(), ax.get_window_extent()
    assert (box.y0, box.y1) == pytest.approx((beside.y0, beside.y1)) and box.x0 > beside.x1
    assert_inside(figure)


def test_inputs_below_zero_are_red_and_those_above_blue():
    inputs = np.array([[-1.6], [0.0], [1.6]])
    image = plot_memory_use(inputs, OUTPUTS[:3], DIAGONAL[:3], DIAGONAL[:3]).axes[0].images[0]
    below, zero, above = image.cmap(image.norm(inputs[:, 0]))
    assert below[0] > below[2] and above[2] > above[0] and zero[:3].min() > 0.95


@pytest.mark.parametrize("steps", [1, 2, 241])
def test_few_and_many_steps_fit(steps):
    weights = on_slots(np.arange(steps) % 128, steps=steps, slots=128)
    memory_matrix = GENERATOR.normal(size=(128, 20))
    figure = plot_memory_use(
        np.ones((steps, 9)),
        np.ones((steps, 8)),
        weights,
        weights,
        memory_matrix=memory_matrix,
        title="Copy",
    )
    assert_inside(figure)
    assert max(figure.get_size_inches()) < 20
    boxes = [ax.get_window_extent() for ax in figure.axes]
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])
    for ax in figure.axes:
        labels = [label.get_window_extent() for label in ax.get_xticklabels()]
        assert all(a.x1 <= b.x0 for a, b in zip(labels, labels[1:], strict=False))


def test_pyplot_and_global_settings_are_left_alone(tmp_path):
    import matplotlib.pyplot as plt

    settings, figures = dict(matplotlib.rcParams), plt.get_fignums()
    plot_bits([OUTPUTS], [OUTPUTS]).savefig(tmp_path / "bits.png")
    plot_memory_use(INPUTS, OUTPUTS, DIAGONAL, DIAGONAL).savefig(tmp_path / "use.svg")
    assert (tmp_path / "bits.png").read_bytes()[:4] == b"\x89PNG"
    assert dict(matplotlib.rcParams) == settings and plt.get_fignums() == figures


@pytest.mark.parametrize(
    ("targets", "outputs", "options", "message"),
    [
        ([], [], {}, "at least one example.*Received: 0 targets, 0 outputs, 0 titles"),
        ([OUTPUTS], [OUTPUTS] * 2, {}, "1 targets, 2 outputs"),
        ([OUTPUTS], [OUTPUTS], {"titles": ["a", "b"]}, "1 outputs, 2 titles"),
        (OUTPUTS, OUTPUTS, {}, r"`targets` of shape \(time, bits\).*targets.shape=\(3,\)"),
        ([OUTPUTS], [OUTPUTS[:4]], {}, r"`outputs` .*, here \(7, 3\).*outputs.shape=\(4, 3\)"),
        ([OUTPUTS[:0]], [OUTPUTS[:0]], {}, r"none of them 0.*targets.shape=\(0, 3\)"),
        ([OUTPUTS], [OUTPUTS * 9 - 4], {}, "from 0 to 1; `keras.ops.sigmoid`.*numbers from -"),
        ([OUTPUTS * np.nan], [OUTPUTS], {}, "`targets` to be finite"),
        ([OUTPUTS], [[["a"] * 3] * 7], {}, "`outputs` to be an array of numbers"),
    ],
)
def test_wrong_bits_are_refused(targets, outputs, options, message):
    with pytest.raises(ValueError, match=f"^plot_bits expects .*{message}"):
        plot_bits(targets, outputs, **options)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"inputs": INPUTS[None]}, r"\(time, input_dim\).*one batch element.*shape=\(1, 7, 5\)"),
        ({"inputs": np.full((7, 5), np.inf)}, "`inputs` to be finite"),
        ({"outputs": OUTPUTS[:6]}, r"here \(7, any\).*outputs.shape=\(6, 3\)"),
        ({"outputs": OUTPUTS * 3}, "`outputs` to be numbers from 0 to 1; `keras.ops.sigmoid`"),
        ({"write_weights": DIAGONAL[:, 0]}, r"\(time, write_heads, slots\).*shape=\(7, 11\)"),
        ({"write_weights": DIAGONAL[:, :0]}, r"none of them 0.*write_weights.shape=\(7, 0, 11\)"),
        ({"read_weights": DIAGONAL[:, :, :9]}, r"here \(7, any, 11\).*shape=\(7, 1, 9\)"),
        ({"read_weights": DIAGONAL - 0.5}, "`read_weights` to be numbers from 0 to 1"),
        (
            {"memory_matrix": np.ones((9, 2))},
            r"\(slots, word_size\), here \(11, any\).*shape=\(9, 2\)",
        ),
        ({"memory_matrix": np.full((11, 2), np.nan)}, "`memory_matrix` to be finite"),
    ],
)
def test_wrong_uses_of_a_memory_are_refused(changed, message):
    given = {"inputs": INPUTS, "outputs": OUTPUTS}
    given |= {"write_weights": DIAGONAL, "read_weights": DIAGONAL} | changed
    with pytest.raises(ValueError, match=f"^plot_memory_use expects .*{message}"):
        plot_memory_use(**given)
