"""What `evaluate` does with test files whose lines are too long, or are no pairs."""

import json

import pytest
from translation_commands import Echo, call

from examples.data.report import DataError
from examples.models import rnnsearch, transformer
from examples.recipes.translation import Translation
from keras_attention.export import runs, tokenizers
from keras_attention.export.tokenizers import WordTokenizer

WORDS = WordTokenizer([*"abcdef"])
TINY = {"units": 8, "heads": 2, "layers": 1, "seed": 5, "positions": "learned", "max_length": 6}
LONG = "a b c d e f a b c"


@pytest.fixture
def echo(monkeypatch):
    monkeypatch.setattr(Translation, "make_translator", lambda *_: Echo())


@pytest.fixture(scope="module")
def positions_run(tmp_path_factory):
    """A run of a model that has learned 6 positions of each side."""
    model = transformer.build(WORDS.vocabulary_size, WORDS.vocabulary_size, **TINY)
    settings = {"model": "transformer", "training": {"pairs": "x"}}
    directory = tmp_path_factory.mktemp("learned") / "run"
    return runs.write_run(directory, model, settings, WORDS, WORDS)


def evaluate(run, pairs, *options):
    """Calls the command and returns its outputs, a line each, and its numbers."""
    output, numbers = pairs.with_suffix(".out"), pairs.with_suffix(".json")
    call("evaluate", run, "--pairs", pairs, "--output", output, "--json", numbers, *options)
    return output.read_text(encoding="utf-8").split("\n"), json.loads(numbers.read_text())


@pytest.mark.thorough
def test_long_lines_are_searched_and_left_out_of_the_perplexity_only(
    positions_run, echo, tmp_path, capsys
):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(f"a b\ta b\n{LONG}\ta\nb\t{LONG}\na b c d e\ta b c d e\n")
    outputs, numbers = evaluate(positions_run, pairs)
    assert outputs == ["a b", LONG, "b", "a b c d e", ""]
    assert (numbers["pairs"], numbers["exact_match"]) == (4, 0.5)
    assert numbers["perplexity"] >= 1 and numbers["perplexity_free_running"] >= 1
    out, err = capsys.readouterr()
    assert out.startswith(
        "references: 2 pairs used, 2 left out: 2 too long after tokenization\n"
        f"{pairs}:2: too long after tokenization (10 source tokens with the EOS token, the limit "
        f"is 6)\n{pairs}:3: too long after tokenization (10 target tokens"
    )
    assert "only the first 5 tokens are read of" in err
    assert err.endswith(f" {pairs}:2 (9 tokens).\n") and err.count("\n") == 1


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["words", "characters"])
def test_a_year_is_attended_to_by_its_characters(tmp_path, echo, capsys, kind):
    tokens = tokenizers.train(kind, ["3. Mai 1979", "1979-05-03"])
    model = rnnsearch.build(*[tokens.vocabulary_size] * 2, units=4, embedding_dim=3, seed=5)
    run = runs.write_run(tmp_path / "run", model, {"model": "rnnsearch"}, tokens, tokens)
    call("evaluate", run, "--max-examples", 3)
    assert ("year attended" in capsys.readouterr().out) == (kind == "characters")


def test_nothing_is_searched_where_no_reference_has_positions(positions_run, tmp_path, monkeypatch):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(f"{LONG}\ta\n")
    monkeypatch.setattr(Translation, "make_translator", lambda *_: pytest.fail("searched"))
    with pytest.raises(DataError, match="0 pairs used, 1 left out: 1 too long after tokenization"):
        evaluate(positions_run, pairs)


@pytest.mark.thorough
def test_a_joined_text_is_named_by_its_first_line(positions_run, echo, tmp_path, capsys):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(f"a b\ta b\n{LONG}\ta\na b\tc\n{LONG}\tb\nb\tb\n")
    outputs, numbers = evaluate(positions_run, pairs, "--measure", "wer")
    assert outputs == ["a b", LONG, "b", ""]
    assert numbers["pairs"] == 3
    out, err = capsys.readouterr()
    assert f"{pairs}:2: too long" in out and "3 pairs used, 2 left out" in out
    assert err.endswith(f" {pairs}:2 (9 tokens).\n")


def test_longer_outputs_than_positions_are_refused(positions_run, tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\ta\n")
    with pytest.raises(ValueError) as raised:
        evaluate(positions_run, pairs, "--max-length", 7)
    assert str(raised.value) == (
        f"--max-length expects at most 6, the positions that the decoder of {positions_run} has "
        "learned. Received: --max-length 7"
    )


@pytest.fixture(scope="module")
def any_length(tmp_path_factory):
    """A run of a model that reads sources of any length."""
    sizes = {"units": 4, "embedding_dim": 3, "maxout_units": 2}
    model = rnnsearch.build(WORDS.vocabulary_size, WORDS.vocabulary_size, **sizes)
    settings = {"model": "rnnsearch", "training": {"pairs": "x"}}
    directory = tmp_path_factory.mktemp("any") / "run"
    return runs.write_run(directory, model, settings, WORDS, WORDS)


BAD = "a\ta\nb\t\nc\td\n\n"  # lines 2 and 4 are no pairs


def test_test_files_with_a_bad_line_are_refused_unless_told_otherwise(any_length, tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(BAD)
    with pytest.raises(DataError, match=f"2 bad lines in {pairs}: {pairs}:2: empty; {pairs}:4"):
        evaluate(any_length, pairs)
    assert not pairs.with_suffix(".out").exists()


@pytest.mark.thorough
def test_outputs_stand_on_the_lines_of_the_test_file(any_length, echo, tmp_path, capsys):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(BAD)
    outputs, numbers = evaluate(any_length, pairs, "--invalid-lines", "skip")
    assert outputs == ["a", "", "c", "", ""]
    assert (numbers["pairs"], numbers["exact_match"]) == (2, 0.5)
    assert capsys.readouterr().out.startswith("test: 2 pairs used, 2 left out: 2 empty\n")


@pytest.mark.thorough
@pytest.mark.parametrize(("most", "expected"), [(1, ["a"]), (2, ["a", "", "c"])])
def test_outputs_of_the_first_pairs_end_with_the_last_one(
    any_length, echo, tmp_path, most, expected
):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text(BAD)
    outputs, _ = evaluate(any_length, pairs, "--invalid-lines", "skip", "--max-examples", most)
    assert outputs == [*expected, ""]


@pytest.mark.thorough
def test_outputs_of_joined_lines_keep_the_place_of_what_is_left_out(any_length, echo, tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\ta\tb\nb\t\nc\td\t" + 3000 * "d" + "\n\te\nb\tb\n")
    outputs, numbers = evaluate(any_length, pairs, "--format", "targets", "--invalid-lines", "skip")
    assert outputs == ["a", "", "c", "", "b", ""]
    assert numbers["pairs"] == 3


@pytest.mark.thorough
def test_parallel_files_have_an_empty_output_for_a_line_left_out(any_length, echo, tmp_path):
    source, target, output = (tmp_path / name for name in ("de", "en", "out"))
    source.write_text("a\nb\nc\n")
    target.write_text("a\nb\n\n")
    files = ["--source", source, "--target", target, "--output", output]
    line = ["evaluate", any_length, *files, "--invalid-lines", "skip"]
    call(*line)
    assert output.read_text() == "a\nb\n\n"
    target.write_text("a\nb\n")
    with pytest.raises(DataError, match="de has 3 lines and .*en 2"):
        call(*line)
