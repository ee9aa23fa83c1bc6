"""Texts of any script in pictures: fonts that hold them, stand-ins for what cannot be seen."""

import unicodedata
import warnings

from keras_attention import fonts

FONT_POINTS = (5.0, 11.0)
# What a reader could not tell from an empty label, or what would break one.
SPACES = str.maketrans({" ": "␣", "\u00a0": "␣"})
CONTROLS = {"\t": "⇥", "\n": "↵", "\r": "↵"}


class Lettering:
    """The fonts for some texts; warns once of the characters that no installed font holds.

    Args:
        texts: Iterable of all str that will be drawn.
        stacklevel: Int, calls between the warning and the user.
    """

    def __init__(self, texts, stacklevel=3):
        self.families, self.missing = fonts.families_for([*texts, fonts.PLACEHOLDER])
        if self.missing:
            warnings.warn(fonts.missing_text(self.missing), stacklevel=stacklevel)

    @property
    def style(self):
        """The arguments of a matplotlib text: dollars and backslashes are letters."""
        return {"family": self.families, "parse_math": False}

    def drawable(self, text):
        """Returns the text with a box in place of each character that no font holds."""
        return "".join(fonts.PLACEHOLDER if char in self.missing else char for char in text)


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


def font_points(cell):
    """Returns the size of letters beside cells whose sides have so many inches."""
    low, high = FONT_POINTS
    return max(low, min(high, cell * 72 * 0.48))
