"""Measures the built site: weights of its pages, and the time to the first paint from disk.

make docs && python docs/images/measure_site.py
"""

import pathlib
import statistics
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "references"))
SITE = ROOT / "build" / "site"
PAINTED = ("docs/index", "docs/api/keras_attention.BahdanauAttention", "docs/mechanisms")
FIRST_PAINT = """new Promise(done => new PerformanceObserver(list => done(
    list.getEntriesByName('first-contentful-paint')[0].startTime)).observe(
    {type: 'paint', buffered: true}))"""


def weigh(browser, page: pathlib.Path) -> int:
    """Returns the bytes of all files that a page loads from the site."""
    browser.open(page)
    requests = [one["params"]["request"] for one in browser.events if "request" in one["params"]]
    urls = {urllib.parse.urlparse(one["url"]) for one in requests}
    files = {urllib.parse.unquote(url.path) for url in urls if url.scheme == "file"}
    return sum(pathlib.Path(file).stat().st_size for file in files)


def main() -> None:
    """Prints the measurements."""
    from chromium import Browser

    browser = Browser()
    pages = [page for page in SITE.rglob("*.html") if page != SITE / "index.html"]
    weights = {str(page.relative_to(SITE)): weigh(browser, page) for page in pages}
    largest = max(weights, key=weights.get)
    print(f"{len(weights)} pages with what they load, not compressed:")
    print(f"  median {statistics.median(weights.values()) / 1e3:.0f} kB")
    print(f"  largest {weights[largest] / 1e3:.0f} kB, {largest}")
    size = sum(file.stat().st_size for file in SITE.rglob("*") if ".doctrees" not in file.parts)
    print(f"  all files {size / 1e6:.1f} MB")
    for name in PAINTED:
        times = []
        for _ in range(15):
            browser.open(SITE / f"{name}.html")
            browser.wait_for_frame()
            times.append(browser.run(FIRST_PAINT))
        print(f"first paint of {name}: median {statistics.median(times):.0f} ms of 15")
    browser.close()


if __name__ == "__main__":
    main()
