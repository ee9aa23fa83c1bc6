"""The pages of the explorer: their data, what they load and run (nothing foreign), bad input."""

import base64
import hashlib
import html
import json
import pathlib
import re
import tomllib

import keras
import numpy as np
import pytest

from keras_attention import beam_search, plotting
from keras_attention.plotting import (
    ExplorerPage,
    explore_alignments,
    explore_beam_search,
    explore_heads,
    explore_hypotheses,
    explore_image_attention,
    explore_memory_use,
    explore_text_weights,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARKUP = ["</script><script>alert(1)</script>", "<!--", "&amp;", "'\"$title", "\u2028"]
WEIGHTS = np.array([[0.9, 0.1, 0.0], [0.0, 0.25, 0.75]])
PAIR = (WEIGHTS, ["das", "Haus", "</s>"], ["house", "</s>"])
TREE = {
    "tokens": [["the", "a"], ["house", "home", "big"], ["</s>", "now"]],
    "parents": [[0, 0], [0, 1, 0], [0, 2]],
    "scores": [[-0.3, -1.2], [-0.4, -1.3, -2.0], [-0.5, -2.5]],
}
MEMORY = np.eye(3, 5)[:, None]  # 3 steps, 1 head, 5 slots
PAGES = {
    "alignments": lambda: explore_alignments([PAIR], title="One"),
    "heads": lambda: explore_heads(np.stack([np.eye(3)] * 2), "abc"),
    "hypotheses": lambda: explore_hypotheses([["a", "b"], ["a"]], [-1.0, -2.0]),
    "beam": lambda: explore_beam_search(**TREE),
    "memory": lambda: explore_memory_use(MEMORY, MEMORY, np.ones((3, 5, 2))),
    "image": lambda: explore_image_attention(np.zeros((2, 3)), [[[0.5, 0.5]]], ["a"]),
    "text": lambda: explore_text_weights([["a", "b"], ["c"]], [[0.5, 0.5], [1, 0]], [0.9, 0.1]),
}


def data_of(page):
    """Returns what the page's script reads."""
    (text,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', page.html, re.DOTALL
    )
    return json.loads(text)


def view_of(page):
    (view,) = data_of(page)["views"]
    return view


def decode(text):
    return np.frombuffer(base64.b64decode(text), "<u2") / 65535


def test_every_function_has_a_page_here():
    functions = {name for name in plotting.__all__ if name.startswith("explore_")}
    assert len(functions) == len(PAGES)


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_is_complete_and_the_same_each_time(kind, tmp_path):
    page = PAGES[kind]()
    assert view_of(page)["kind"] == kind and isinstance(page, ExplorerPage)
    assert PAGES[kind]().html == page.html
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == page.html
    assert page.html.startswith("<!DOCTYPE html>") and '<meta charset="utf-8">' in page.html
    own = re.sub('id="data">.*?</script>', "", page.html, flags=re.DOTALL)
    own = re.sub(r"(^|\s)//.*", "", own)  # comments
    loads = r"http:|https:|//\w|\bsrc=|\bhref=|@import|url\(|\beval|new Function|innerHTML|fetch\("
    assert re.findall(loads, own) == []


def test_the_policy_names_the_script_and_the_style_by_their_hashes():
    page = PAGES["alignments"]().html
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="(.*?)"', page)
    for tag, name in (("script", "script-src"), ("style", "style-src")):
        text = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        (digest,) = [base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in text]
        assert f"{name} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    assert not re.search(r"\son\w+=|style=", page), "the policy forbids them"


def luminance(color):
    """The relative luminance of WCAG 2.2."""
    parts = np.array([int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("scheme", [0, 1])
def test_letters_can_be_read_on_every_shade(scheme):
    rules = re.findall(r":root \{(.*?)\}", PAGES["heads"]().html, re.DOTALL)
    color = dict(re.findall(r"--(\w+): (#\w{6});", rules[scheme]))
    pairs = [("ink", one, 4.5) for one in ("paper", "blue", "orange")]
    pairs += [("quiet", "paper", 4.5), ("edge", "paper", 3), ("focus", "paper", 3)]
    for one, other, least in pairs:
        high, low = sorted((luminance(color[one]), luminance(color[other])), reverse=True)
        assert (high + 0.05) / (low + 0.05) >= least, (one, other)


def test_markup_in_tokens_and_titles_is_text():
    weights = np.full((5, 5), 0.2)
    page = explore_alignments([(weights, MARKUP, MARKUP)], titles=[MARKUP[0]], title=MARKUP[0])
    assert page.html.count("<script") == 2 and page.html.count("</script") == 2
    assert "<!--" not in page.html.partition("<body>")[2].partition("<script>")[0]
    example = view_of(page)["examples"][0]
    assert example["source"]["tokens"] == MARKUP and example["title"] == MARKUP[0]
    (title,) = re.findall("<title>(.*?)</title>", page.html)
    assert html.unescape(title) == MARKUP[0]


def test_a_notebook_gets_a_frame_of_its_own():
    page = explore_alignments([([[1.0]], ['"'], ["<b>"])])
    frame = page._repr_html_()
    (source,) = re.findall(r'^<iframe srcdoc="([^"]*)" title="Alignments" ', frame)
    assert html.unescape(source) == page.html and "<" not in source
    assert 'sandbox="allow-scripts"' in frame


def test_pages_are_joined():
    page = PAGES["alignments"]() + PAGES["beam"]()
    assert [view["kind"] for view in data_of(page)["views"]] == ["alignments", "beam"]
    assert page.title == "One, Beam search"
    with pytest.raises(TypeError):
        page + "page"


def test_the_files_of_the_page_are_packaged():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    data = project["tool"]["setuptools"]["package-data"]
    folder = ROOT / "keras_attention" / "plotting"
    files = {path for pattern in data["keras_attention.plotting"] for path in folder.glob(pattern)}
    assert files == {p for p in folder.rglob("*") if p.suffix in (".js", ".css", ".html")}


def test_the_weights_are_those_of_the_arguments():
    example = view_of(explore_alignments([PAIR], titles=["first"]))["examples"][0]
    np.testing.assert_allclose(decode(example["weights"]), WEIGHTS.ravel(), atol=1 / 65535)
    assert example["full"] == 1.0, "four times the mean, but at most 1"
    assert (example["source"]["tokens"], example["title"]) == (PAIR[1], "first")

    layers = np.random.default_rng(3).dirichlet(np.ones(5), (2, 7, 3))
    view = view_of(explore_heads(layers, "abc", "defgh"))
    assert (view["layers"], view["heads"]) == (2, 7)
    assert view["keys"]["tokens"] == list("defgh")
    np.testing.assert_allclose(decode(view["weights"]), layers.ravel(), atol=1 / 65535)
    assert view_of(explore_heads(layers[0, :, :, :3], "abc"))["layers"] == 1


@pytest.mark.parametrize(
    "tokens, expected",
    [
        (["بنى", "جدي", "1987", "</s>"], True),
        (["<pad>", "בית", "קטן", "ירוק"], True),
        (["我", "爱", "</s>"], False),
        (["der", "בית", "steht", "hier"], False),
        (["1987", "."], False),
    ],
)
def test_most_letters_decide_the_direction(tokens, expected):
    page = explore_alignments([(np.full((1, len(tokens)), 0.1), tokens, ["a"])])
    assert view_of(page)["examples"][0]["source"]["isRightToLeft"] is expected


def test_hypotheses_are_compared_with_the_best():
    view = view_of(
        explore_hypotheses(
            [["a", "small", "house"], ["the", "little", "house", "</s>"], ["the", "house", "</s>"]],
            [-3.0, -0.5, -1.0],
            [[-1, -2, -0.25, 0], [-0.1, -0.2, -0.3, -0.4], [-0.5, -0.5, 0, 0]],
        )
    )
    best, second, third = view["hypotheses"]
    assert [one["score"] for one in view["hypotheses"]] == [-0.5, -1.0, -3.0]
    assert [kind for _, kind, _ in best["parts"]] == ["same"] * 4
    assert second["parts"] == [
        ["the", "same", -0.5],
        ["little", "missing", None],
        ["house", "same", -0.5],
        ["</s>", "same", 0.0],
    ]
    assert [f"{kind} {token}" for token, kind, _ in third["parts"]] == (
        ["missing the", "missing little", "added a", "added small", "same house", "missing </s>"]
    )
    assert (third["logProb"], third["length"]) == (-3.25, 3)


def test_a_beam_search_returns_the_arguments_for_its_hypotheses():
    vocabulary = ["<pad>", "<unk>", "<s>", "</s>", "go"]
    probabilities = np.array(
        [[0.2] * 5, [0.2] * 5, [0, 0.1, 0, 0.3, 0.6], [0.2] * 5, [0, 0, 0, 1, 0]]
    )
    table = keras.ops.log(keras.ops.array(probabilities + 1e-9, "float32"))

    def step(ids, state, memory):
        return keras.ops.take(table, ids, axis=0), state, keras.ops.zeros((len(ids), 1))

    result = beam_search(step, {}, keras.ops.zeros((1, 1)), beam_width=2, max_length=5)
    found = {name: keras.ops.convert_to_numpy(array[0]) for name, array in result.items()}
    pairs = zip(found["ids"], found["lengths"], strict=True)
    hypotheses = [[vocabulary[i] for i in ids[:length]] for ids, length in pairs]
    view = view_of(explore_hypotheses(hypotheses, found["scores"], found["token_log_probs"]))
    best, second = view["hypotheses"]
    assert [token for token, _, _ in best["parts"]] == ["go", "</s>"]
    assert best["logProb"] == pytest.approx(np.log(0.6), abs=1e-3) == best["score"]
    assert [kind for _, kind, _ in second["parts"]] == ["missing", "same"]


def test_a_tree_says_which_hypotheses_lived_ended_and_fell_behind():
    first, second, third = view_of(explore_beam_search(**TREE))["steps"]
    assert [node["state"] for node in first] == ["alive", "alive"]
    assert [node["state"] for node in second] == ["alive", "fell behind", "alive"]
    assert [node["state"] for node in third] == ["ended", "alive"]
    assert [node["parent"] for node in third] == [0, 2]


def test_a_hypothesis_may_end_with_several_tokens():
    tokens, parents, scores = [["a", "<eod>"], ["</s>"]], [[0, 0], [0]], [[-0.1, -0.2], [-0.3]]
    page = explore_beam_search(tokens, parents, scores, eos_token=("</s>", "<eod>"))
    states = [node["state"] for step in view_of(page)["steps"] for node in step]
    assert states == ["alive", "ended", "ended"]


def test_padding_of_a_beam_is_left_out():
    scores = [[-0.3, -1e9], [-0.4, -0.9]]
    view = view_of(explore_beam_search([["a", "x"], ["b", "c"]], np.zeros((2, 2), int), scores))
    assert [node and node["token"] for node in view["steps"][0]] == ["a", None]


def test_the_memory_is_scaled_by_its_largest_number():
    matrix = np.zeros((3, 5, 2))
    matrix[1, 4] = [-4.0, 2.0]
    memory = view_of(explore_memory_use(MEMORY, MEMORY, matrix))["memory"]
    assert memory["full"] == 4.0
    numbers = (2 * decode(memory["numbers"]) - 1).reshape(3, 5, 2)
    np.testing.assert_allclose(numbers, matrix / 4, atol=2 / 65535)


@pytest.mark.parametrize("channels", [(), (1,), (3,), (4,)])
def test_an_image_has_four_channels(channels):
    image = np.full((2, 3, *channels), 51, "uint8")
    view = view_of(explore_image_attention(image, [[[0.5, 0.5]]], ["a"]))
    pixels = np.frombuffer(base64.b64decode(view["image"]), "uint8").reshape(2, 3, 4)
    assert (pixels[..., :3] == 51).all()
    assert (pixels[..., 3] == (51 if channels == (4,) else 255)).all()


NAN = [[0.9, np.nan, 0.0], [0.0, 0.25, 0.75]]


@pytest.mark.parametrize(
    "function, arguments, message",
    [
        (explore_alignments, ([],), "at least one example"),
        (explore_alignments, ([(WEIGHTS, "abc")],), r"example 0 with 2 parts"),
        (explore_alignments, ([(WEIGHTS, "ab", "ab")],), r"\(2, 3\), 2 target tokens, 2 source"),
        (explore_alignments, ([(NAN, "abc", "ab")],), r"weights\[0, 1\]=nan"),
        (explore_alignments, ([(7 * WEIGHTS, "abc", "ab")],), "not scores"),
        (explore_alignments, ([(WEIGHTS, [1, 2, 3], "ab")],), "`source_tokens` to contain str"),
        (explore_heads, (WEIGHTS, "ab", "abc"), r"\(layers, heads, query, key\)"),
        (explore_heads, ([NAN], "ab", "abc"), r"weights\[0, 0, 1\]=nan"),
        (explore_hypotheses, ([], []), "at least one hypothesis"),
        (explore_hypotheses, (["ab"], [1, 2]), r"scores.shape=\(2,\), expected \(1,\)"),
        (explore_hypotheses, (["ab"], [np.nan]), "`scores` to be finite"),
        (explore_hypotheses, (["ab"], [0], []), "0 rows, 1 hypotheses"),
        (explore_hypotheses, (["ab"], [0], [[-1.0]]), r"shape=\(1,\), 2 tokens"),
        (explore_hypotheses, (["a"], [0], [[-1.0, -1.0]]), "1 beyond them not 0"),
        (explore_hypotheses, (["a"], [0], [[0.5]]), "finite numbers up to 0"),
        (explore_beam_search, ([], [], []), "0, 0 and 0 steps"),
        (explore_beam_search, ([["a"]], [[0]], []), "1, 1 and 0 steps"),
        (explore_beam_search, ([["a"], "b"], [[0], [0]], [[-1e9], [0]]), r"parents\[1\]\[0\]=0"),
        (explore_beam_search, ([[]], [[]], [[]]), "a hypothesis in the first step"),
        (explore_beam_search, ([["a"]], [[0]], [[np.inf]]), r"`scores\[0\]` to be finite"),
        (explore_beam_search, ([["a"]], [[0.5]], [[0]]), "one int per token"),
        (explore_beam_search, ([["a"], "b"], [[0], [1]], [[0], [0]]), r"parents\[1\]\[0\]=1, 1 h"),
        (explore_beam_search, ([["</s>"], "b"], [[0], [0]], [[0], [0]]), "which has ended"),
        (explore_memory_use, (MEMORY, MEMORY[:2]), "`read_weights`"),
        (explore_memory_use, (MEMORY, MEMORY, np.ones((3, 4, 2))), "`memory_matrix`"),
        (explore_image_attention, (np.zeros(3), [[[1]]], "a"), "`image` of shape"),
        (explore_image_attention, (np.zeros((2, 2)), [[[1]]], "ab"), "2 tokens"),
        (explore_text_weights, ("ab", [[1]]), "lists of words"),
    ],
)
def test_bad_input_is_an_error_that_names_it(function, arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        function(*arguments)
    assert str(caught.value).startswith(function.__name__)
    assert "Received: " in str(caught.value)
