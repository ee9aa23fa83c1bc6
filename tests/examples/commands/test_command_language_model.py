"""Searches of a translator with a language model of another run."""

import argparse
import importlib

import pytest
from command_line import answer, sentences

from examples.commands.by_run import RunCommand, load_recipe
from examples.recipes.fused_search import load_language_model, make_fused_search_options
from examples.recipes.translation import Translation
from keras_attention.export import SearchOptions
from keras_attention.search import ShallowFusion

pytestmark = pytest.mark.thorough
TEXT = "ein hund schläft ."
TINY = "--units 8 --embedding-dim 5 --no-xla --num-buckets 1 --epochs 2 --batch-size 16".split()


def train(model, directory, *options):
    """Trains a language model on English sentences; returns its run."""
    text = directory.parent / "text"
    text.write_text("".join(f"{target}\n" for _, target in sentences(48)), encoding="utf-8")
    files = ["--text", text, "--validation-text", text]
    status, out, err = answer("train", model, *files, *TINY, "--run", directory, *options)
    assert (status, err) == (0, ""), out
    return directory


@pytest.fixture(scope="module")
def language_run(tmp_path_factory, words_run):
    directory = tmp_path_factory.mktemp("language") / "run"
    return train("lstm-language-model", directory, "--tokenizer-of", words_run)


def translate(words_run, *options):
    status, out, err = answer("translate", words_run, TEXT, "--all", *options)
    assert (status, err) == (0, ""), out
    rows = [line.split(maxsplit=1) for line in out.splitlines()[1:]]
    return {text: float(score) for score, text in rows}


@pytest.mark.parametrize("name", ["translate", "evaluate", "plot", "export"])
def test_every_command_that_searches_has_the_flags(name, words_run, language_run):
    parser = argparse.ArgumentParser()
    command = RunCommand(importlib.import_module(f"examples.commands.{name}"), Translation)
    command.add_arguments(parser)
    base = ["served"] if name == "export" else ["--output-dir", "plots"] if name == "plot" else []
    run, line = load_recipe(words_run).run, [str(words_run), *base]
    given = parser.parse_args([*line, "--language-model", str(language_run), "--beam-width", "3"])
    search = make_fused_search_options(given, run)
    assert (search.beam_width, search.fusion.weight) == (3, 0.2)
    assert search.fusion.language_model.vocabulary_size == run.target_tokenizer.vocabulary_size
    assert make_fused_search_options(parser.parse_args(line), run).fusion is None


def test_outputs_are_ranked_with_the_language_model(words_run, language_run):
    plain = translate(words_run)
    fused = translate(words_run, "--language-model", language_run, "--language-model-weight", 0.5)
    assert all(score < plain.get(text, 0.0) for text, score in fused.items())
    recipe = load_recipe(words_run)
    fusion = ShallowFusion(load_language_model(recipe.run, language_run, 12), 0.5)
    search = SearchOptions(max_length=12, fusion=fusion)
    (expected,) = recipe.translate(texts=[TEXT], search=search)
    assert list(fused) == expected.texts
    assert list(fused.values()) == pytest.approx(expected.scores, abs=1e-3)
    assert recipe.export(search=search).search.fusion is fusion


def test_a_model_that_attends_to_its_earlier_states_ranks_too(words_run, tmp_path):
    run = load_recipe(words_run).run
    lstmn = train("lstmn", tmp_path / "lstmn", "--tokenizer-of", words_run)
    language_model = load_language_model(run, lstmn, 12)
    assert language_model.max_length == 12
    fused = translate(words_run, "--language-model", lstmn)
    plain = translate(words_run)
    assert all(score < plain.get(text, 0.0) for text, score in fused.items())


def test_what_does_not_fit_is_named(words_run, language_run, tmp_path):
    own = train("lstm-language-model", tmp_path / "own", "--tokenizer", "characters")
    for given, status, text in (
        (["--language-model", own], 1, "are not the same: a language model ranks outputs of the"),
        (["--language-model", words_run], 1, "expects the run of a language model"),
        (["--language-model", tmp_path / "none"], 1, "There is no run directory"),
        (["--language-model-weight", 1], 2, "is for --language-model. Name its run"),
        (
            ["--language-model", language_run, "--language-model-weight", 101],
            1,
            "a number in [0, 10",
        ),
    ):
        found, _, err = answer("translate", words_run, TEXT, *given)
        assert found == status and text in err, err
    files = ["--text", tmp_path / "text", "--validation-text", tmp_path / "text"]
    found, _, err = answer(
        *("train", "lstm-language-model", *files, "--run", tmp_path / "other"),
        *("--tokenizer-of", words_run, "--lowercase"),
    )
    assert found == 2 and "--tokenizer-of takes the tokenizer of another run as it is" in err
