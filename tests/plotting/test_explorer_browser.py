"""The pages of the explorer in Chromium: pointer, keyboard, screen reader, small windows, speed."""

import numpy as np
import pytest
from chromium import AXE, NEEDS_BROWSER, NO_AXE, Browser

from keras_attention.plotting import (
    explore_alignments,
    explore_beam_search,
    explore_heads,
    explore_hypotheses,
    explore_image_attention,
    explore_memory_use,
    explore_text_weights,
)

pytestmark = NEEDS_BROWSER
SOURCE, TARGET = ["das", "<b>alte</b>", "Haus"], ["the", "house"]
WEIGHTS = np.array([[0.75, 0.15, 0.1], [0.0, 0.25, 0.75]])
ARABIC, CHINESE = ["بنى", "جدي", "البيت"], ["房", "子"]
PAIRS = [(WEIGHTS, SOURCE, TARGET), (WEIGHTS, ARABIC, CHINESE)]
STATUS = "document.querySelector('[role=status]').textContent"
HEADS = np.random.default_rng(5).dirichlet(np.ones(3), (2, 2, 3))
SLOTS = np.eye(3, 5)[:, None]
PAGES = {
    "alignments": lambda: explore_alignments(PAIRS, titles=["German", "Arabic"]),
    "heads": lambda: explore_heads(HEADS, SOURCE),
    "hypotheses": lambda: explore_hypotheses(
        [["the", "house"], ["a", "house"], []], [-0.5, -1.0, -3.0], [[-0.1, -0.2], [-0.7, 0.0], []]
    ),
    "beam": lambda: explore_beam_search(
        [["the", "a"], ["house", "home"], ["</s>", "is"]],
        [[0, 0], [0, 0], [0, 0]],
        [[-0.1, -0.2], [-0.3, -0.4], [-0.3, -0.5]],
    ),
    "memory": lambda: explore_memory_use(SLOTS, SLOTS, np.full((3, 5, 2), -1.0)),
    "image": lambda: explore_image_attention(np.zeros((4, 4)), np.eye(2, 4).reshape(2, 2, 2), "ab"),
    "text": lambda: explore_text_weights([["a", "b"], []], [[0.75, 0.25], [0, 0]], [0.9, 0.1]),
}


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def show(browser, tmp_path):
    """Returns a function that opens a page and returns the browser; errors fail at the end."""

    def open_page(page, **window):
        page.save(tmp_path / "page.html")
        browser.open(tmp_path / "page.html", **window)
        return browser

    yield open_page
    assert browser.list_errors() == []


def option(label, number):
    return f"[aria-label={label}] [role=option]:nth-child({number})"


def numbers_of(browser, label):
    script = f"[...document.querySelectorAll('[aria-label={label}] small')].map(e => e.textContent)"
    return browser.run(script)


def shades_of(browser, label):
    items = f"[...document.querySelectorAll('[aria-label={label}] [role=option]')]"
    return browser.run(f"{items}.map(e => +e.style.getPropertyValue('--weight'))")


@pytest.mark.parametrize("kind", PAGES)
@pytest.mark.parametrize("width, scheme", [(1440, "light"), (390, "dark")])
def test_a_page_works_without_errors_and_needs_no_network(show, kind, width, scheme):
    browser = show(PAGES[kind](), width=width, scheme=scheme)
    assert browser.run("document.querySelectorAll('section').length") == 1
    assert browser.run("document.documentElement.scrollWidth") <= width
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(21, 23, 28)")


@pytest.mark.skipif(AXE is None, reason=NO_AXE)
@pytest.mark.parametrize("kind", PAGES)
@pytest.mark.parametrize("width, scheme", [(1440, "dark"), (390, "light")])
def test_a_page_is_accessible_before_and_after_a_click(show, kind, width, scheme):
    browser = show(PAGES[kind](), width=width, scheme=scheme)
    assert browser.list_violations() == []
    for control in ("[role=option]", ".tree button", "canvas.map"):
        if browser.run(f"document.querySelector({control!r}) !== null"):
            browser.move_to(control, click=True)
            break
    assert browser.list_violations() == []


def test_the_policy_refuses_what_is_foreign(browser, tmp_path):
    foreign = "<script>document.title = 'run'</script><img src=a.png><p style='color: red'>"
    path = tmp_path / "page.html"
    path.write_text(PAGES["alignments"]().html.replace("<main", foreign + "<main"), "utf-8")
    browser.open(path)
    assert browser.run("document.title") == "Alignments"
    assert len(browser.list_errors()) == 3


def test_views_share_a_page(show):
    first, *others = [make() for make in PAGES.values()]
    page = sum(others, start=first)
    assert show(page).run("document.querySelectorAll('section > h2').length") == len(PAGES)


def test_a_token_shows_what_it_attends_to(show):
    browser = show(PAGES["alignments"]())
    browser.move_to(option("Target", 2))
    assert numbers_of(browser, "Source") == ["", "0.25", "0.75"]
    assert shades_of(browser, "Source") == [0, 0.25, 0.75]
    assert browser.run(STATUS) == "house attends to: Haus 0.750, <b>alte</b> 0.250"
    browser.move_to(option("Source", 2))
    assert numbers_of(browser, "Target") == ["0.15", "0.25"]
    assert numbers_of(browser, "Source") == ["", "", ""]
    assert browser.run("document.querySelectorAll('bdi b').length") == 0, "markup is text"


def test_a_click_keeps_a_token_and_escape_ends_that(show):
    browser = show(PAGES["alignments"]())
    browser.move_to(option("Target", 1), click=True)
    browser.move_to("h1")
    assert numbers_of(browser, "Source") == ["0.75", "0.15", "0.10"]
    assert browser.run("document.querySelectorAll('[aria-selected=true]').length") == 1
    browser.press("Escape")
    assert numbers_of(browser, "Source") == ["", "", ""]
    assert browser.run("document.querySelectorAll('[aria-selected=true]').length") == 0


def test_a_tap_shows_a_token_and_another_tap_the_next(show):
    browser = show(PAGES["alignments"](), width=390)
    browser.tap(option("Target", 1))
    assert numbers_of(browser, "Source") == ["0.75", "0.15", "0.10"]
    browser.tap(option("Target", 2))
    assert numbers_of(browser, "Source") == ["", "0.25", "0.75"]


def read_focus(browser):
    return browser.run(
        "document.activeElement.firstChild?.textContent ?? document.activeElement.type"
    )


def test_the_keyboard_reaches_every_token(show):
    browser = show(explore_alignments([PAIRS[0]]))
    found = []
    for _ in range(4):
        browser.press("Tab")
        found.append(read_focus(browser))
    assert found == ["range", "checkbox", "das", "the"], "a list of tokens is one stop"
    browser.press("ArrowRight")
    assert read_focus(browser) == "house" and numbers_of(browser, "Source") == ["", "0.25", "0.75"]
    browser.press("Enter", "Home")
    assert read_focus(browser) == "the" and numbers_of(browser, "Source") == [
        "0.75",
        "0.15",
        "0.10",
    ]
    assert browser.run("document.querySelector('[aria-selected=true] bdi').textContent") == "house"


def test_arrows_follow_the_direction_of_the_script(show):
    browser = show(explore_alignments([PAIRS[1]]))
    places = browser.run(
        "[...document.querySelectorAll('[aria-label=Source] [role=option]')]"
        ".map(e => e.getBoundingClientRect().x)"
    )
    assert places == sorted(places, reverse=True), "the first Arabic token is the rightmost"
    browser.press("Tab", "Tab", "Tab", "ArrowLeft")
    assert read_focus(browser) == ARABIC[1]


def test_another_pair_is_chosen_by_its_title(show):
    browser = show(PAGES["alignments"]())
    browser.press("Tab", "ArrowDown")
    browser.move_to(option("Target", 2))
    assert browser.run(STATUS) == f"子 attends to: {ARABIC[2]} 0.750, {ARABIC[1]} 0.250"


def set_slider(browser, value):
    browser.run(
        f"(e => {{ e.value = {value}; e.dispatchEvent(new Event('input')) }})"
        "(document.querySelector('input[type=range]'))"
    )
    browser.wait_for_frame()


def test_the_threshold_hides_small_weights(show):
    browser = show(PAGES["alignments"]())
    browser.move_to(option("Target", 2))
    set_slider(browser, 0.5)  # of the full weight, 1
    assert numbers_of(browser, "Source") == ["", "", "0.75"]
    assert browser.run(STATUS) == "house attends to: Haus 0.750"


def count_painted(browser, canvas):
    return browser.run(
        f"(c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data"
        f".filter((v, i) => i % 4 === 3 && v).length)(document.querySelector('{canvas}'))"
    )


def test_a_head_opens_its_lines_and_closes_again(show):
    browser = show(PAGES["heads"]())
    assert browser.run("document.querySelectorAll('canvas.map').length") == 4
    browser.move_to('[aria-label="Layer 2, head 1"]', click=True)
    assert read_focus(browser) == "Back to all heads"
    assert count_painted(browser, "canvas.all") > 0 == count_painted(browser, "canvas.some")
    browser.move_to(option("Queries", 3))
    assert numbers_of(browser, "Keys") == [
        f"{weight:.2f}" if weight >= 0.005 else "" for weight in HEADS[1, 0, 2]
    ]
    assert count_painted(browser, "canvas.some") > 0
    browser.run("document.activeElement.click()")
    assert browser.run("document.activeElement.ariaLabel") == "Layer 2, head 1"
    assert browser.run("document.querySelector('.pair').checkVisibility()") is False


def test_a_map_has_a_pixel_for_each_weight(show):
    browser = show(explore_heads([[[1.0, 0.0], [0.5, 0.5]]], "ab"))
    pixels = "document.querySelector('canvas.map').getContext('2d').getImageData(0, 0, 2, 2).data"
    pixels = np.reshape(list(browser.run(f"[...{pixels}]")), (2, 2, 4))
    assert pixels[:, :, 0].tolist() == [[8, 255], [131, 131]]  # red, from --map-low to --map-high


def test_differences_between_hypotheses_are_not_shown_by_color_alone(show):
    browser = show(PAGES["hypotheses"]())
    second = "document.querySelectorAll('.hypotheses li')[1]"
    style = (
        f"[...{second}.querySelectorAll('bdi')].map(e => getComputedStyle(e).textDecorationLine)"
    )
    assert browser.run(style) == ["line-through", "underline", "none"]
    texts = f"[...{second}.querySelectorAll('[role=option]')].map(e => e.textContent)"
    assert browser.run(texts) == ["the, in the best alone", "a, not in the best-0.70", "house0.00"]
    browser.move_to("li:nth-child(2) [role=option]:nth-child(2)")
    assert browser.run(f"{second}.querySelector('[role=status]').textContent") == (
        "a: log-probability -0.700, probability 0.497, not in the best"
    )


def test_a_beam_is_followed_step_by_step(show):
    browser = show(PAGES["beam"]())
    listed = "[...document.querySelectorAll('section > ol > li')].map(e => e.textContent)"
    assert browser.run(listed) == ["the house </s> -0.300, ended", "the house is -0.500, alive"]
    set_slider(browser, 2)
    assert browser.run(listed) == ["the house -0.300, alive", "the home -0.400, fell behind"]
    visible = "[...document.querySelectorAll('.tree button')].filter(e => e.checkVisibility())"
    assert browser.run(f"{visible}.length") == 4
    browser.press("Tab", "Tab", "ArrowRight", "ArrowDown")
    assert (
        browser.run("document.activeElement.ariaLabel") == "step 2, home, score -0.400, fell behind"
    )
    assert browser.run(STATUS) == "the home, score -0.400, step 2: fell behind"
    assert browser.run("document.querySelectorAll('.path').length") == 2
    browser.press("ArrowLeft")
    assert browser.run(STATUS) == "the, score -0.100, step 1: alive"


def test_the_memory_of_a_step_is_named(show):
    browser = show(PAGES["memory"]())
    set_slider(browser, 3)
    assert browser.run(STATUS) == (
        "Write head 1: slot 2, weight 1.000; Read head 1: slot 2, weight 1.000"
    )


def test_a_word_colors_its_place_of_the_image(show):
    browser = show(PAGES["image"]())
    browser.move_to(option("Tokens", 2))
    assert count_painted(browser, ".overlay canvas + canvas") == 1
    assert browser.run(STATUS) == "b: largest weight 1.000, row 1, column 2"


def test_a_word_names_its_weight_and_that_of_its_sentence(show):
    browser = show(PAGES["text"]())
    assert numbers_of(browser, '"Sentence 1"') == ["0.75", "0.25"]
    browser.move_to(option('"Sentence 1"', 2))
    assert browser.run(STATUS) == "b: 0.250, sentence 1: 0.900"


def test_a_screen_reader_finds_names_and_roles(show):
    browser = show(PAGES["alignments"]())
    found = browser.find_names()
    assert {
        ("heading", "Alignments"),
        ("combobox", "Sentence pair"),
        ("slider", "Hide weights below"),
        ("checkbox", "Lines"),
        ("listbox", "Source"),
        ("option", "<b>alte</b>"),
        ("region", "Alignments"),
    } <= found
    roles = {role for role, _ in found}
    assert "status" in roles
    assert all(name for role, name in found if role in ("button", "slider", "listbox", "option"))


def make_large_page():
    """A pair of 200 source and 200 target tokens."""
    weights = np.random.default_rng(2).dirichlet(np.full(200, 0.05), 200)
    return explore_alignments(
        [(weights, [f"s{i}" for i in range(200)], [f"t{i}" for i in range(200)])]
    )


METRICS = ("ScriptDuration", "RecalcStyleDuration", "LayoutDuration")


def measure_hovers(browser):
    """Returns the milliseconds of CPU time of script, style and layout for each hover."""
    browser.send("Performance.enable", timeDomain="threadTicks")

    def total():
        found = browser.send("Performance.getMetrics")["metrics"]
        return sum(1000 * one["value"] for one in found if one["name"] in METRICS)

    times = []
    for number in range(0, 400, 2):
        before = total()
        browser.run(
            f"document.querySelectorAll('[role=option]')[{number}].dispatchEvent("
            "new PointerEvent('pointerover', {bubbles: true})), document.body.offsetHeight"
        )
        times.append(total() - before)
    browser.send("Performance.disable")
    return times


@pytest.mark.slow
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("has_lines", [False, True])
def test_a_hover_is_fast_with_200_tokens_on_each_side(show, width, has_lines):
    browser = show(make_large_page(), width=width)
    if has_lines:
        browser.move_to("input[type=checkbox]", click=True)
    typical, slow = np.percentile(measure_hovers(browser), [50, 95])
    print(f"width {width}, lines {has_lines}: median {typical:.1f} ms, 95 % within {slow:.1f} ms")
    assert slow < 16
