"""Alignment pictures: what is drawn, in any script, and what is refused."""

import warnings

import numpy as np
import pytest
from drawn_figures import assert_inside, draw, texts

from keras_attention.plotting import _fonts, plot_alignment, plot_alignments

matplotlib = pytest.importorskip("matplotlib")

WEIGHTS = np.array([[0.75, 0.25, 0.0], [0.0, 0.125, 0.875]], "float32")
SOURCE = ["das", "Haus", "</s>"]
TARGET = ["house", "</s>"]


def test_tokens_and_weights_are_drawn_where_they_belong():
    figure = plot_alignment(WEIGHTS, SOURCE, TARGET, title="One house")
    ax = figure.axes[0]
    assert texts(ax.get_xticklabels()) == SOURCE and texts(ax.get_yticklabels()) == TARGET
    assert ax.get_xticks().tolist() == [0, 1, 2] and ax.get_yticks().tolist() == [0, 1]
    np.testing.assert_array_equal(ax.images[0].get_array(), WEIGHTS)
    assert ax.images[0].get_clim() == (0, 1)
    assert ax.yaxis_inverted(), "the first target token must be on top"
    assert ax.xaxis.get_ticks_position() == "top"
    assert ax.get_title(loc="left") == "One house"
    draw(figure)


def test_the_color_bar_runs_from_zero_to_one():
    figure = plot_alignment(WEIGHTS * 0.1, SOURCE, TARGET)
    bar = figure.axes[0].child_axes[0]
    assert bar.get_ylim() == (0, 1)
    assert texts(bar.get_yticklabels()) == ["0.0", "0.5", "1.0"]


def test_darker_means_more_weight():
    figure = plot_alignment(WEIGHTS, SOURCE, TARGET)
    image = figure.axes[0].images[0]
    brightness = image.cmap(image.norm([0.0, 0.25, 0.5, 1.0]))[:, :3].sum(axis=1)
    assert (np.diff(brightness) < 0).all()


def test_rows_of_zeros_are_drawn_as_nothing():
    figure = plot_alignment(np.zeros((2, 3)), SOURCE, TARGET)
    assert figure.axes[0].images[0].get_array().max() == 0
    draw(figure)


def test_bytes_and_tensors_are_accepted_as_they_come():
    import keras

    weights = keras.ops.cast(keras.ops.convert_to_tensor(WEIGHTS), "bfloat16")
    source = np.array([token.encode() for token in ["Tür", "Haus", "</s>"]], dtype=object)
    figure = plot_alignment(weights, source, TARGET)
    assert texts(figure.axes[0].get_xticklabels()) == ["Tür", "Haus", "</s>"]
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), WEIGHTS)


def test_dollars_and_backslashes_are_letters_not_formulas():
    figure = plot_alignment(WEIGHTS, ["$x_1$", "\\frac", "a_b"], TARGET, title="$5 and $6")
    draw(figure)
    labels = figure.axes[0].get_xticklabels()
    assert texts(labels) == ["$x_1$", "\\frac", "a_b"]
    assert not any(label.get_parse_math() for label in labels)


def test_spaces_and_controls_can_be_seen():
    figure = plot_alignment(np.full((1, 6), 1 / 6), [" ", "\t", "a\nb", "\x00", "\ud800", ""], "c")
    labels = texts(figure.axes[0].get_xticklabels())
    assert labels == ["␣", "⇥", "a↵b", "\ufffd", "\ufffd", ""]
    draw(figure)


def test_any_script_is_drawn_without_warning_when_a_font_holds_it():
    figure = plot_alignment(WEIGHTS, ["السماء", "שלום", "четверг"], ["γ", "ế"], title="العربية")
    assert texts(figure.axes[0].get_xticklabels()) == ["السماء", "שלום", "четверг"]
    draw(figure)


def test_characters_without_a_font_are_boxes_and_named_in_one_warning(monkeypatch):
    monkeypatch.setattr(_fonts, "_advised_fonts", set())
    monkeypatch.setattr(_fonts, "choose_families", lambda texts: (["DejaVu Sans"], {"年", "月"}))
    with pytest.warns(
        UserWarning, match="No installed font contains 年 .U.5E74. 月 .*apt"
    ) as caught:
        figure = plot_alignment(WEIGHTS, ["年", "年月a", "3"], TARGET, title="月")
    assert len(caught) == 1 and caught[0].filename == __file__
    assert texts(figure.axes[0].get_xticklabels()) == ["□", "□□a", "3"]
    draw(figure)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # this process knows
        plot_alignments([(WEIGHTS, "年月a", "bc")] * 3)


def test_short_labels_stand_upright_and_long_ones_are_turned():
    upright = plot_alignment(np.eye(8), [*"ab cdef", "</s>"], [*"abcdefgh"])
    rotations = [label.get_rotation() for label in upright.axes[0].get_xticklabels()]
    assert rotations == [0] * 7 + [45]
    turned = plot_alignment(WEIGHTS, ["Fenster", "Leiter", "a"], TARGET)
    assert {label.get_rotation() for label in turned.axes[0].get_xticklabels()} == {45}


@pytest.mark.parametrize("size", [3, 23, 61, 211])
def test_labels_never_overlap_and_stay_inside(size):
    figure = plot_alignment(np.eye(size), [f"w{i}" for i in range(size)], ["longer"] * size)
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    labels = figure.axes[0].get_yticklabels()
    boxes = [label.get_window_extent(renderer) for label in labels]
    assert all(above.y0 >= below.y1 - 1 for above, below in zip(boxes, boxes[1:], strict=False))
    inside = figure.get_tightbbox(renderer)
    assert inside.x0 >= -0.01 and inside.x1 <= figure.get_size_inches()[0] + 0.01
    assert max(figure.get_size_inches()) < 16


@pytest.mark.parametrize(("rows", "columns"), [(200, 200), (5, 300), (300, 5), (1, 1)])
def test_letters_of_large_alignments_are_readable(rows, columns):
    """They had 5 points, and the rows of 5 x 300 were as thin as its columns."""
    figure = plot_alignment(np.eye(rows, columns), ["token"] * columns, ["token"] * rows)
    ax = figure.axes[0]
    labels = [*ax.get_xticklabels(), *ax.get_yticklabels()]
    assert min(label.get_fontsize() for label in labels) >= 7.5
    assert max(figure.get_size_inches()) < 16
    assert_inside(figure)
    for labels, low, high in (
        (ax.get_xticklabels(), "x0", "x1"),
        (ax.get_yticklabels()[::-1], "y0", "y1"),
    ):
        boxes = [label.get_window_extent() for label in labels]
        pairs = zip(boxes, boxes[1:], strict=False)
        assert all(getattr(a, high) <= getattr(b, low) + 1 for a, b in pairs)
    if min(rows, columns) == 5:
        short = ax.get_yticklabels() if rows == 5 else ax.get_xticklabels()
        assert len(short) == 5, "the short side has all its tokens"


def test_the_scale_may_be_that_of_the_weights():
    even = np.full((2, 100), 0.01)
    tokens = ["w"] * 100
    figure = plot_alignment(even, tokens, "ab", vmax=None)
    assert figure.axes[0].images[0].get_clim() == (0, pytest.approx(0.04))
    assert plot_alignment(even, tokens, "ab").axes[0].images[0].get_clim() == (0, 1)
    assert plot_alignment(even, tokens, "ab", vmax=0.5).axes[0].images[0].get_clim() == (0, 0.5)
    zeros = plot_alignment(even * 0, tokens, "ab", vmax=None)
    assert zeros.axes[0].images[0].get_clim() == (0, 1)
    pair = plot_alignments([(even, tokens, "ab"), (WEIGHTS, SOURCE, TARGET)], vmax=None)
    assert [ax.images[0].get_clim() for ax in pair.axes[:2]] == [(0, pytest.approx(0.875))] * 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cmap": "Bluse"}, "`cmap` to be the name of a matplotlib colormap.*cmap='Bluse'"),
        ({"vmax": 0}, "vmax=0"),
        ({"vmax": 2.0}, "vmax=2.0"),
        ({"vmax": "full"}, "vmax='full'"),
    ],
)
def test_wrong_colors_are_refused(options, message):
    with pytest.raises(ValueError, match=f"plot_alignment .*{message}"):
        plot_alignment(WEIGHTS, SOURCE, TARGET, **options)
    with pytest.raises(ValueError, match=f"plot_alignments .*{message}"):
        plot_alignments([(WEIGHTS, SOURCE, TARGET)], **options)


LONG = "x" * 130
LINES = "One\ntwo\nand a third, which is much wider than the map below it"


@pytest.mark.parametrize(
    ("source", "target", "title"),
    [
        (SOURCE, [LONG, "</s>"], None),
        ([LONG, LONG[1:], "a"], ["W" * 120, "b"], None),
        (["W" * 8, "M" * 8, "@"], ["W" * 12, "M" * 9], "One house"),
        (SOURCE, TARGET, LINES),
        (SOURCE, TARGET, "many words " * 40),
    ],
)
def test_long_labels_and_titles_of_several_lines_stay_inside(source, target, title):
    figure = plot_alignment(WEIGHTS, source, target, title=title)
    assert_inside(figure)
    assert max(figure.get_size_inches()) < 16
    axes = figure.axes[0]
    above = axes.title if axes.get_title() else axes._left_title
    boxes = [
        text.get_window_extent() for text in (*axes.get_xticklabels(), *axes.get_yticklabels())
    ]
    if title:
        assert above.get_window_extent().y0 >= max(box.y1 for box in boxes) - 1
    grid = plot_alignments([(WEIGHTS, source, target)] * 2, titles=[title] * 2)
    assert_inside(grid)


def test_of_a_very_long_label_the_middle_is_left_out():
    label = "Rindfleisch" + "x" * 60 + "gesetz"
    figure = plot_alignment(WEIGHTS, [label, "a" * 60, "b"], ["a", "ä\u0301" * 70])
    shown = texts(figure.axes[0].get_xticklabels())
    assert shown == ["Rindfleisch" + "x" * 19 + "…" + "x" * 23 + "gesetz", "a" * 60, "b"]
    tail = texts(figure.axes[0].get_yticklabels())[1].partition("…")[2]
    assert tail[0] == "ä", "no mark stands without its letter"


def test_a_title_is_a_text():
    with pytest.raises(ValueError, match="^plot_alignment expects `title` to be str.*: 3 of type"):
        plot_alignment(WEIGHTS, SOURCE, TARGET, title=3)
    with pytest.raises(ValueError, match="^plot_alignments expects `titles` to be str.*: 3 of"):
        plot_alignments([(WEIGHTS, SOURCE, TARGET)], titles=[3])
    figure = plot_alignment(WEIGHTS, SOURCE, TARGET, title=b"T\xc3\xbcr\t$5")
    assert figure.axes[0].get_title(loc="left") == "Tür⇥$5"


def test_given_axes_are_drawn_into():
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3))
    left, right = figure.subplots(1, 2)
    assert plot_alignment(WEIGHTS, SOURCE, TARGET, ax=right) is figure
    assert not left.images and len(right.images) == 1


def test_a_grid_holds_every_example_in_order():
    examples = [(np.eye(n), "abcdefg"[:n], "tuvwxyz"[:n]) for n in (2, 5, 3)]
    figure = plot_alignments(examples, titles=["two", "five", "three"])
    panels = figure.axes[:3]
    assert [ax.get_title(loc="left") for ax in panels] == ["two", "five", "three"]
    assert [ax.images[0].get_array().shape for ax in panels] == [(2, 2), (5, 5), (3, 3)]
    assert len(figure.axes) == 4, "three panels and one color bar"
    draw(figure)
    two, _, three = (ax.get_window_extent() for ax in panels)
    assert two.x0 == pytest.approx(three.x0, abs=1), "panels of a column begin at one line"


@pytest.mark.parametrize(("columns", "rows"), [(1, 3), (np.int64(2), 2), (7, 1)])
def test_columns_of_a_grid(columns, rows):
    figure = plot_alignments([(WEIGHTS, SOURCE, TARGET)] * 3, columns=columns)
    assert figure.axes[0].get_gridspec().nrows == rows


def test_pyplot_and_global_settings_are_left_alone(tmp_path):
    import matplotlib.pyplot as plt

    settings, figures, backend = (
        dict(matplotlib.rcParams), plt.get_fignums(), matplotlib.get_backend(),
    )  # fmt: skip
    plot_alignment(WEIGHTS, SOURCE, TARGET).savefig(tmp_path / "alignment.png")
    assert (tmp_path / "alignment.png").read_bytes()[:4] == b"\x89PNG"
    assert dict(matplotlib.rcParams) == settings
    assert plt.get_fignums() == figures and matplotlib.get_backend() == backend


@pytest.mark.parametrize("form", ["svg", "pdf"])
def test_vector_formats_can_be_saved(tmp_path, form):
    path = tmp_path / f"alignment.{form}"
    plot_alignment(WEIGHTS, SOURCE, TARGET).savefig(path)
    assert path.stat().st_size > 1000


@pytest.mark.parametrize(
    ("weights", "source", "target", "message"),
    [
        (WEIGHTS.T, SOURCE, TARGET, r"shape \(target, source\).*weights.shape=\(3, 2\), 2 target"),
        (WEIGHTS[None], SOURCE, TARGET, r"Remove padding first.*weights.shape=\(1, 2, 3\)"),
        (np.zeros((0, 3)), SOURCE, [], r"at least one of each.*0 target tokens, 3 source"),
        (
            WEIGHTS * np.nan,
            SOURCE,
            TARGET,
            r"finite numbers.*not finite, the first\ weights\[0, .*0\]=nan",
        ),
        (WEIGHTS - 0.5, SOURCE, TARGET, "not scores. Received: numbers from -0.5 to 0.375"),
        (WEIGHTS * 3, SOURCE, TARGET, "not scores. Received: numbers from 0.0 to 2.625"),
        ([["a", "b", "c"]] * 2, SOURCE, TARGET, "`weights` to be an array of numbers"),
        ([[1.0], [0.5, 0.5]], SOURCE, TARGET, "`weights` to be an array of numbers"),
        (
            WEIGHTS,
            [1, 2, 3],
            TARGET,
            "`source_tokens` to contain str or bytes. Received: 1 of type",
        ),
        (WEIGHTS, SOURCE, ["a", None], "`target_tokens` to contain str or bytes. Received: None"),
    ],
)
def test_wrong_arguments_are_refused(weights, source, target, message):
    with pytest.raises(ValueError, match=f"^plot_alignment expects .*{message}"):
        plot_alignment(weights, source, target)
    with pytest.raises(ValueError, match=f"^plot_alignments expects .*{message}"):
        plot_alignments([(weights, source, target)])


@pytest.mark.parametrize(
    ("examples", "options", "message"),
    [
        ([], {}, "at least one example.*Received: 0 examples, 0 titles"),
        ([(WEIGHTS, SOURCE, TARGET)], {"titles": ["a", "b"]}, "Received: 1 examples, 2 titles"),
        ([(WEIGHTS, SOURCE)], {}, "Received: example 0 with 2 parts"),
        ([(WEIGHTS, SOURCE, TARGET)], {"columns": 0}, "positive int. Received: columns=0"),
        ([(WEIGHTS, SOURCE, TARGET)], {"columns": True}, "Received: columns=True"),
    ],
)
def test_wrong_grids_are_refused(examples, options, message):
    with pytest.raises(ValueError, match=message):
        plot_alignments(examples, **options)
