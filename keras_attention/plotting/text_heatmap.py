"""Plots of attention over a text: the shade of every word is its weight.

If sentences have weights too, as in Yang et al. 2016 (https://aclanthology.org/N16-1174,
figure 5), a word's shade is `sqrt(sentence weight) * word weight`: words that matter in sentences
that matter are dark, and words of a sentence without weight are white.

Shades are linear. The full color means four times the mean weight, or the largest weight if that
is more, but never more than 1. So uniform weights are light, however many there are, and only
outstanding weights are dark.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from keras_attention.plotting import _figures
from keras_attention.plotting._text_layout import FONT_POINTS, TextLayout, format_token

if TYPE_CHECKING:
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

POINTS = 9.0
LINE_INCHES = 0.205
GAP_INCHES = 0.035  # between words
EDGE_INCHES = 0.02  # margin of a shade around its word
MARGIN_INCHES = 0.12
STRIPE_INCHES = 0.12
MAX_LINES = 1500  # matplotlib cannot write taller images
WORD_COLOR = (0.35, 0.62, 0.87)
SENTENCE_COLOR = (0.87, 0.35, 0.30)
BAR_INCHES = 0.9


def plot_text_weights(
    sentences: Sequence[Sequence[str | bytes]],
    word_weights: npt.ArrayLike | Sequence[npt.ArrayLike],
    sentence_weights: npt.ArrayLike | None = None,
    *,
    title: str | None = None,
    width: float = 9.0,
    cmap: "str | Colormap | None" = None,
) -> "Figure":
    """Plots a text, each word on a shade of blue, and sentences beside a stripe of red.

    Each sentence starts a new line and is wrapped. Words run from left to right in the order of
    the tokens, in any script. The full color means four times the mean weight, or the largest
    weight if that is more (1 at most), so that uniform weights are light. The color bars below the
    text are labeled with numbers.

    Args:
        sentences: Sequence of sequences of str (or UTF-8 bytes), the words of each sentence. Pass
            a text without sentences as a list of one.
        word_weights: Array `(sentences, words)` of numbers from 0 to 1, 0 beyond the words of
            a sentence; or a sequence with an array for each sentence.
        sentence_weights: Optional array `(sentences,)` of numbers from 0 to 1.
        title: Optional str, above the text.
        width: Width of the lines in inches.
        cmap: Name of a matplotlib colormap for the words, such as "Blues" or "viridis_r"; light
            should mean small. None shades from white to a blue on which black letters are
            legible. On dark colors letters are white.

    Returns:
        The matplotlib `Figure`. Its only axes contains the words as texts, their shades as the
        first patches, in the same order, and then the stripes of the sentences.

    Raises:
        ValueError: If there is no word, the numbers of sentences, words and weights differ, a
            weight is not a finite number from 0 to 1, the text has too many lines, or there
            is no such colormap.
        ImportError: If matplotlib is not installed.

    Example:

    >>> words = [["a", "good", "film"], ["see", "it"]]
    >>> figure = plot_text_weights(words, [[0.1, 0.8, 0.1], [0.5, 0.5, 0]], [0.9, 0.1])
    >>> [text.get_text() for text in figure.axes[0].texts[:3]]
    ['a', 'good', 'film']

    Reference: Yang et al. 2016, https://aclanthology.org/N16-1174, figure 5.
    """
    _figures.require_matplotlib()
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import Rectangle

    text = WeightedText("plot_text_weights", sentences, word_weights, sentence_weights, cmap)
    text_layout = TextLayout([*text.words, title or ""])
    figure = _figures.new_figure(1.0, 1.0, layout=None)
    font = FontProperties(family=text_layout.families, size=POINTS)
    widths = _measure_widths(
        figure, {text_layout.replace_missing(word) for word in text.words}, font
    )
    left = MARGIN_INCHES + (STRIPE_INCHES + 0.08 if text.sentence_shades is not None else 0.0)
    top = MARGIN_INCHES + (0.3 if title else 0.0)
    lines = [[text_layout.replace_missing(word) for word in words] for words in text.sentences]
    places, ends, right = _lay_out_words(lines, widths, left, top, float(width))
    bars = text.list_color_bars()
    small = FontProperties(size=FONT_POINTS[0])
    legends = _measure_widths(figure, [legend for legend, _ in bars], small).values()
    right = max(right, left + BAR_INCHES + 0.06 + max(legends))
    below = ends[-1][1] + 0.1 + 0.2 * len(bars)
    figure.set_size_inches(right + MARGIN_INCHES, below)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, right + MARGIN_INCHES), ylim=(below, 0))
    axes.set_axis_off()
    style = {"fontproperties": font, "parse_math": False, "va": "baseline"}
    shades = np.concatenate(text.word_shades)
    for (x, y, word), shade in zip(places, shades, strict=True):
        color = text.word_color(shade)
        axes.text(x, y + 0.7 * LINE_INCHES, word, color=choose_letter_color(color), **style)
        box = (x - EDGE_INCHES, y + 0.01), widths[word] + 2 * EDGE_INCHES, LINE_INCHES - 0.02
        axes.add_patch(Rectangle(*box, color=color, linewidth=0, zorder=0))
    if text.sentence_shades is not None:
        for (start, end), shade in zip(ends, text.sentence_shades, strict=True):
            box = (MARGIN_INCHES, start + 0.01), STRIPE_INCHES, max(end - start - 0.02, 0.0)
            color = mix_with_white(SENTENCE_COLOR, shade)
            axes.add_patch(Rectangle(*box, facecolor=color, edgecolor="0.8", linewidth=0.4))
    for number, (legend, color) in enumerate(bars):
        bottom = below - 0.08 - 0.2 * (len(bars) - 1 - number)
        ramp = np.array([[color(shade) for shade in np.linspace(0, 1, 64)]])
        ends_at = (left, left + BAR_INCHES, bottom, bottom - 0.1)
        axes.imshow(ramp, extent=ends_at, aspect="auto", origin="lower", interpolation="nearest")
        text_style = {"fontproperties": small, "color": "0.4", "va": "baseline"}
        axes.text(left + BAR_INCHES + 0.06, bottom - 0.02, legend, **text_style)
    axes.set(xlim=(0, right + MARGIN_INCHES), ylim=(below, 0))
    if title:
        text_style = {"family": text_layout.families, "parse_math": False, "fontsize": POINTS + 2}
        axes.text(
            MARGIN_INCHES, MARGIN_INCHES + 0.14, text_layout.replace_missing(title), **text_style
        )
    return figure


class WeightedText:
    """A checked text with its weights and shades.

    Attributes:
        sentences: List of lists of str, formatted for drawing.
        word_weights: List of arrays, one per sentence.
        sentence_weights: Array, or None.
        word_shades, sentence_shades: The weights scaled so that 1 is the full color.
    """

    sentences: list[list[str]]
    word_weights: list[np.ndarray]
    sentence_weights: np.ndarray | None
    word_shades: list[np.ndarray]
    sentence_shades: np.ndarray | None

    def __init__(
        self,
        owner: str,
        sentences: Sequence[Sequence[str | bytes]],
        word_weights: npt.ArrayLike | Sequence[npt.ArrayLike],
        sentence_weights: npt.ArrayLike | None,
        cmap: "str | Colormap | None" = None,
    ) -> None:
        if not (_is_list(sentences) and all(_is_list(words) for words in sentences)):
            raise ValueError(
                f"{owner} expects `sentences` to be lists of words. Split them, or put a single "
                f"list of words into a list. Received: sentences={sentences!r:.80}"
            )
        self.sentences = [
            [format_token(owner, "sentences", word) for word in words] for words in sentences
        ]
        if not self.words:
            raise ValueError(f"{owner} expects `sentences` with at least one word. Received: none")
        rows = list(word_weights)
        _check_count(owner, "word_weights", len(rows), len(self.sentences))
        self.word_weights = [
            _validate_word_weights(owner, number, row, len(words))
            for number, (row, words) in enumerate(zip(rows, self.sentences, strict=True))
        ]
        self.sentence_weights = None
        factors = np.ones(len(rows))
        if sentence_weights is not None:
            weights = _validate_weights(owner, "sentence_weights", sentence_weights)
            _check_count(owner, "sentence_weights", len(weights), len(self.sentences))
            self.sentence_weights, factors = weights, np.sqrt(weights)
        found = [f * row for f, row in zip(factors, self.word_weights, strict=True)]
        self._scale = _ColorScale(np.concatenate(found))
        self.word_shades = [row / self._scale.full for row in found]
        self.sentence_shades = None
        if self.sentence_weights is not None:
            self._sentence_scale = _ColorScale(self.sentence_weights)
            self.sentence_shades = self.sentence_weights / self._sentence_scale.full
        self._cmap = None if cmap is None else _figures.get_colormap(owner, cmap)

    def word_color(self, shade: float) -> tuple[float, float, float]:
        """Returns the background color of a word of this shade."""
        if self._cmap is None:
            return mix_with_white(WORD_COLOR, shade)
        return self._cmap(float(shade))[:3]

    def list_color_bars(self) -> list[tuple[str, Callable[[float], tuple[float, float, float]]]]:
        """Returns a description and a color function for each color bar below the text."""
        if self.sentence_weights is None:
            return [(f"words: {self._scale}", self.word_color)]
        words = f"words, root of the sentence's weight times the word's: {self._scale}"
        sentences = f"sentences: {self._sentence_scale}"
        return [
            (words, self.word_color),
            (sentences, lambda shade: mix_with_white(SENTENCE_COLOR, shade)),
        ]

    @property
    def words(self) -> list[str]:
        """All words, in order."""
        return [word for words in self.sentences for word in words]


class _ColorScale:
    """The weight with the full color; `str` describes the scale."""

    def __init__(self, weights):
        self.mean, self.full = float(weights.mean()), _figures.choose_full_weight(weights)

    def __str__(self):
        return f"from 0 to {self.full:.3g}; their mean is {self.mean:.3g}"


def mix_with_white(color: tuple[float, float, float], shade: float) -> tuple[float, float, float]:
    """Returns a color between white, for shade 0, and `color`, for shade 1."""
    return tuple(1.0 - float(shade) * (1.0 - part) for part in color)


def choose_letter_color(background: tuple[float, float, float]) -> str:
    """Returns the most legible color of letters on a background: "black" or "white".

    Source: WCAG 2.2, relative luminance; at 0.179 both contrasts are equal.
    """
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in background]
    return "black" if np.dot(linear, (0.2126, 0.7152, 0.0722)) > 0.179 else "white"


def _validate_word_weights(owner, number, row, length):
    """Returns the weights of the words of a sentence; weights beyond them must be 0."""
    row = _validate_weights(owner, f"word_weights[{number}]", row)
    if len(row) < length or row[length:].any():
        raise ValueError(
            f"{owner} expects `word_weights` with a number for each word, and 0 beyond the words "
            f"of a sentence. Received: sentence {number} of {length} words with {len(row)} "
            f"weights, {np.count_nonzero(row[length:])} beyond its words not 0"
        )
    return row[:length]


def _validate_weights(owner, name, array):
    array = _figures.make_float_array(owner, name, array)
    if array.ndim != 1:
        raise ValueError(
            f"{owner} expects `{name}` to have one axis. Take one batch element. "
            f"Received: {name}.shape={array.shape}"
        )
    _figures.check_weights(owner, array, name)
    return np.clip(array, 0.0, 1.0)


def _check_count(owner, name, count, expected):
    if count != expected:
        raise ValueError(
            f"{owner} expects `{name}` to have one row per sentence. Received: {count} rows, "
            f"{expected} sentences"
        )


def _measure_widths(figure, words, font):
    """Returns the width of each word in inches."""
    renderer, dpi = figure.canvas.get_renderer(), figure.dpi
    return {
        word: renderer.get_text_width_height_descent(word, font, ismath=False)[0] / dpi
        for word in words
    }


def _lay_out_words(sentences, widths, left, top, width):
    """Returns (x, y, word) of every word, (top, bottom) of every sentence, and the right end."""
    places, ends, y, right = [], [], top, left + width
    for words in sentences:
        x, start = left, y
        for word in words:
            if x > left and x + widths[word] > left + width:
                x, y = left, y + LINE_INCHES
            places.append((x, y, word))
            right = max(right, x + widths[word])
            x += widths[word] + GAP_INCHES + 2 * EDGE_INCHES
        y += LINE_INCHES
        ends.append((start, y))
    if (y - top) / LINE_INCHES > MAX_LINES:
        raise ValueError(
            f"plot_text_weights plots at most {MAX_LINES} lines. Plot fewer sentences, or use "
            f"`text_weights_html`. Received: {round((y - top) / LINE_INCHES)} lines"
        )
    return places, ends, right


def _is_list(value):
    """Whether a value is iterable and not a string."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))
