"""Texts of any script in pictures: fonts that hold them, stand-ins for what cannot be seen."""

import math
import re
import unicodedata
import warnings

from keras_attention import fonts

FONT_POINTS = (7.5, 11.0)
LINE_INCHES = FONT_POINTS[0] * 1.2 / 72  # of the smallest letters
MOST_CHARACTERS = 60  # of a label
MARGIN_INCHES = 0.12
# What a reader could not tell from an empty label, or what would break one.
SPACES = str.maketrans({" ": "␣", "\u00a0": "␣"})
CONTROLS = {"\t": "⇥", "\n": "↵", "\r": "↵"}


class Lettering:
    """The fonts for some texts; warns of characters that no installed font holds.

    A process is warned once for each font that it lacks, not once a picture.

    Args:
        texts: Iterable of all str that will be drawn.
        stacklevel: Int, calls between the warning and the user.
    """

    def __init__(self, texts, stacklevel=3):
        self.families, self.missing = fonts.families_for([*texts, fonts.PLACEHOLDER])
        self._measured = {}
        if advice := fonts.new_advice(self.missing):
            warnings.warn(advice, stacklevel=stacklevel)

    @property
    def style(self):
        """The arguments of a matplotlib text: dollars and backslashes are letters."""
        return {"family": self.families, "parse_math": False}

    def drawable(self, text):
        """Returns the text with a box in place of each character that no font holds."""
        return "".join(fonts.PLACEHOLDER if char in self.missing else char for char in text)

    def inches(self, text, points):
        """Returns width and height of a text of one or several lines, as it is drawn."""
        from keras_attention.plotting.figures import new_figure

        if (text, points) not in self._measured:
            figure = new_figure(1.0, 1.0, layout=None)
            drawn = figure.text(0, 0, self.drawable(text), fontsize=points, **self.style)
            box = drawn.get_window_extent(figure.canvas.get_renderer())
            self._measured[text, points] = box.width / figure.dpi, box.height / figure.dpi
        return self._measured[text, points]

    def wrapped(self, text, points, inches):
        """Returns the text in lines of at most so many inches, broken between words if it can."""
        lines = []
        for line in text.split("\n"):
            begun = ""
            for word in re.findall(r"\s*\S+", line):
                if begun and self.inches(begun + word, points)[0] > inches:
                    lines.append(begun)
                    begun, word = "", word.lstrip()
                begun += word
                while len(begun) > 1 and self.inches(begun, points)[0] > inches:
                    length = self._fitting(begun, points, inches)
                    lines.append(begun[:length])
                    begun = begun[length:]
            lines.append(begun)
        return "\n".join(lines)

    def _fitting(self, text, points, inches):
        """How many characters of a text, one at least, are that wide."""
        low, high = 1, len(text)
        while high - low > 1:
            middle = (low + high) // 2
            if self.inches(text[:middle], points)[0] > inches:
                high = middle
            else:
                low = middle
        return low


def title_text(owner, name, title):
    """Returns a title as it is drawn, "" for None; it may have several lines."""
    if title is None:
        return ""
    if not isinstance(title, str | bytes):
        raise ValueError(
            f"{owner} expects `{name}` to be str, or None. Received: {title!r} of type "
            f"{type(title).__name__}"
        )
    text = title.decode("utf-8", "replace") if isinstance(title, bytes) else title
    return "\n".join(token_text(owner, name, line) if line else "" for line in text.split("\n"))


def shortened(text, most=MOST_CHARACTERS):
    """Returns the text, of a longer one beginning and end.

    >>> shortened("Donaudampfschifffahrt", 11)
    'Donau…fahrt'
    """
    if len(text) <= most:
        return text
    head, tail = text[: most // 2], text[len(text) - (most - 1) // 2 :]
    while unicodedata.combining(tail[0]):  # a mark without its letter
        tail = tail[1:]
    return f"{head}…{tail}"


def write_above(figure, title, letters, points=10.0):
    """Writes lines above all of a figure, which grows until they fit."""
    from keras_attention.plotting.figures import LARGEST_INCHES

    width, height = figure.get_size_inches()
    text = letters.wrapped(title, points, max(width, LARGEST_INCHES) - 2 * MARGIN_INCHES)
    across, down = letters.inches(text, points)
    figure.set_size_inches(max(width, across + 2 * MARGIN_INCHES), height + down + MARGIN_INCHES)
    figure.suptitle(
        letters.drawable(text),
        x=MARGIN_INCHES / figure.get_figwidth(),
        ha="left",
        fontsize=points,
        **letters.style,
    )


def token_text(owner, name, token):
    """Returns a token as it is drawn; `name` is the argument that holds it."""
    if isinstance(token, bytes):
        token = token.decode("utf-8", "replace")
    if not isinstance(token, str):
        raise ValueError(
            f"{owner} expects `{name}` to hold str or bytes. Received: {token!r} of type "
            f"{type(token).__name__}"
        )
    if token.strip(" \u00a0") == "":
        return token.translate(SPACES)
    return "".join(_control_picture(char) for char in token)


def _control_picture(char):
    """Returns a visible stand-in for a control character or half a surrogate pair."""
    if unicodedata.category(char) in ("Cc", "Cs"):
        return CONTROLS.get(char, "\ufffd")
    return char


def ems(text):
    """Returns a text's width in ems, roughly: 1 for East Asian characters, 0 for marks."""
    widths = (
        1.0 if unicodedata.east_asian_width(char) in "WF" else 0.6
        for char in text
        if not unicodedata.combining(char)
    )
    return sum(widths)


def label_step(cell):
    """Returns every how many-th label has room beside cells of so many inches."""
    return max(1, math.ceil(LINE_INCHES / cell - 1e-6))


def font_points(cell):
    """Returns the size of letters beside cells whose sides have so many inches."""
    low, high = FONT_POINTS
    return max(low, min(high, cell * 72 * 0.48))
