"""Views of the explorer look as stored: small gray screenshots, with a font that is pinned.

Store them anew, and look at them: `KERAS_ATTENTION_STORE_SCREENSHOTS=1 python -m pytest -m browser
tests/plotting/test_explorer_screenshots.py`
"""

import base64
import io
import os
import pathlib

import numpy as np
import pytest
from chromium import NEEDS_BROWSER, Browser
from test_explorer_browser import PAGES

pytestmark = NEEDS_BROWSER
FOLDER = pathlib.Path(__file__).parent / "screenshots"
SCALE = 8  # pixels of the window for one of the stored image
#: Root mean square of the differences, where black and white differ by 1.
TOLERANCE = 0.006
CLICKED = {
    "alignments": "[aria-label=Target] [role=option]:nth-child(2)",
    "heads": '[aria-label="Layer 2, head 1"]',
    "beam": ".tree button",
    "memory": "h1",
    "text": "[role=option]:nth-child(2)",
}
#: What a fault might do; each must be noticed.
NO_SHADES = "[role=option], .tree button { background: none !important }"
SMALLER = "main { font-size: 94% !important }"
NOT_A_CANVAS = "canvas { visibility: hidden !important }"


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    browser.send("Page.setBypassCSP", enabled=True)  # for the font
    yield browser
    browser.close()


def take_screenshot(browser, folder, kind, style=""):
    """Returns gray values from 0 to 1 of a view after a click; letters are matplotlib's."""
    matplotlib = pytest.importorskip("matplotlib")
    image = pytest.importorskip("PIL.Image")
    font = pathlib.Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    font = base64.b64encode(font.read_bytes()).decode()
    PAGES[kind]().save(folder / "page.html")
    browser.open(folder / "page.html", width=480, height=360)
    style = (
        f"@font-face {{ font-family: pinned; src: url(data:font/ttf;base64,{font}) }}"
        f"* {{ font-family: pinned !important }} {style}"
    )
    browser.run(
        f"document.head.append(Object.assign(document.createElement('style'),"
        f"{{textContent: {style!r}}})), document.fonts.ready.then(() => 0)"
    )
    browser.move_to(CLICKED[kind], click=True)
    browser.run("scrollTo(0, 0)")
    browser.wait_for_frame()
    shot = browser.send("Page.captureScreenshot", format="png")["data"]
    return image.open(io.BytesIO(base64.b64decode(shot))).convert("L").reduce(SCALE)


def compare(shot, kind):
    """Returns how far a screenshot is from the stored one."""
    image = pytest.importorskip("PIL.Image")
    stored = np.asarray(image.open(FOLDER / f"{kind}.png"), float)
    return np.sqrt(np.square((np.asarray(shot, float) - stored) / 255).mean())


@pytest.mark.parametrize("kind", CLICKED)
def test_a_view_looks_as_stored(browser, tmp_path, kind):
    shot = take_screenshot(browser, tmp_path, kind)
    if os.environ.get("KERAS_ATTENTION_STORE_SCREENSHOTS"):
        FOLDER.mkdir(exist_ok=True)
        shot.save(FOLDER / f"{kind}.png", optimize=True)
    assert compare(shot, kind) < TOLERANCE


@pytest.mark.parametrize(
    "kind, style",
    [
        ("alignments", NO_SHADES),
        ("text", NO_SHADES),
        ("beam", NO_SHADES),
        ("heads", NOT_A_CANVAS),
        ("memory", NOT_A_CANVAS),
        ("alignments", SMALLER),
    ],
)
def test_a_planted_change_is_noticed(browser, tmp_path, kind, style):
    assert compare(take_screenshot(browser, tmp_path, kind, style), kind) > TOLERANCE
