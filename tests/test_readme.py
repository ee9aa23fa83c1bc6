"""The README's Python runs; links of our pages lead somewhere; no page names one machine."""

import pathlib
import re
import subprocess
import sys

import pytest

from keras_attention import plotting

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")})
#: Without the pages of the examples, and those that the site generates.
WRAPPED = [
    page for page in PAGES if not {"examples", "api", "tutorials"} & {*page.relative_to(ROOT).parts}
]
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
#: Folders of one machine: what a page may name is relative, or a placeholder such as /path/to.
PRIVATE = re.compile(r"(?<![\w.~-])/(?:home|Users|work|tmp|root|mnt|data)/[\w.-]+")


def python_blocks(text):
    """Returns the code of every block fenced as python."""
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def links(text):
    """Returns the link targets of a page outside its code, without those of the web."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    return [link for link in LINK.findall(text) if not re.match(r"[a-z]+:", link)]


def _anchors(path):
    headings = re.findall(r"^#+\s+(.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in headings}


@pytest.mark.thorough
def test_the_python_of_the_readme_runs_from_top_to_bottom(tmp_path):
    blocks = python_blocks(README.read_text())
    assert blocks, "the README shows a Python example"
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks))
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_python_of_the_page_on_plotting_runs(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks((ROOT / "docs" / "plotting.md").read_text())
    exec(compile("\n".join(blocks), "plotting.md", "exec"), {})
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == ["alignment.png", "explorer.html", "text.png"]


def test_the_page_on_plotting_names_every_function():
    table = (ROOT / "docs" / "plotting.md").read_text().split("```")[0]
    named = re.findall(r"`((?:plot|text|explore)_\w+|ExplorerPage)`", table)
    assert sorted(named) == plotting.__all__


def test_the_readme_uses_bahdanau_attention():
    assert any("BahdanauAttention" in block for block in python_blocks(README.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_local_links_lead_to_files(page):
    for link in links(page.read_text()):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor and target.suffix == ".md":
            assert anchor in _anchors(target), f"{page.name} links to {link}"


def test_links_are_found():
    text = "[a](docs/a.md) ![b](<b.png>) `[c](c)` [d](https://d.org) [e](#e)\n```\n[f](f)\n```\n"
    assert links(text) == ["docs/a.md", "b.png", "#e"]


def _long_lines(text):
    """Returns the lines over 120 characters outside of code and tables."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = text.splitlines()
    return [line for line in lines if len(line) > 120 and not re.match(r" *\|| {4}", line)]


@pytest.mark.parametrize("page", WRAPPED, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_is_wrapped_at_120_characters(page):
    assert _long_lines(page.read_text()) == []


def test_long_lines_of_prose_are_found():
    long = "word " * 25
    code = f"```\n{long}\n```\n  ```sh\n  {long}\n  ```\n    {long}\n"
    assert _long_lines(f"short\n{long}\n{code}| {long} |\n* {long}\n") == [long, f"* {long}"]


def _list_tracked_text_files():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file():
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def test_no_file_names_a_folder_of_one_machine():
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path, text in _list_tracked_text_files()
        for match in PRIVATE.finditer(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    "text", ["{}home/someone/x", "in {}work/data", '"{}tmp/run"', "({}root/a)"]
)
def test_a_folder_of_one_machine_is_recognized(text):
    assert PRIVATE.search(text.format("/"))


@pytest.mark.parametrize("text", ["homework/work/a", "/path/to/x", "/var/models", "b/tmp/c"])
def test_other_paths_are_not(text):
    assert not PRIVATE.search(text)
