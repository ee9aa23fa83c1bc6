"""The grid of heads and the head view: what is drawn, in any script, and what is refused."""

import numpy as np
import pytest
from drawn_figures import assert_inside, draw, texts

from keras_attention.plotting import _fonts, plot_head_view, plot_heads

matplotlib = pytest.importorskip("matplotlib")

QUERIES = ["the", "old", "house"]
KEYS = ["das", "alte", "Haus", "da", "</s>"]


def weights_of(*shape):
    """Weights of which no two rows are alike, and none is too faint for a line."""
    weights = 0.1 + np.random.default_rng(7).random(shape)
    return (weights / weights.sum(axis=-1, keepdims=True)).astype("float32")


LAYER = weights_of(2, 3, 5)
LAYERS = weights_of(2, 7, 3, 5)
FUNCTIONS = (plot_heads, plot_head_view)


def lines_of(figure):
    """Returns for each head its lines, `{(start, end): opacity}`, rounded to places of tokens."""
    found = []
    for lines in figure.axes[0].collections:
        ends = np.array(lines.get_segments()).reshape(-1, 2, 2)
        assert (ends[:, 0, 0] == 0).all() and (ends[:, 1, 0] == 1).all()
        places = [tuple(row) for row in np.round(ends[:, :, 1]).astype(int).tolist()]
        found.append(dict(zip(places, lines.get_colors()[:, 3].tolist(), strict=True)))
    return found


def colors_of(figure):
    return [tuple(lines.get_colors()[0, :3]) for lines in figure.axes[0].collections]


def test_every_head_of_every_layer_is_drawn_in_order():
    figure = plot_heads(LAYERS, QUERIES, KEYS)
    *panels, bar = figure.axes
    assert len(panels) == 2 * 7
    for place, ax in enumerate(panels):
        np.testing.assert_array_equal(ax.images[0].get_array(), LAYERS[divmod(place, 7)])
        assert ax.yaxis_inverted(), "the first query must be on top"
    assert [ax.get_title() for ax in panels] == [f"head {n}" for n in range(1, 8)] + [""] * 7
    assert [ax.get_ylabel() for ax in panels[::7]] == ["layer 1", "layer 2"]
    assert texts(bar.get_yticklabels()) == ["0", "0.5", "1"]
    draw(figure)


def test_rows_are_layers_and_columns_are_heads():
    figure = plot_heads(LAYERS, QUERIES, KEYS)
    boxes = [ax.get_window_extent() for ax in figure.axes[:14]]
    for place, box in enumerate(boxes):
        row, column = divmod(place, 7)
        assert box.x0 == pytest.approx(boxes[column].x0, abs=1)
        assert box.y1 == pytest.approx(boxes[7 * row].y1, abs=1)
        assert column == 0 or box.x0 > boxes[place - 1].x1
        assert row == 0 or box.y1 < boxes[place - 7].y0
        assert box.width / 5 == pytest.approx(box.height / 3, rel=0.01), "cells are square"


def test_tokens_stand_on_the_outer_maps_only():
    figure = plot_heads(LAYERS, QUERIES, KEYS)
    for place, ax in enumerate(figure.axes[:14]):
        assert texts(ax.get_xticklabels()) == (KEYS if place < 7 else [])
        assert texts(ax.get_yticklabels()) == (QUERIES if place % 7 == 0 else [])
    assert figure.axes[0].xaxis.get_ticks_position() == "top"


def test_all_maps_have_one_color_scale():
    figure = plot_heads(LAYERS * 0.1, QUERIES, KEYS, cmap="Greens")
    images = [ax.images[0] for ax in figure.axes[:14]]
    assert {image.get_clim() for image in images} == {(0, 1)}
    assert {image.cmap.name for image in images} == {"Greens"}


def test_one_layer_has_no_name_of_its_own():
    figure = plot_heads(LAYER, QUERIES, KEYS)
    assert len(figure.axes) == 3
    assert [ax.get_ylabel() for ax in figure.axes[:2]] == ["", ""]


def test_chosen_layers_and_heads_keep_their_names():
    figure = plot_heads(LAYERS, QUERIES, KEYS, layers=[1], heads=np.array([6, 0, -2]))
    assert [ax.get_title() for ax in figure.axes[:3]] == ["head 7", "head 1", "head 6"]
    assert figure.axes[0].get_ylabel() == "layer 2"
    np.testing.assert_array_equal(figure.axes[2].images[0].get_array(), LAYERS[1, 5])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_keys_are_the_queries_unless_they_are_given(function):
    figure = function(weights_of(2, 5, 5), KEYS)
    ax = figure.axes[0]
    shown = [ax.get_xticklabels(), ax.get_yticklabels()] if ax.images else [ax.texts]
    assert [text for labels in shown for text in texts(labels)] == KEYS + KEYS


def test_rows_of_zeros_are_drawn_as_nothing():
    weights = LAYER.copy()
    weights[1, 2] = 0.0
    figure = plot_heads(weights, QUERIES, KEYS)
    assert figure.axes[1].images[0].get_array()[2].max() == 0
    lines = lines_of(plot_head_view(weights, QUERIES, KEYS))
    assert len(lines[0]) == 15 and len(lines[1]) == 10
    assert {start for start, _ in lines[1]} == {0, 1}


def test_faint_weights_have_no_line():
    weights = [[[0.0, 1 / 1000, 1 / 500, 0.997]]]
    assert set(lines_of(plot_head_view(weights, "a", "bcde"))[0]) == {(0, 2), (0, 3)}


def test_no_weights_at_all_still_make_a_picture():
    grid, view = (
        function(np.zeros((2, 3, 5)), QUERIES, KEYS, title="nothing") for function in FUNCTIONS
    )
    for figure in (grid, view):
        draw(figure)
    assert all(not np.array(ax.images[0].get_array()).any() for ax in grid.axes[:2])
    assert not any(lines_of(view))


def test_short_tokens_stand_upright_and_a_few_long_ones_do_not_lean_over_the_next_map():
    few = plot_heads(weights_of(2, 8, 8), [*"ab cdef", "</s>"])
    assert [label.get_rotation() for label in few.axes[1].get_xticklabels()] == [0] * 7 + [90]
    many = plot_heads(weights_of(2, 3, 3), ["Fenster", "Leiter", "a"])
    assert {label.get_rotation() for label in many.axes[0].get_xticklabels()} == {45}


@pytest.mark.parametrize(("heads", "size"), [(1, 2), (3, 23), (2, 61), (11, 13)])
def test_a_grid_fits_its_page_and_no_two_labels_overlap(heads, size):
    words = [f"w{i}" for i in range(size)]
    figure = plot_heads(weights_of(2, heads, size, size), words, title="A title of several words")
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    first = figure.axes[0]
    boxes = [label.get_window_extent(renderer) for label in first.get_yticklabels()]
    assert all(above.y0 >= below.y1 - 1 for above, below in zip(boxes, boxes[1:], strict=False))
    title = first.texts[0].get_window_extent(renderer)
    assert title.y0 >= first.title.get_window_extent(renderer).y1
    inside = figure.get_tightbbox(renderer)
    width, height = figure.get_size_inches()
    assert inside.x0 >= -0.01 and inside.x1 <= width + 0.01
    assert inside.y0 >= -0.01 and inside.y1 <= height + 0.01
    assert max(width, height) < 18


def test_lines_join_queries_to_keys_as_opaque_as_their_weights():
    figure = plot_head_view(LAYER, QUERIES, KEYS)
    assert len(figure.axes) == 1
    for head, lines in enumerate(lines_of(figure)):
        assert len(lines) == 15
        for (query, key), opacity in lines.items():
            assert opacity == pytest.approx(LAYER[head, query, key], abs=1e-6)
    draw(figure)


def test_queries_are_at_the_left_and_keys_at_the_right():
    ax = plot_head_view(LAYER, QUERIES, KEYS).axes[0]
    assert texts(ax.texts) == QUERIES + KEYS
    assert [text.xy for text in ax.texts[:3]] == [(0, 0), (0, 1), (0, 2)]
    assert [text.xy for text in ax.texts[3:]] == [(1, place) for place in range(5)]
    assert {text.get_horizontalalignment() for text in ax.texts[:3]} == {"right"}
    assert {text.get_horizontalalignment() for text in ax.texts[3:]} == {"left"}
    assert ax.yaxis_inverted()


def test_lines_of_several_heads_lie_side_by_side():
    figure = plot_head_view(LAYERS[0], QUERIES, KEYS)
    starts = [lines.get_segments()[0][0, 1] for lines in figure.axes[0].collections]
    assert len({round(start - round(start), 6) for start in starts}) == 7
    assert all(abs(start - round(start)) < 0.3 for start in starts)
    alone = plot_head_view(LAYERS[0], QUERIES, KEYS, heads=[4]).axes[0].collections[0]
    assert all(start == round(start) for start in np.array(alone.get_segments())[:, 0, 1])


def test_every_head_has_a_color_that_the_legend_names():
    figure = plot_head_view(LAYERS[0], QUERIES, KEYS)
    colors, legend = colors_of(figure), figure.axes[0].get_legend()
    assert len(set(colors)) == 7
    assert texts(legend.get_texts()) == [f"head {n}" for n in range(1, 8)]
    assert [patch.get_facecolor()[:3] for patch in legend.get_patches()] == colors


@pytest.mark.parametrize("heads", [11, 23])
def test_many_heads_have_colors_of_their_own(heads):
    assert len(set(colors_of(plot_head_view(weights_of(heads, 2, 3), "ab", "cde")))) == heads


def test_colors_come_from_the_named_colormap():
    colors = colors_of(plot_head_view(LAYER, QUERIES, KEYS, cmap="Dark2"))
    assert colors == [matplotlib.colormaps["Dark2"](n)[:3] for n in range(2)]


def test_chosen_heads_keep_their_color_and_name():
    every = plot_head_view(LAYERS[0], QUERIES, KEYS)
    some = plot_head_view(LAYERS[0], QUERIES, KEYS, heads=[5, -6])
    assert colors_of(some) == [colors_of(every)[head] for head in (5, 1)]
    assert lines_of(some) == [lines_of(every)[head] for head in (5, 1)]
    assert texts(some.axes[0].get_legend().get_texts()) == ["head 6", "head 2"]


@pytest.mark.parametrize("query", [1, -2, np.int64(1)])
def test_one_query_has_the_lines_and_the_others_are_gray(query):
    figure = plot_head_view(LAYER, QUERIES, KEYS, query=query)
    assert [set(lines) for lines in lines_of(figure)] == [{(1, key) for key in range(5)}] * 2
    colors = [text.get_color() for text in figure.axes[0].texts]
    assert colors == ["0.65", "black", "0.65"] + ["black"] * 5


def test_the_query_is_named_where_only_some_tokens_have_room():
    words = [f"w{i}" for i in range(307)]
    figure = plot_head_view(weights_of(1, 307, 2), words, "ab", query=301)
    assert texts(figure.axes[0].texts) == ["w301", "a"]
    everyone = plot_head_view(np.eye(307)[None], words)
    assert len(everyone.axes[0].texts) < 2 * 307 and max(everyone.get_size_inches()) < 18


def test_the_given_weights_stay_as_they_are():
    weights = LAYER.copy()
    plot_head_view(weights, QUERIES, KEYS, query=0)
    np.testing.assert_array_equal(weights, LAYER)


def test_a_title_stands_above_the_legend():
    figure = plot_head_view(LAYERS[0], QUERIES, KEYS, title="layer 1")
    figure.canvas.draw()
    ax, renderer = figure.axes[0], figure.canvas.get_renderer()
    title = ax.texts[-1]
    assert title.get_text() == "layer 1"
    above = ax.get_legend().get_window_extent(renderer).y1
    assert title.get_window_extent(renderer).y0 >= above - 1
    inside, size = figure.get_tightbbox(renderer), figure.get_size_inches()
    assert inside.x0 >= -0.01 and inside.x1 <= size[0] + 0.01 and inside.y1 <= size[1] + 0.01


@pytest.mark.parametrize("function", FUNCTIONS)
def test_any_script_and_bytes_and_tensors_are_drawn(function):
    import keras

    weights = keras.ops.cast(keras.ops.convert_to_tensor(LAYER), "bfloat16")
    queries = [word.encode() for word in ("السماء", "שלום", "четверг")]
    figure = function(weights, queries, ["γ", "ế", " ", "a\nb", "$x_1$"], title="العربية $5")
    ax = figure.axes[0]
    shown = [*ax.get_yticklabels(), *ax.get_xticklabels()] if ax.images else ax.texts[:8]
    assert texts(shown) == ["السماء", "שלום", "четверг", "γ", "ế", "␣", "a↵b", "$x_1$"]
    assert texts(ax.texts)[-1] == "العربية $5"
    draw(figure)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_characters_without_a_font_are_boxes_and_named_in_one_warning(function, monkeypatch):
    monkeypatch.setattr(_fonts, "_advised_fonts", set())
    monkeypatch.setattr(_fonts, "choose_families", lambda texts: (["DejaVu Sans"], {"年"}))
    with pytest.warns(UserWarning, match="No installed font contains 年") as caught:
        figure = function(weights_of(2, 3, 3), ["年", "年a", "3"])
    assert len(caught) == 1 and caught[0].filename == __file__
    ax = figure.axes[0]
    shown = ax.get_yticklabels() if ax.images else ax.texts[:3]
    assert texts(shown) == ["□", "□a", "3"]
    draw(figure)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_pictures_are_saved_and_pyplot_is_left_alone(function, form, tmp_path):
    import matplotlib.pyplot as plt

    settings, figures = dict(matplotlib.rcParams), plt.get_fignums()
    path = tmp_path / f"heads.{form}"
    function(LAYER, QUERIES, KEYS).savefig(path)
    assert path.stat().st_size > 1000
    assert dict(matplotlib.rcParams) == settings and plt.get_fignums() == figures


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("weights", "queries", "keys", "message"),
    [
        (LAYER, KEYS, QUERIES, r"weights.shape=\(2, 3, 5\), 5 query tokens, 3 key tokens"),
        (LAYER, QUERIES, None, r"3 query tokens, 3 key tokens"),
        (LAYER[0], QUERIES, KEYS, r"shape \(heads, query, key\).*weights.shape=\(3, 5\)"),
        (LAYERS[None], QUERIES, KEYS, r"one batch element.*shape=\(1, 2, 7, 3, 5\)"),
        (weights_of(2, 3, 7), QUERIES, KEYS, r"remove padding first.*`weights\[\.\.\., :query_"),
        (np.zeros((0, 3, 5)), QUERIES, KEYS, r"at least one of each.*shape=\(0, 3, 5\)"),
        (np.zeros((2, 3, 0)), QUERIES, [], "3 query tokens, 0 key tokens"),
        (
            LAYER * np.nan,
            QUERIES,
            KEYS,
            r"finite numbers.*not finite, the first\ weights\[0, .*0\]=nan",
        ),
        (LAYER - 1, QUERIES, KEYS, "not scores. Received: numbers from -"),
        (LAYER * 9, QUERIES, KEYS, "not scores. Received: numbers from 0"),
        ([["a"]], QUERIES, KEYS, "`weights` to be an array of numbers"),
        ([np.eye(2), np.eye(3)], QUERIES, KEYS, "`weights` to be an array of numbers"),
        (LAYER, [1, 2, 3], KEYS, "`query_tokens` to contain str or bytes. Received: 1 of type"),
        (LAYER, QUERIES, [None] * 5, "`key_tokens` to contain str or bytes. Received: None"),
    ],
)
def test_wrong_arguments_are_refused(function, weights, queries, keys, message):
    with pytest.raises(ValueError, match=f"^{function.__name__} expects .*{message}"):
        function(weights, queries, keys)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("heads", [[2], [-3], [], 1, [0.5], ["head 1"], [True]])
def test_heads_that_do_not_exist_are_refused(function, heads):
    with pytest.raises(ValueError, match="`heads` to be a sequence .* from 0 to 1. Received: hea"):
        function(LAYER, QUERIES, KEYS, heads=heads)


def test_layers_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match=r"plot_heads expects `layers` .*Received: layers=\[2\]"):
        plot_heads(LAYERS, QUERIES, KEYS, layers=[2])
    with pytest.raises(ValueError, match=r"from 0 to 0. Received: layers=\[1\]"):
        plot_heads(LAYER, QUERIES, KEYS, layers=[1])


def test_the_head_view_is_of_one_layer():
    with pytest.raises(ValueError, match=r"and one layer.*weights.shape=\(2, 7, 3, 5\)"):
        plot_head_view(LAYERS, QUERIES, KEYS)


@pytest.mark.parametrize("query", [3, -4, True, 0.5, "old", [1]])
def test_a_query_that_does_not_exist_is_refused(query):
    with pytest.raises(ValueError, match="plot_head_view expects `query` .*Received: query="):
        plot_head_view(LAYER, QUERIES, KEYS, query=query)


def test_lines_of_even_weights_are_seen_on_a_scale_of_their_own():
    weights = np.full((2, 3, 100), 0.01)
    keys = [f"w{i}" for i in range(100)]
    for vmax, opacity in ((1.0, 0.01), (None, 0.25), (0.02, 0.5), (0.005, 1.0)):
        figure = plot_head_view(weights, "abc", keys, vmax=vmax)
        for lines in figure.axes[0].collections:
            np.testing.assert_allclose(lines.get_colors()[:, 3], opacity, atol=1e-6)


def test_heads_over_long_keys_have_oblong_cells_and_readable_letters():
    weights = np.full((3, 5, 200), 1 / 200)
    figure = plot_heads(weights, [*"abcde"], [f"w{i}" for i in range(200)], vmax=None)
    ax = figure.axes[0]
    assert len(ax.get_yticklabels()) == 5, "every query is named"
    assert min(label.get_fontsize() for label in ax.get_yticklabels()) >= 7.5
    assert ax.images[0].get_clim() == (0, pytest.approx(0.02))
    assert_inside(figure)
