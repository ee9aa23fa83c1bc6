"""Mends what an accessibility checker (axe-core) finds in the theme's pages.

The theme's templates have no block around these places, so the written files are changed.
`tests/test_site_browser.py` finds it out where the theme no longer has them.
"""

import pathlib
import re

REPLACEMENTS = {
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="All pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="On this page">',
    '<aside class="toc-drawer no-toc">': '<aside class="toc-drawer no-toc" aria-label="Nothing">',
    '<div id="search-results"></div>': '<h1>Search</h1><div id="search-results" class=""></div>',
    '<th class="head"><p></p></th>': "<td></td>",  # an empty corner of a table
}
#: The theme names an output's file; the text around the cell explains the figure.
UNNAMED = re.compile(r'(<img [^>]*)alt="[^"]*_images/[^"]*"')


def mend_pages(app, exception) -> None:
    """Replaces in every page; one that was mended before stays as it is."""
    if exception or app.builder.format != "html":
        return
    for path in pathlib.Path(app.outdir).rglob("*.html"):
        text = mended = path.read_text(encoding="utf-8")
        for old, new in REPLACEMENTS.items():
            mended = mended.replace(old, new)
        mended = UNNAMED.sub(r'\1alt="Figure that the code above draws"', mended)
        if mended != text:
            path.write_text(mended, encoding="utf-8")


def setup(app):
    """Connects the extension to Sphinx."""
    app.connect("build-finished", mend_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
