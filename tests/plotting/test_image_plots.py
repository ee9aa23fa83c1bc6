"""Attention over pictures: what is drawn, on the figure that comes back."""

import numpy as np
import pytest
from drawn_figures import assert_inside, draw

from keras_attention.plotting import _fonts, plot_image_attention

WEIGHTS = np.zeros((3, 2, 5))
WEIGHTS[0, 1, 4], WEIGHTS[1, 0, 0], WEIGHTS[1, 0, 1] = 1.0, 0.25, 0.75  # the third looks nowhere
TOKENS = ["two", "seven", "</s>"]
GRAY = np.arange(7 * 11, dtype=np.uint8).reshape(7, 11)


def test_each_token_has_the_picture_and_its_weights_over_all_of_it():
    figure = plot_image_attention(GRAY, WEIGHTS, TOKENS, title="two seven")
    assert [axes.get_title() for axes in figure.axes] == ["", *TOKENS]
    assert figure.get_suptitle() == "two seven"
    for number, axes in enumerate(figure.axes):
        shown, *over = axes.images
        np.testing.assert_allclose(shown.get_array(), GRAY / 255, rtol=1e-6)
        assert len(over) == min(number, 1)
        for drawn in over:
            np.testing.assert_allclose(drawn.get_array(), WEIGHTS[number - 1])
            assert drawn.get_extent() == shown.get_extent() == [0, 11, 7, 0]


def test_the_largest_weight_covers_most_and_no_weight_covers_nothing():
    figure = plot_image_attention(GRAY, WEIGHTS, TOKENS, alpha=0.6)
    covered = [axes.images[1].get_alpha() for axes in figure.axes[1:]]
    np.testing.assert_allclose(covered[1][0], [0.2, 0.6, 0, 0, 0])
    np.testing.assert_array_equal(covered[2], 0.0)


def test_even_weights_cover_lightly():
    figure = plot_image_attention(GRAY, np.full((1, 7, 11), 1 / 77), ["a"], alpha=0.8)
    np.testing.assert_allclose(figure.axes[1].images[1].get_alpha(), 0.2, atol=1e-6)


# Machado et al. 2009 (https://doi.org/10.1109/TVCG.2009.113), severity 1, on linear RGB.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
}


@pytest.mark.parametrize("vision", VISIONS)
@pytest.mark.parametrize("background", [0.0, 1.0])
def test_the_overlay_is_seen_on_black_and_on_white_by_every_eye(vision, background):
    """On black, large weights were red and small ones olive: one color to many eyes."""
    figure = plot_image_attention(np.full((3, 3), background), [[[0.0, 1.0]]], ["a"])
    over = figure.axes[1].images[1]
    assert over.cmap(0.1) == over.cmap(1.0), "weights differ in opacity, not in hue"
    (red, green, blue, _), alpha = over.cmap(1.0), over.get_alpha().max()
    shown = alpha * np.array([red, green, blue]) + (1 - alpha) * background

    def luminance(color):
        linear = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)
        return np.clip(VISIONS[vision] @ linear, 0, 1) @ (0.2126, 0.7152, 0.0722) + 0.05

    ends = sorted([luminance(shown), luminance(np.full(3, background))])
    assert ends[1] / ends[0] > 1.9


def test_a_colormap_is_taken_and_a_wrong_one_refused():
    figure = plot_image_attention(GRAY, WEIGHTS, TOKENS, cmap="viridis")
    assert figure.axes[1].images[1].cmap.name == "viridis"
    with pytest.raises(ValueError, match="plot_image_attention expects `cmap`.*cmap='Bluse'"):
        plot_image_attention(GRAY, WEIGHTS, TOKENS, cmap="Bluse")


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_and_both_ranges_are_read(channels):
    whole = np.full((6, 4, channels), 51, np.int32)
    for image in (whole, whole / 255, whole.astype("float64")):
        figure = plot_image_attention(image, np.ones((1, 4)) / 4, "a", columns=1)
        drawn = figure.axes[0].images[0].get_array()
        assert drawn.shape == ((6, 4) if channels == 1 else (6, 4, channels))
        np.testing.assert_allclose(drawn, 0.2, rtol=1e-6)
        assert figure.axes[1].images[1].get_array().shape == (2, 2)  # a square grid


def test_any_script_and_bytes_and_marks_of_formulas_are_drawn():
    words = ["السماء", "שלום".encode(), "четверг", "ế", "$x_1$", " "]
    figure = plot_image_attention(GRAY, np.ones((6, 4)) / 4, words, title="العربية $5")
    shown = [axes.get_title() for axes in figure.axes]
    assert shown == ["", "السماء", "שלום", "четверг", "ế", "$x_1$", "␣"]
    assert figure.get_suptitle() == "العربية $5"
    draw(figure)


def test_characters_without_a_font_are_boxes_and_named_in_one_warning(monkeypatch):
    monkeypatch.setattr(_fonts, "_advised_fonts", set())
    monkeypatch.setattr(_fonts, "choose_families", lambda texts: (["DejaVu Sans"], {"年"}))
    with pytest.warns(UserWarning, match="No installed font contains 年") as caught:
        figure = plot_image_attention(GRAY, np.ones((2, 4)) / 4, ["年a", "b"], title="年")
    assert len(caught) == 1 and caught[0].filename == __file__
    assert [axes.get_title() for axes in figure.axes] == ["", "□a", "b"]
    draw(figure)


@pytest.mark.thorough
@pytest.mark.parametrize("shape", [(48, 48), (48, 8), (8, 48)])
def test_guides_and_titles_that_are_wider_than_the_panels_stay_inside(shape):
    # Both are what the captioner writes; each lost its end.
    guide, title = (
        "there is a seven somewhere",
        "at the middle center   expected: at the bottom right",
    )
    for count, above in ((1, title), (4, f"{title}\n{title} " * 5), (9, None), (2, "x" * 400)):
        weights = np.ones((count, 4)) / 4
        figure = plot_image_attention(np.zeros(shape), weights, [guide] * count, title=above)
        assert_inside(figure)
        panels = [axes.title.get_window_extent() for axes in figure.axes[1:]]
        row = [box for box in panels if abs(box.y0 - panels[0].y0) < 1]
        assert all(a.x1 < b.x0 for a, b in zip(row, row[1:], strict=False))
        assert figure.axes[1].get_title().replace("\n", " ") == guide
        if above == title:
            assert figure.get_suptitle() == title
    figure = plot_image_attention(np.zeros(shape), np.ones((2, 4)) / 4, ["x" * 130, "W" * 40])
    assert_inside(figure)
    assert figure.axes[1].get_title().replace("\n", "") == "x" * 30 + "…" + "x" * 29


def test_panels_go_on_in_the_next_row():
    figure = plot_image_attention(
        GRAY, np.ones((6, 4)) / 4, "abcdef", columns=np.int64(3), alpha=np.float32(0.5)
    )
    assert len(figure.axes) == 7
    assert len({axes.get_subplotspec().rowspan.start for axes in figure.axes}) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": np.ones(5)}, r"`image` of shape \(height, width\).*\(5,\)"),
        ({"image": np.ones((5, 4, 2))}, "1, 3 or 4 channels"),
        ({"image": np.full((2, 2), np.nan)}, "numbers from 0 to 1 or from 0 to 255"),
        ({"weights": WEIGHTS[:2]}, r"at least one token.*\(2, 2, 5\), 3 tokens"),
        ({"weights": WEIGHTS.reshape(3, 10)}, "of a square grid"),
        ({"weights": WEIGHTS - 1}, "after the normalizer, not scores"),
        ({"tokens": []}, "at least one token"),
        ({"title": 3}, "plot_image_attention expects `title` to be str, or None. Received: 3"),
        ({"columns": 0}, "`columns` to be a positive int"),
        ({"alpha": 2}, r"`alpha` to be a number in \[0, 1\]"),
        ({"interpolation": "soft"}, "`interpolation` to be one of nearest, bilinear, bicubic"),
    ],
)
def test_bad_input_is_told(changes, message):
    given = {"image": GRAY, "weights": WEIGHTS, "tokens": TOKENS} | changes
    with pytest.raises(ValueError, match=message):
        plot_image_attention(**given)
