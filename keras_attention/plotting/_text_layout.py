"""Text of any script in plots: fonts that contain it, and stand-ins for invisible characters."""

import math
import re
import unicodedata
import warnings

from keras_attention.plotting import _fonts

FONT_POINTS = (7.5, 11.0)
LINE_INCHES = FONT_POINTS[0] * 1.2 / 72  # line height of the smallest font
MAX_CHARACTERS = 60  # of a label
MARGIN_INCHES = 0.12
# Characters that look like an empty label, or that would break one.
SPACES = str.maketrans({" ": "␣", "\u00a0": "␣"})
CONTROLS = {"\t": "⇥", "\n": "↵", "\r": "↵"}


class TextLayout:
    """The fonts for some texts; warns about characters that no installed font contains.

    Each missing font causes one warning per process, not one per figure.

    Args:
        texts: Iterable of all str to draw.
        stacklevel: Int, the number of calls between the warning and the user.
    """

    def __init__(self, texts, stacklevel=3):
        self.families, self.missing = _fonts.choose_families([*texts, _fonts.PLACEHOLDER])
        self._measured = {}
        if advice := _fonts.advise_once(self.missing):
            warnings.warn(advice, stacklevel=stacklevel)

    @property
    def style(self):
        """The arguments of a matplotlib text: dollars and backslashes are literal."""
        return {"family": self.families, "parse_math": False}

    def replace_missing(self, text):
        """Returns the text with a box in place of each character without a font."""
        return "".join(_fonts.PLACEHOLDER if char in self.missing else char for char in text)

    def inches(self, text, points):
        """Returns the drawn width and height of a text of one or more lines."""
        from keras_attention.plotting._figures import new_figure

        if (text, points) not in self._measured:
            figure = new_figure(1.0, 1.0, layout=None)
            drawn = figure.text(0, 0, self.replace_missing(text), fontsize=points, **self.style)
            box = drawn.get_window_extent(figure.canvas.get_renderer())
            self._measured[text, points] = box.width / figure.dpi, box.height / figure.dpi
        return self._measured[text, points]

    def wrap_text(self, text, points, inches):
        """Returns the text wrapped to a width in inches, between words if possible."""
        lines = []
        for line in text.split("\n"):
            begun = ""
            for word in re.findall(r"\s*\S+", line):
                if begun and self.inches(begun + word, points)[0] > inches:
                    lines.append(begun)
                    begun, word = "", word.lstrip()
                begun += word
                while len(begun) > 1 and self.inches(begun, points)[0] > inches:
                    length = self._count_fitting_characters(begun, points, inches)
                    lines.append(begun[:length])
                    begun = begun[length:]
            lines.append(begun)
        return "\n".join(lines)

    def _count_fitting_characters(self, text, points, inches):
        """Returns how many characters of a text, at least one, fit into this width."""
        low, high = 1, len(text)
        while high - low > 1:
            middle = (low + high) // 2
            if self.inches(text[:middle], points)[0] > inches:
                high = middle
            else:
                low = middle
        return low


def format_title(owner, name, title):
    """Returns a title for drawing, "" for None; it may have several lines."""
    if title is None:
        return ""
    if not isinstance(title, str | bytes):
        raise ValueError(
            f"{owner} expects `{name}` to be str, or None. Received: {title!r} of type "
            f"{type(title).__name__}"
        )
    text = title.decode("utf-8", "replace") if isinstance(title, bytes) else title
    return "\n".join(format_token(owner, name, line) if line else "" for line in text.split("\n"))


def shorten_text(text, max_characters=MAX_CHARACTERS):
    """Returns the text, or beginning and end of a long one.

    >>> shorten_text("Donaudampfschifffahrt", 11)
    'Donau…fahrt'
    """
    if len(text) <= max_characters:
        return text
    head, tail = text[: max_characters // 2], text[len(text) - (max_characters - 1) // 2 :]
    while unicodedata.combining(tail[0]):  # a combining mark without its letter
        tail = tail[1:]
    return f"{head}…{tail}"


def write_figure_title(figure, title, text_layout, points=10.0):
    """Writes lines above a figure, which grows until they fit."""
    from keras_attention.plotting._figures import LARGEST_INCHES

    width, height = figure.get_size_inches()
    text = text_layout.wrap_text(title, points, max(width, LARGEST_INCHES) - 2 * MARGIN_INCHES)
    across, down = text_layout.inches(text, points)
    figure.set_size_inches(max(width, across + 2 * MARGIN_INCHES), height + down + MARGIN_INCHES)
    figure.suptitle(
        text_layout.replace_missing(text),
        x=MARGIN_INCHES / figure.get_figwidth(),
        ha="left",
        fontsize=points,
        **text_layout.style,
    )


def format_token(owner, name, token):
    """Returns a token for drawing; `name` is the argument that contains it."""
    if isinstance(token, bytes):
        token = token.decode("utf-8", "replace")
    if not isinstance(token, str):
        raise ValueError(
            f"{owner} expects `{name}` to contain str or bytes. Received: {token!r} of type "
            f"{type(token).__name__}"
        )
    if token.strip(" \u00a0") == "":
        return token.translate(SPACES)
    return "".join(_get_control_picture(char) for char in token)


def _get_control_picture(char):
    """Returns a visible stand-in for a control character or an unpaired surrogate."""
    if unicodedata.category(char) in ("Cc", "Cs"):
        return CONTROLS.get(char, "\ufffd")
    return char


def estimate_ems(text):
    """Returns the approximate width of a text in ems: 1 for East Asian characters, 0 for marks."""
    widths = (
        1.0 if unicodedata.east_asian_width(char) in "WF" else 0.6
        for char in text
        if not unicodedata.combining(char)
    )
    return sum(widths)


def label_step(cell):
    """Returns the step between labels that fit beside cells of this size in inches."""
    return max(1, math.ceil(LINE_INCHES / cell - 1e-6))


def font_points(cell):
    """Returns the font size beside cells with sides of this size in inches."""
    low, high = FONT_POINTS
    return max(low, min(high, cell * 72 * 0.48))
