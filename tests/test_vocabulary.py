"""The words of the library, and the script that checks them."""

import pytest
from tools import check_vocabulary

# Put together, since this file is checked too.
PHRASE, WORD = " ".join(["end", "mark"]), "".join(["like", "liest"])


def _check(folder, text, name="module.py"):
    path = folder / name
    path.write_text(text)
    return [message.partition(":")[2] for message in check_vocabulary.check_file(path)]


@pytest.mark.thorough
@pytest.mark.parametrize("folder", ["keras_attention", "export", "benchmarks", "examples", "tests"])
def test_the_code_uses_the_vocabulary(folder, capsys):
    root = check_vocabulary.Path(__file__).parents[1]
    status = check_vocabulary.main([str(root / folder)])
    assert (status, capsys.readouterr().out) == (0, "")


@pytest.mark.parametrize(
    "text",
    [
        f"# The {WORD.title()} token.\n",
        '"""Counts the end\nmark."""\n',
        "# The end\n# mark is scored.\n",
    ],
)
def test_a_banned_phrase_is_reported_with_its_line(tmp_path, text):
    (message,) = _check(tmp_path, "\n" + text)
    assert message.startswith("2: ") and "use" in message


def test_a_phrase_in_a_message_of_two_literals_is_reported(tmp_path):
    (message,) = _check(tmp_path, 'text = (\n    f"no end "\n    f"mark"\n)\n')
    assert message == f"2: '{PHRASE}': use 'EOS token'"


@pytest.mark.parametrize("word", ["backend markup", "unlikeliest", "append marks"])
def test_other_words_are_not_reported(tmp_path, word):
    assert _check(tmp_path, f"# {word}\n") == []


@pytest.mark.parametrize("name", ["joined", "_translating", "written_out", "silenced"])
def test_a_function_named_by_a_participle_is_reported(tmp_path, name):
    (message,) = _check(tmp_path, f"def {name}():\n    pass\n")
    assert message == f"1: function {name!r}: use a verb in the imperative"


@pytest.mark.parametrize("name", ["join", "embed", "feed_forward", "masked_softmax", "red"])
def test_other_functions_are_not_reported(tmp_path, name):
    assert _check(tmp_path, f"def {name}():\n    pass\n") == []


def test_a_property_may_be_a_participle(tmp_path):
    text = "class A:\n    @property\n    def trained(self):\n        return 1\n"
    assert _check(tmp_path, text) == []


def test_markdown_is_checked_for_phrases_alone(tmp_path):
    assert _check(tmp_path, f"def joined(): the {PHRASE}\n", "page.md") == [
        f"1: '{PHRASE}': use 'EOS token'"
    ]


def test_links_to_folders_are_not_followed(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "module.py").write_text("")
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "link").symlink_to(tmp_path / "other")
    assert check_vocabulary.list_files([tmp_path / "library"]) == []


def test_a_path_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file or folder"):
        check_vocabulary.list_files([tmp_path / "nothing"])
