"""The built site in Chromium: errors, widths, links, the search, and an accessibility checker.

`make test-browser` builds the site first. Each page is loaded from disk.
"""

import json
import pathlib
import urllib.parse

import pytest
from chromium import AXE, NEEDS_BROWSER, NO_AXE, Browser

ROOT = pathlib.Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "site"
PAGES = sorted(str(page.relative_to(SITE)) for page in SITE.rglob("*.html"))
pytestmark = [
    *NEEDS_BROWSER,
    pytest.mark.skipif(not PAGES, reason="NOT RUN: there is no build/site; `make docs` builds it"),
]
#: One page of every kind, and those of the explorer.
KINDS = [
    "docs/index.html",
    "docs/mechanisms.html",
    "docs/decoding.html",
    "docs/plotting.html",
    "docs/serving.html",
    "docs/results.html",
    "docs/troubleshooting.html",
    "docs/api/index.html",
    "docs/api/keras_attention.BahdanauAttention.html",
    "docs/api/keras_attention.MultiHeadAttention.html",
    "docs/api/keras_attention.beam_search.html",
    "docs/cookbook/README.html",
    "docs/tutorials/index.html",
    "docs/development/site_measurements.html",
    "examples/notebooks/rnnsearch_dates.html",
    "_modules/keras_attention/attention/bahdanau.html",
    "_modules/index.html",
    "CONTRIBUTING.html",
    "search.html",
    "genindex.html",
    "explorer/alignments.html",
    "explorer/beam.html",
    "explorer/heads.html",
    "explorer/memory.html",
]
LOOK = """({
  width: document.documentElement.scrollWidth,
  ids: [...document.querySelectorAll('[id]')].map(e => e.id),
  links: [...document.querySelectorAll('a[href], img[src]')].map(e => e.href || e.src),
})"""


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def visits(browser):
    """What was found on every page, 390 pixels wide."""
    found = {}
    for page in PAGES:
        browser.open(SITE / page, width=390)
        if page == "index.html":  # leads on at once
            continue
        found[page] = browser.run(LOOK) | {"errors": browser.list_errors()}
    return found


def test_no_page_has_an_error_or_asks_the_network(visits):
    assert len(visits) > 300
    assert {page: one["errors"] for page, one in visits.items() if one["errors"]} == {}


def test_no_page_is_wider_than_a_small_window(visits):
    assert {page: one["width"] for page, one in visits.items() if one["width"] > 390} == {}


def test_links_and_anchors_lead_somewhere(visits):
    ids = {(SITE / page).as_uri(): set(one["ids"]) for page, one in visits.items()}
    broken = set()
    for page, one in visits.items():
        for link in one["links"]:
            url, _, anchor = link.partition("#")
            if not url.startswith("file:"):
                continue
            path = pathlib.Path(urllib.parse.unquote(urllib.parse.urlparse(url).path))
            anchor = urllib.parse.unquote(anchor)
            if not path.is_file() or (anchor and anchor not in ids.get(path.as_uri(), {anchor})):
                broken.add((page, link.removeprefix(SITE.as_uri())))
    assert broken == set()


def test_the_search_finds_a_layer(browser):
    browser.open((SITE / "search.html").as_uri() + "?q=BahdanauAttention")
    browser.run(
        "new Promise(done => { const look = () => document.querySelector('ul.search a')"
        " ? done() : setTimeout(look, 50); look() })"
    )
    links = browser.run("[...document.querySelectorAll('ul.search a')].map(e => e.href)")
    assert any("docs/api/keras_attention.BahdanauAttention.html" in link for link in links[:3])
    assert browser.list_errors() == []


@pytest.mark.skipif(AXE is None, reason=NO_AXE)
@pytest.mark.parametrize("width, scheme", [(1440, "light"), (390, "dark")])
@pytest.mark.parametrize("page", KINDS)
def test_a_kind_of_page_is_accessible(browser, page, width, scheme):
    browser.open(SITE / page, width=width, scheme=scheme)
    assert browser.list_violations() == []


@pytest.mark.skipif(AXE is None, reason=NO_AXE)
def test_axe_finds_a_planted_defect(browser):
    browser.open(SITE / "docs" / "index.html")
    browser.run("document.querySelector('article p').style.color = '#999', 0")
    assert [name for name, *_ in browser.list_violations()] == ["color-contrast"]


def test_pages_can_be_read_without_scripts(browser):
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(SITE / "docs" / "index.html", width=390)
    browser.send("Emulation.setScriptExecutionDisabled", value=False)
    shown = "document.querySelector({}).checkVisibility()"
    assert browser.run(shown.format(json.dumps("article h1")))
    assert browser.run("document.querySelectorAll('.sidebar-tree a').length") > 30
