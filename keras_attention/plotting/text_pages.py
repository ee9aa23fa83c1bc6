"""Attention over a text as an HTML page, for texts that are long, searched or copied."""

import html

from keras_attention.plotting.lettering import token_text
from keras_attention.plotting.texts import SENTENCE_COLOR, WeightedText, letter_color, mixed

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


def text_weights_html(sentences, word_weights, sentence_weights=None, *, title=None, cmap=None):
    """Returns an HTML page of a text, shaded as `plot_text_weights` draws it.

    The page stands alone: no script, no style sheet, nothing is loaded. The weight of a word
    or a sentence shows where the mouse rests on it. Words and title are escaped, so that
    markup in a text is shown and not obeyed.

    Args:
        sentences: Sequence of sequences of str (or UTF-8 bytes), the words of each sentence.
        word_weights: Array `(sentences, words)` of numbers from 0 to 1, 0 beyond the words of
            a sentence; or a sequence with an array for each sentence.
        sentence_weights: Optional array `(sentences,)` of numbers from 0 to 1.
        title: Optional str, the heading and the title of the page.
        cmap: Name of a matplotlib colormap for the words; None shades from white to blue, and
            needs no matplotlib.

    Returns:
        The page, a str to be written in UTF-8.

    Raises:
        ValueError: If there is no word, the numbers of sentences, words and weights differ, or
            a weight is not a finite number from 0 to 1, or there is no such colormap.
        ImportError: If `cmap` is given and matplotlib is not installed.

    Example:

    >>> page = text_weights_html([["a", "<b>", "c"]], [[0.1, 0.8, 0.1]])
    >>> "&lt;b&gt;" in page, "<b>" in page
    (True, False)

    Reference: Yang et al. 2016, https://aclanthology.org/N16-1174, figure 5.
    """
    owner = "text_weights_html"
    text = WeightedText(owner, sentences, word_weights, sentence_weights, cmap)
    heading = html.escape(token_text(owner, "title", title or "Attention over a text"))
    content = [f'<h1 style="font-size: 1.2em">{heading}</h1>'] if title else []
    for number, words in enumerate(text.sentences):
        stripe = ""
        if text.sentence_shades is not None:
            shade, weight = text.sentence_shades[number], text.sentence_weights[number]
            color = _css(mixed(SENTENCE_COLOR, shade))
            stripe = f' style="border-left: 0.8em solid {color}; padding-left: 0.5em" '
            stripe += f'title="sentence {number + 1}: {weight:.4f}"'
        pairs = zip(words, text.word_weights[number], text.word_shades[number], strict=True)
        spans = " ".join(
            _span(word, weight, text.word_color(shade)) for word, weight, shade in pairs
        )
        content.append(f'<p dir="auto"{stripe}>{spans}</p>')
    legend = "Color of " + "; of ".join(explanation for explanation, _ in text.bars())
    content.append(f'<p style="font-size: 0.7em; color: #666">{html.escape(legend)}</p>')
    return PAGE.format(title=heading, content="\n".join(content))


def _span(word, weight, color):
    letters = "; color: white" if letter_color(color) == "white" else ""
    style = f"background: {_css(color)}{letters}"
    return f'<span style="{style}" title="{weight:.4g}">{html.escape(word)}</span>'


def _css(color):
    return "#" + "".join(f"{round(255 * part):02x}" for part in color)
