"""Weights over a text: which shade stands behind which word, line breaks, markup, bad input."""

import html.parser
import re
import warnings

import numpy as np
import pytest
from drawn_figures import assert_inside

from keras_attention.plotting import _fonts, plot_text_weights, text_weights_html
from keras_attention.plotting.text_heatmap import WORD_COLOR

pytest.importorskip("matplotlib")

SENTENCES = [["a", "good", "film", "."], ["see", "it"], ["now"]]
WORD_WEIGHTS = np.array([[0.1, 0.6, 0.3, 0.0], [0.5, 0.5, 0, 0], [1.0, 0, 0, 0]])
SENTENCE_WEIGHTS = np.array([0.81, 0.09, 0.10])


def words_and_shades(figure):
    """(word, darkness of its shade) of every word; 0 is white."""
    (axes,) = figure.axes
    texts = [text for text in axes.texts if text.get_fontsize() == 9]
    patches = axes.patches[: len(texts)]
    for text, patch in zip(texts, patches, strict=True):  # the shade is behind its word
        x, y = text.get_position()
        box = patch.get_bbox()
        assert box.x0 < x < box.x1 and box.y0 < y < box.y1
    return [(t.get_text(), 1 - p.get_facecolor()[0]) for t, p in zip(texts, patches, strict=True)]


def draw(figure):
    """Draws the figure; whatever matplotlib warns of would fail here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.canvas.draw()


def test_a_shade_is_the_root_of_the_sentences_weight_times_the_words():
    figure = plot_text_weights(SENTENCES, WORD_WEIGHTS, SENTENCE_WEIGHTS, title="a film")
    found = words_and_shades(figure)
    assert [word for word, _ in found] == sum(SENTENCES, [])
    shades = np.sqrt(SENTENCE_WEIGHTS)[:, None] * WORD_WEIGHTS
    expected = np.concatenate([row[: len(s)] for row, s in zip(shades, SENTENCES, strict=True)])
    darkness = np.array([dark for _, dark in found])
    np.testing.assert_allclose(darkness / darkness.max(), expected / expected.max(), atol=1e-6)
    stripes = figure.axes[0].patches[len(found) :]
    red = np.array([1 - stripe.get_facecolor()[1] for stripe in stripes])
    np.testing.assert_allclose(red / red.max(), SENTENCE_WEIGHTS / 0.81, atol=1e-6)
    assert "a film" in [text.get_text() for text in figure.axes[0].texts]
    draw(figure)


def test_without_sentence_weights_words_have_their_own():
    figure = plot_text_weights([["x", "y"]], [[0.25, 0.75]])
    (_, less), (_, more) = words_and_shades(figure)
    assert less / more == pytest.approx(1 / 3)
    assert len(figure.axes[0].patches) == 2


@pytest.mark.parametrize("count", [7, 300])
def test_even_weights_are_light_and_a_peak_is_dark(count):
    """A quarter of the full color for even weights: 0.0033 of 300 words was as dark as 1."""
    words, full = [f"w{i}" for i in range(count)], 1 - WORD_COLOR[0]
    even = np.full(count, 1 / count)
    nearly = even * np.linspace(0.98, 1.02, count)
    for weights in (even, nearly):
        shades = np.array(
            [dark for _, dark in words_and_shades(plot_text_weights([words], [weights]))]
        )
        np.testing.assert_allclose(shades / full, 0.25, atol=0.006)
    peak = even * 0.4
    peak[3] += 0.6
    shades = np.array([dark for _, dark in words_and_shades(plot_text_weights([words], [peak]))])
    assert shades[3] > 0.9 * full
    assert np.delete(shades, 3).max() < 0.15 * full


def test_no_weight_has_more_than_its_own_color_in_a_short_text():
    full = 1 - WORD_COLOR[0]
    shades = [dark for _, dark in words_and_shades(plot_text_weights([["x", "y"]], [[0.25, 0.75]]))]
    np.testing.assert_allclose(np.array(shades) / full, [0.25, 0.75], atol=1e-6)
    assert words_and_shades(plot_text_weights([["x"]], [[1.0]]))[0][1] == pytest.approx(full)


def test_the_color_bars_say_what_the_full_color_is():
    figure = plot_text_weights([["w"] * 200], [np.full(200, 0.005)])
    said = [text.get_text() for text in figure.axes[0].texts]
    assert "words: from 0 to 0.02; their mean is 0.005" in said
    assert len(figure.axes[0].images) == 1
    both = plot_text_weights(SENTENCES, WORD_WEIGHTS, SENTENCE_WEIGHTS, width=1.0)
    assert len(both.axes[0].images) == 2
    assert_inside(both)
    page = text_weights_html([["w"] * 200], [np.full(200, 0.005)])
    assert "Color of words: from 0 to 0.02; their mean is 0.005" in page


def test_words_take_a_colormap_and_letters_stay_readable():
    words, weights = [["none", "most"]], [[0.0, 1.0]]
    dark = plot_text_weights(words, weights, cmap="Blues")
    patches, letters = dark.axes[0].patches, dark.axes[0].texts
    np.testing.assert_allclose(patches[1].get_facecolor()[:3], (8 / 255, 48 / 255, 107 / 255))
    assert [text.get_color() for text in letters[:2]] == ["black", "white"]
    page = text_weights_html(words, weights, cmap="Blues")
    assert "background: #08306b; color: white" in page and 'background: #f7fbff"' in page


def test_full_lines_are_broken_and_everything_stays_inside():
    words = [["word"] * 83, ["another"] * 41, ["w" * 300]]
    weights = [np.full(len(sentence), 0.01) for sentence in words]
    figure = plot_text_weights(words, weights, [0.2, 0.3, 0.5], width=4.0)
    draw(figure)
    axes = figure.axes[0]
    width, height = figure.get_size_inches()
    boxes = [patch.get_bbox() for patch in axes.patches]
    assert min(box.x0 for box in boxes) >= 0 and max(box.x1 for box in boxes) <= width
    assert min(box.y0 for box in boxes) >= 0 and max(box.y1 for box in boxes) <= height
    for one, other in zip(boxes[:124], boxes[1:125], strict=True):
        assert other.x0 > one.x1 or other.y0 > one.y1, "words overlap"
    lines = sorted({round(box.y0, 3) for box in boxes[:125]})
    assert len(lines) > 10
    stripes = boxes[125:]  # each as high as the lines of its sentence
    for stripe, start, end in zip(stripes, (0, 83, 124), (82, 123, 124), strict=True):
        assert stripe.y0 <= boxes[start].y0 and stripe.y1 >= boxes[end].y1


def test_any_script_and_markup_are_letters(monkeypatch):
    words = [["$x^2$", "a\\b", "", "\n", "مرحبا", b"\xc3\xa9", "影"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fonts that this machine does not have
        figure = plot_text_weights(words, [np.full(7, 0.1)], title="$\\frac")
        figure.canvas.draw()
    shown = [word for word, _ in words_and_shades(figure)]
    assert shown[0] == "$x^2$" and shown[1] == "a\\b" and shown[3] == "↵" and shown[5] == "é"
    monkeypatch.setattr(_fonts, "_advised_fonts", set())
    monkeypatch.setattr(_fonts, "choose_families", lambda texts: (["DejaVu Sans"], {"影"}))
    with pytest.warns(UserWarning, match="影"):
        figure = plot_text_weights(words, [np.full(7, 0.1)])
    assert words_and_shades(figure)[6][0] == _fonts.PLACEHOLDER


class Page(html.parser.HTMLParser):
    """Collects tags and what the spans say."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.spans, self.shown = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "span":
            self.spans.append(dict(attributes))

    def handle_data(self, data):
        self.shown.append(data)


def test_the_page_holds_words_and_weights_in_order():
    page = text_weights_html(SENTENCES, WORD_WEIGHTS, SENTENCE_WEIGHTS, title="a film")
    read = Page(page)
    assert [span["title"] for span in read.spans[:3]] == ["0.1", "0.6", "0.3"]
    assert read.tags.count("p") == 4  # three sentences and the legend
    assert 'title="sentence 2: 0.0900"' in page
    red = [int(span["style"][-6:-4], 16) for span in read.spans]
    assert red[3] == 255 and min(red) == red[1]  # white without weight, darkest on "good"
    figure = plot_text_weights(SENTENCES, WORD_WEIGHTS, SENTENCE_WEIGHTS)
    drawn = [round(255 * (1 - dark)) for _, dark in words_and_shades(figure)]
    np.testing.assert_allclose(red, drawn, atol=1)


def test_markup_in_a_text_is_shown_and_not_obeyed():
    words = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "&amp;", "{title}"]
    title = "</title><script>x</script>"
    page = text_weights_html([words], [[0.1, 0.2, 0.3, 0.4]], [1.0], title=title)
    read = Page(page)
    assert set(read.tags) == {"html", "head", "meta", "title", "body", "h1", "p", "span"}
    for word in [*words, title]:
        assert word in read.shown
    assert not re.search(r"https?:|<link|@import", page)
    text_weights_html([["\ud800", "\x00"]], [[0.5, 0.5]], title="\ud800").encode()


DRAWERS = pytest.mark.parametrize("drawer", [plot_text_weights, text_weights_html])


@DRAWERS
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("a text", [[1.0]]), "expects `sentences` to be lists of words"),
        ((["a", "text"], [[0.5, 0.5]]), "put a single list of words into a list"),
        (([[3]], [[1.0]]), "expects `sentences` to contain str or bytes. Received: 3"),
        (([[]], [[]]), "at least one word"),
        ((np.ones(2), [["a", "text"]]), "expects `sentences` to be lists of words"),
        ((None, None), "expects `sentences` to be lists of words"),
        (
            ([["a"]], [[0.5], [0.5]]),
            "`word_weights` to have one row per sentence. Received: 2 rows",
        ),
        (([["a", "b"]], [[0.5]]), "sentence 0 of 2 words with 1 weights"),
        (([["a"]], [[0.5, 0.5]]), "1 beyond its words not 0"),
        (([["a"]], [[1.5]]), "numbers from 0 to 1"),
        (
            ([["a"], ["b", "c"]], [[1.0], [0.5, float("nan")]]),
            "1 of 2 not finite, the first word_weights[1][1]=nan",
        ),
        (([["a"]], [[1.0]], [float("inf")]), "the first sentence_weights[0]=inf"),
        (([["a"]], [["x"]]), "array of numbers"),
        (([["a"]], [[[0.5]]]), "one axis"),
        (([["a"]], [[0.5]], [0.5, 0.5]), "`sentence_weights` to have one row per sentence"),
        (([["a"]], [[0.5]], [[0.5]]), "`sentence_weights` to have one axis"),
    ],
)
def test_what_does_not_fit_is_refused(drawer, arguments, told):
    with pytest.raises(ValueError, match=re.escape(told)) as raised:
        drawer(*arguments)
    assert drawer.__name__ in str(raised.value)


@DRAWERS
def test_weights_of_zero_are_white(drawer):
    result = drawer([["a", "b"]], [[0.0, 0.0]], [0.0])
    if drawer is plot_text_weights:
        assert [dark for _, dark in words_and_shades(result)] == [0, 0]
    else:
        assert result.count("#ffffff") == 3


@DRAWERS
@pytest.mark.parametrize("cmap", ["Bluse", 3])
def test_a_colormap_that_is_none_is_refused(drawer, cmap):
    with pytest.raises(ValueError, match=f"{drawer.__name__} expects `cmap`.*cmap={cmap!r}"):
        drawer([["a"]], [[1.0]], cmap=cmap)


def test_a_text_too_long_for_a_picture_is_refused():
    words = [["a"]] * 1501
    with pytest.raises(ValueError, match="at most 1500 lines"):
        plot_text_weights(words, [[1.0]] * 1501)
    assert text_weights_html(words, [[1.0]] * 1501).count("<span") == 1501
