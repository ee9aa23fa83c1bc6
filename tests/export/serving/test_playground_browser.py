"""The page at `/` in Chromium, against a real small export: from a text to its answer."""

import json
import shlex
import subprocess
import time

import pytest
from chromium import AXE, NEEDS_BROWSER, NO_AXE, Browser
from toy_export import BEAM_WIDTH, MAX_LENGTH, SOURCE_LIMIT, toy_parts

from keras_attention.export import SearchOptions, _warmup_requests, export_translator
from keras_attention.export._digest_manifest import write_manifest
from keras_attention.export.serving import Client, Server
from keras_attention.search import BeamOptions

pytestmark = NEEDS_BROWSER
MARKUP = "<img src=x onerror=alert(1)> & <b>abc</b> '\"\\"
SUMMARIES = "[...document.querySelectorAll('summary')].map(e => e.textContent)"
TITLES = "[...document.querySelectorAll('details[open] > section > h3')].map(e => e.textContent)"
OUTPUTS = "[...document.querySelectorAll('.n-best li')].map(e => e.firstChild.textContent)"
SCORES = "[...document.querySelectorAll('.n-best small')].map(e => e.textContent)"
PROBLEM = "document.getElementById('problems').textContent"
CODE = "document.querySelector('pre').textContent"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder of two models: `toy` with its beam tree, and `tiny`, which is no translator."""
    from tiny_model import write_version

    base = tmp_path_factory.mktemp("models")
    model, source, target = toy_parts()
    options = BeamOptions(return_tree=True)
    search = SearchOptions(BEAM_WIDTH, MAX_LENGTH, SOURCE_LIMIT, options=options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_warmup_requests, "replay_requests", lambda path, requests: [])
        path = export_translator(model, base / "toy", source=source, target=target, search=search)
    (path / _warmup_requests.WARMUP_FILE).unlink()
    write_manifest(path)
    write_version(base / "tiny", 3, "!")
    return base


def serve(base):
    models = {name: base / name for name in ("toy", "tiny")}
    return Server(models, grpc_port=0, rest_api_port=0, playground=True)


@pytest.fixture(scope="module")
def server(base):
    with serve(base) as server:
        yield server


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


def wait(browser, condition, seconds=60):
    until = time.monotonic() + seconds
    while not browser.run(f"!!({condition})"):
        assert time.monotonic() < until, browser.run("document.body.innerText")
        time.sleep(0.02)


def open_page(browser, server, **window):
    browser.open(f"http://127.0.0.1:{server.rest_api_port}/", **window)
    wait(browser, "document.querySelector('textarea')")


def fill(browser, label, value):
    """Writes into the control of a label, as typing would."""
    find = f"[...document.querySelectorAll('label')].find(e => e.textContent.trim() === '{label}')"
    browser.run(
        f"(e => {{ e.value = {json.dumps(value)}; e.dispatchEvent(new Event('input')) }})"
        f"(document.getElementById({find}.htmlFor))"
    )


def ask(browser):
    browser.run("document.getElementById('status').textContent = 'asked'")
    browser.run("document.querySelector('.ask').click()")
    ended = "document.getElementById('status').textContent.startsWith('Answered')"
    wait(browser, f"{ended} || {PROBLEM}")


def choose(browser, signature, label):
    fill(browser, "Signature", signature)
    wait(
        browser,
        f"[...document.querySelectorAll('label')].some(e => e.textContent.trim() === '{label}')",
    )


def console_errors(browser):
    return [error for error in browser.list_errors() if isinstance(error, dict)]


@pytest.mark.parametrize("width, scheme", [(1440, "light"), (390, "dark")])
def test_a_text_gets_outputs_alignment_and_tree(browser, server, width, scheme):
    open_page(browser, server, width=width, scheme=scheme)
    fill(browser, "Text", "abc def\nhij")
    ask(browser)
    assert browser.run(SUMMARIES) == ["abc def", "hij"], browser.run(PROBLEM)
    assert browser.run(TITLES)[:1] == ["Outputs"]
    assert {"Alignment", "Beam tree"} <= set(browser.run(TITLES))
    with Client(f"http://127.0.0.1:{server.rest_api_port}", "toy") as client:
        expected = client.translate(["abc def"])[0]
    assert browser.run(OUTPUTS) == [text or "(empty text)" for text, _ in expected]
    assert browser.run(SCORES) == [f"score {score:.3f}" for _, score in expected]
    assert browser.run("document.querySelectorAll('[aria-label=Source] [role=option]').length") == 8
    assert browser.run("document.querySelectorAll('.tree button').length") > BEAM_WIDTH
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.run("document.querySelectorAll('summary')[1].click()")
    wait(browser, "document.querySelectorAll('details[open] .tree').length === 2")
    assert console_errors(browser) == []
    origin = f"http://127.0.0.1:{server.rest_api_port}/"
    urls = [url for url in browser.list_errors() if isinstance(url, str)]
    assert urls and all(url.startswith(origin) for url in urls)


@pytest.mark.skipif(AXE is None, reason=NO_AXE)
@pytest.mark.parametrize("width, scheme", [(1440, "dark"), (390, "light")])
def test_the_page_is_accessible_before_and_after_an_answer(browser, server, width, scheme):
    open_page(browser, server, width=width, scheme=scheme)
    assert browser.list_violations() == []
    fill(browser, "Text", "abc def\nhij")
    ask(browser)
    assert browser.list_violations() == []


def test_options_change_the_answer(browser, server):
    open_page(browser, server)
    fill(browser, "Text", "abc def")
    choose(browser, "search", "Maximum length")
    found = []
    for limit in ("7", "1"):
        fill(browser, "Maximum length", limit)
        ask(browser)
        found.append(browser.run(OUTPUTS))
    assert "seven two two seven two two two" in found[0]
    assert not any(" " in text for text in found[1] if text != "(empty text)")
    fill(browser, "Maximum length", "")
    ask(browser)
    assert browser.run(PROBLEM).startswith("Maximum length: ")
    assert browser.run("document.activeElement.ariaInvalid") == "true"


def test_the_copied_requests_give_the_same_answer(browser, server):
    open_page(browser, server)
    fill(browser, "Text", MARKUP)
    choose(browser, "search", "Maximum length")
    ask(browser)
    shown = browser.run(OUTPUTS)
    command = shlex.split(browser.run(CODE))
    found = subprocess.run([command[0], "-s", *command[1:]], capture_output=True, check=True)
    texts = json.loads(found.stdout)["outputs"]["text"][0]
    assert [text for text in texts if text] == [text for text in shown if text != "(empty text)"]
    for program in ("Python", "gRPC"):
        browser.run(f"document.querySelector('[value={program}]').click()")
        code, printed = browser.run(CODE), []
        exec(code, {"print": printed.append})
        assert list(printed[0]["text"][0]) == texts


@pytest.mark.parametrize(
    "text",
    [MARKUP, "a" * 10_000, "日本語のテキスト", "שלום עולם"],
    ids=["markup", "long", "cjk", "rtl"],
)
def test_any_text_is_shown_as_text(browser, server, text):
    open_page(browser, server, width=390)
    fill(browser, "Text", text)
    ask(browser)
    shown = text if len(text) <= 80 else "a" * 80 + "…"
    assert browser.run(SUMMARIES) == [shown]
    assert browser.run("document.querySelectorAll('img, main b b, summary b').length") == 0
    assert browser.run("document.documentElement.scrollWidth") <= 390
    assert console_errors(browser) == []
    direction = "rtl" if text.startswith("ש") else "ltr"
    style = "getComputedStyle(document.querySelector('textarea')).direction"
    assert browser.run(style) == direction
    # The source is shown as the tokens that the model read: those it does not know are `<unk>`.
    is_right_to_left = f"makeTokenList({json.dumps([text])}).isRightToLeft"
    assert browser.run(is_right_to_left) is (direction == "rtl")


def test_an_empty_text_is_not_sent(browser, server):
    open_page(browser, server)
    fill(browser, "Text", " \n")
    ask(browser)
    assert browser.run(PROBLEM) == "Write a text first: Text is empty."
    assert browser.run("document.activeElement.tagName") == "TEXTAREA"


def test_phrases_and_further_sources_may_be_empty(browser, server):
    open_page(browser, server)
    script = """(values => {
      const fields = Object.entries(values).map(([name, value]) => {
        const kept = new Map([[`${name} true false`, value]]);
        return makeField({name, dtype: "string", shape: [-1]}, true, kept, () => 0);
      });
      return readFields(fields, "text");
    })"""
    values = {"text": "a\nb\nc\n", "phrases": "", "text_2": "d\n\n"}
    found = browser.run(f"{script}({json.dumps(values)})")
    assert found == {"text": ["a", "b", "c"], "phrases": ["", "", ""], "text_2": ["d", "", ""]}


def test_errors_of_the_server_are_shown_as_they_are(browser, server):
    open_page(browser, server)
    choose(browser, "ids", "ids")
    fill(browser, "ids", "[[4], [4]]")
    fill(browser, "length", "[1]")
    ask(browser)
    assert browser.run(PROBLEM).startswith("The server answers with status 400: ")
    fill(browser, "ids", "[[4")
    ask(browser)
    assert browser.run(PROBLEM).startswith("ids is not JSON: ")


def test_a_model_without_scores_shows_its_values(browser, server):
    open_page(browser, server)
    fill(browser, "Model", "tiny")
    wait(browser, "![...document.querySelectorAll('option')].some(e => e.value === 'search')")
    ask_for = "[...document.querySelectorAll('textarea')].map(e => e.parentElement.textContent)"
    assert browser.run(ask_for)
    fill(browser, "Text", "abc")
    ask(browser)
    assert "abc!" in browser.run("document.getElementById('answers').textContent")


def test_a_server_that_has_gone_is_reported(browser, base):
    with serve(base) as server:
        open_page(browser, server)
    fill(browser, "Text", "abc")
    ask(browser)
    assert browser.run(PROBLEM).startswith("There is no answer from http://127.0.0.1:")


def test_the_keyboard_and_a_screen_reader_find_everything(browser, server):
    open_page(browser, server)
    found = browser.find_names()
    assert {
        ("heading", "Try the models"),
        ("combobox", "Model"),
        ("combobox", "Version"),
        ("combobox", "Signature"),
        ("textbox", "Text"),
        ("button", "Ask the model"),
        ("checkbox", "Beam tree, too"),
        ("button", "Copy"),
        ("region", "The request"),
    } <= found
    assert "status" in {role for role, _ in found}
    browser.run("document.querySelector('textarea').focus()")
    fill(browser, "Text", "abc")
    browser.press("Tab", "Enter")
    wait(browser, "document.querySelector('.n-best')")
