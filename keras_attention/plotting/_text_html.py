"""Attention over a text as an HTML page, for long texts and for searching and copying."""

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy.typing as npt

from keras_attention.plotting._text_layout import format_token
from keras_attention.plotting.text_heatmap import (
    SENTENCE_COLOR,
    WeightedText,
    choose_letter_color,
    mix_with_white,
)

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

PAGE = """\
<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<title>{title}</title>
</head>
<body style="font-family: sans-serif; line-height: 1.6; max-width: 60em; margin: 1em auto; \
color: #000; background: #fff">
{content}
</body>
</html>
"""


def text_weights_html(
    sentences: Sequence[Sequence[str | bytes]],
    word_weights: npt.ArrayLike | Sequence[npt.ArrayLike],
    sentence_weights: npt.ArrayLike | None = None,
    *,
    title: str | None = None,
    cmap: "str | Colormap | None" = None,
) -> str:
    """Returns an HTML page of a text with the shades of `plot_text_weights`.

    The page is self-contained: no script, no style sheet, no external resources. A tooltip shows
    the weight of a word or a sentence. Words and title are escaped, so that markup in a text is
    displayed literally.

    Args:
        sentences: Sequence of sequences of str (or UTF-8 bytes), the words of each sentence.
        word_weights: Array `(sentences, words)` of numbers from 0 to 1, 0 beyond the words of
            a sentence; or a sequence with an array for each sentence.
        sentence_weights: Optional array `(sentences,)` of numbers from 0 to 1.
        title: Optional str, the heading and the title of the page.
        cmap: Name of a matplotlib colormap for the words; None shades from white to blue and
            does not need matplotlib.

    Returns:
        The page as str, to be encoded as UTF-8.

    Raises:
        ValueError: If there is no word, the numbers of sentences, words and weights differ, or
            a weight is not a finite number from 0 to 1, or there is no such colormap.
        ImportError: If `cmap` is not None and matplotlib is not installed.

    Example:

    >>> page = text_weights_html([["a", "<b>", "c"]], [[0.1, 0.8, 0.1]])
    >>> "&lt;b&gt;" in page, "<b>" in page
    (True, False)

    Reference: Yang et al. 2016, https://aclanthology.org/N16-1174, figure 5.
    """
    owner = "text_weights_html"
    text = WeightedText(owner, sentences, word_weights, sentence_weights, cmap)
    heading = html.escape(format_token(owner, "title", title or "Attention over a text"))
    content = [f'<h1 style="font-size: 1.2em">{heading}</h1>'] if title else []
    for number, words in enumerate(text.sentences):
        stripe = ""
        if text.sentence_shades is not None:
            shade, weight = text.sentence_shades[number], text.sentence_weights[number]
            color = _format_css(mix_with_white(SENTENCE_COLOR, shade))
            stripe = f' style="border-left: 0.8em solid {color}; padding-left: 0.5em" '
            stripe += f'title="sentence {number + 1}: {weight:.4f}"'
        pairs = zip(words, text.word_weights[number], text.word_shades[number], strict=True)
        spans = " ".join(
            _make_span(word, weight, text.word_color(shade)) for word, weight, shade in pairs
        )
        content.append(f'<p dir="auto"{stripe}>{spans}</p>')
    legend = "Color of " + "; of ".join(explanation for explanation, _ in text.list_color_bars())
    content.append(f'<p style="font-size: 0.7em; color: #666">{html.escape(legend)}</p>')
    return PAGE.format(title=heading, content="\n".join(content))


def _make_span(word, weight, color):
    color_style = "; color: white" if choose_letter_color(color) == "white" else ""
    style = f"background: {_format_css(color)}{color_style}"
    return f'<span style="{style}" title="{weight:.4g}">{html.escape(word)}</span>'


def _format_css(color):
    return "#" + "".join(f"{round(255 * part):02x}" for part in color)
