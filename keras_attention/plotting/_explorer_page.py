"""The HTML page of the explorer: package files, the data of the views, and a security policy.

The page needs no network. Its policy allows the page's own script and style sheet alone, by their
hashes, so that no text of a token can run or load anything. The data is JSON that the script
writes as text.
"""

import base64
import hashlib
import html
import importlib.resources
import json
import os
import pathlib
import string
import unicodedata
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from keras_attention.plotting._text_layout import format_title, format_token

JSON: TypeAlias = "str | int | float | bool | None | list[JSON] | dict[str, JSON]"

SCRIPTS = ("elements.js", "token_pair.js", "attention.js", "search.js", "memory.js", "start.js")
FULL_UINT16 = 65535
FRAME_HEIGHT = "40rem"


class ExplorerPage:
    """A page with one or more views to explore, as the `explore_...` functions return it.

    A notebook shows the page, if a cell ends in it, in a frame of its own. `first + second` is a
    page with the views of both.

    Attributes:
        title: Str, the title of the page.
        html: Str, the page, to be encoded as UTF-8. It is complete: it loads nothing.

    Example:

    >>> from keras_attention.plotting import explore_alignments
    >>> page = explore_alignments([([[0.9, 0.1]], ["ein", "Haus"], ["house"])], title="One pair")
    >>> page.html[:15], page
    ('<!DOCTYPE html>', ExplorerPage('One pair', 1 view))
    >>> page + page
    ExplorerPage('One pair, One pair', 2 views)
    """

    def __init__(self, title: str, views: Sequence[dict[str, JSON]]) -> None:
        self.title = title
        self._views = tuple(views)

    @property
    def html(self) -> str:
        """The page as str."""
        script = "\n".join(_read_file(name) for name in SCRIPTS)
        style = _read_file("style.css")
        data = json.dumps({"title": self.title, "views": self._views}, ensure_ascii=False)
        policy = (
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
            "base-uri 'none'; form-action 'none'"
        )
        return string.Template(_read_file("page.html")).substitute(
            policy=policy,
            title=html.escape(self.title),
            style=style,
            data=data.replace("<", "\\u003c"),  # so that no text ends the element
            script=script,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file.

        Args:
            path: The name of the file, such as "alignments.html".
        """
        pathlib.Path(path).write_bytes(self.html.encode("utf-8"))

    def __add__(self, other: "ExplorerPage") -> "ExplorerPage":
        if not isinstance(other, ExplorerPage):
            return NotImplemented
        return ExplorerPage(f"{self.title}, {other.title}", (*self._views, *other._views))

    def __repr__(self) -> str:
        count = len(self._views)
        return f"ExplorerPage({self.title!r}, {count} view{'s' if count != 1 else ''})"

    def _repr_html_(self) -> str:
        """Returns a frame for notebooks, which keeps styles and scripts apart from theirs."""
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" title="{html.escape(self.title)}" '
            f'sandbox="allow-scripts" style="width: 100%; height: {FRAME_HEIGHT}; border: 0">'
            "</iframe>"
        )


def make_page(owner: str, title: str | None, default: str, view: dict[str, JSON]) -> ExplorerPage:
    """Returns a page of one view with a checked title, or the default one for None."""
    title = format_title(owner, "title", title) or default
    return ExplorerPage(title, [view | {"title": title}])


def make_token_list(owner: str, name: str, tokens: Sequence[str | bytes]) -> dict[str, JSON]:
    """Returns the formatted tokens and their direction, that of most of their letters."""
    texts = [format_token(owner, name, token) for token in tokens]
    return {"tokens": texts, "isRightToLeft": _is_right_to_left("".join(texts))}


def encode_weights(weights: np.ndarray) -> str:
    """Returns numbers from 0 to 1 as base64 of little-endian uint16, 65535 for 1."""
    return encode_bytes(np.rint(np.clip(weights, 0.0, 1.0) * FULL_UINT16).astype("<u2"))


def encode_bytes(array: np.ndarray) -> str:
    """Returns the bytes of an array as base64."""
    return base64.b64encode(array.tobytes()).decode("ascii")


def round_number(number: float) -> float:
    """Returns a float with the digits that the page shows."""
    return round(float(number), 4)


def _is_right_to_left(text):
    classes = [unicodedata.bidirectional(char) for char in text]
    return sum(one in ("R", "AL") for one in classes) > classes.count("L")


def _read_file(name):
    folder = importlib.resources.files("keras_attention.plotting") / "explorer"
    return (folder / name).read_text("utf-8")


def _hash(text):
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
