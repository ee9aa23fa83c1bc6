"""Options of the recipe of translators: the search, vocabularies, and what has attention."""

import argparse
import importlib
import types

import keras
import numpy as np
import pytest
from translation_commands import call, read_options

from examples.__main__ import main
from examples.commands.arguments import UsageError
from examples.commands.by_run import RunCommand, load_recipe
from examples.commands.options import options_of
from examples.models import convs2s, mixed, rnn_encoder_decoder, rnnsearch, seq2seq, transformer
from examples.recipes import translator
from examples.recipes.translation import Translation
from keras_attention.export import XLABuckets, runs, text_translator
from keras_attention.export import __main__ as command
from keras_attention.export.length_limits import choose_max_length, count_learned_positions
from keras_attention.export.search_flags import (
    add_search_flags,
    make_search_options,
    parse_length_penalty,
)
from keras_attention.export.tokenizers import WordTokenizer
from keras_attention.search import AverageLengthPenalty

WORDS = WordTokenizer([*"abc"])
SMALL = {"units": 4, "embedding_dim": 3}
SAMPLED = {**SMALL, "scheduled_sampling": "constant:0.5"}
TINY = {"units": 4, "heads": 2, "layers": 1}
LEARNED = {**TINY, "positions": "learned", "max_length": 9}


@pytest.mark.parametrize(("text", "expected"), [("average", -2.0), ("1", -8 / 1.5), ("0", -8.0)])
def test_scores_are_divided_as_asked(text, expected):
    score = parse_length_penalty(text)(keras.ops.array([[-8.0]]), keras.ops.array([[4]]))
    assert float(score[0, 0]) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["mean", "nan", "10.5", ""])
def test_other_penalties_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected average or a number from -10"):
        parse_length_penalty(text)


def test_the_search_is_given_what_was_asked(tmp_path, monkeypatch):
    given = []

    class Recorded(text_translator.TranslatorSignatures):
        def __init__(self, *arguments):
            given.append(arguments[3])
            super().__init__(*arguments)

    monkeypatch.setattr(text_translator, "TranslatorSignatures", Recorded)
    model = rnnsearch.build(WORDS.vocabulary_size, WORDS.vocabulary_size, 4, 3)
    run = runs.write_run(tmp_path / "run", model, {"model": "rnnsearch"}, WORDS, WORDS)
    parser = argparse.ArgumentParser()
    add_search_flags(parser, for_export=False)
    line = "--beam-width 3 --max-length 5 --length-penalty average"
    recipe = load_recipe(run)
    recipe.make_translator(make_search_options(parser.parse_args(line.split()), recipe.run))
    (options,) = given
    assert (options.max_length, options.beam_width) == (5, 3)
    assert isinstance(options.length_penalty, AverageLengthPenalty)


def test_both_commands_that_export_have_the_same_flags():
    parser = argparse.ArgumentParser()
    export = importlib.import_module("examples.commands.export")
    RunCommand(export, Translation).add_arguments(parser)
    first, second = (
        {
            action.option_strings[0]: (action.default, action.choices, action.nargs, action.help)
            for action in one._actions
            if action.option_strings
        }
        for one in (parser, command._make_parser())
    )
    assert first.keys() - second.keys() == {
        "--ensemble",
        "--language-model",
        "--language-model-weight",
    }
    assert second.keys() - first.keys() == {"--validate", "--write-manifest"}
    common = first.keys() & second.keys()
    assert len(common) == 24 and all(first[flag] == second[flag] for flag in common)


def test_a_compiled_export_needs_xla(tmp_path, capsys):
    model = rnnsearch.build(WORDS.vocabulary_size, WORDS.vocabulary_size, 4, 3)
    run = str(runs.write_run(tmp_path / "run", model, {"model": "rnnsearch"}, WORDS, WORDS))
    words = ["export", run, str(tmp_path / "base"), "--parallel-splits", "2"]
    assert main(words) == 2
    assert "--parallel-splits: requires --xla" in capsys.readouterr().err
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translator, "export_translator", lambda *_, **options: seen.append(options))
        assert main([*words, "--xla", "--xla-batch-sizes", "4", "--name", "dates"]) == 0
    (options,) = seen
    assert options["xla"] == XLABuckets(batch_sizes=(4,), split=2) and options["name"] == "dates"


def build(module, options):
    return module.build(WORDS.vocabulary_size, WORDS.vocabulary_size, **options)


@pytest.mark.parametrize(
    ("module", "options", "positions"),
    [
        (rnnsearch, SAMPLED, {}),
        (transformer, TINY, {}),
        (transformer, LEARNED, {"source": 9, "target": 9}),
        (convs2s, {**SMALL, "max_length": 7}, {"source": 7, "target": 7}),
        (mixed, {**SMALL, "encoder": "cnn", "decoder": "rnnsearch"}, {"source": 1024}),
    ],
)
def test_learned_positions_are_those_of_each_side(module, options, positions):
    model = build(module, options)
    assert count_learned_positions(model) == positions
    assert choose_max_length(model, 20) == min(40, positions.get("target", 40))
    recipe = Translation()
    recipe.model = model
    assert recipe.has_attention


def test_a_decoder_of_yours_need_not_say_that_it_attends():
    recipe = read_options()
    recipe.model = types.SimpleNamespace(get_layer=lambda name: keras.layers.Layer(name=name))
    assert recipe.has_attention


@pytest.mark.parametrize(
    ("module", "options"), [(rnn_encoder_decoder, SMALL), (seq2seq, SMALL), (seq2seq, SAMPLED)]
)
def test_a_run_without_attention_is_not_drawn(module, options, tmp_path):
    settings = {"model": "seq2seq", "training": {"pairs": "x"}}
    run = runs.write_run(tmp_path / "run", build(module, options), settings, WORDS, WORDS)
    with pytest.raises(ValueError, match="seq2seq whose decoder has no attention to draw"):
        call("plot", run, "a b", "--output-dir", tmp_path / "plots")
    assert not (tmp_path / "plots").exists()


def test_shared_embeddings_need_a_joint_vocabulary():
    line = "--pairs y --share-embeddings"
    with pytest.raises(UsageError, match="--share-embeddings needs one.*--joint-vocabulary"):
        read_options(line, "transformer")
    read_options(f"{line} --joint-vocabulary", "transformer")


@pytest.mark.parametrize(
    ("line", "told"), [("--units 15", "--units 15$"), ("--paper", "--units 1000 --reverse$")]
)
def test_a_source_read_both_ways_has_even_units_and_is_not_reversed(line, told):
    with pytest.raises(UsageError, match=f"--no-reverse. Received: --bidirectional {told}"):
        read_options(f"--bidirectional {line}", "luong")
    read_options("--bidirectional --paper --no-reverse", "luong")


@pytest.mark.parametrize("kind", ["words", "characters", "sentencepiece"])
def test_a_joint_vocabulary_is_made_from_both_sides(kind):
    line = f"--pairs y --joint-vocabulary --tokenizer {kind}"
    line += " --vocabulary-size 60" if kind == "sentencepiece" else ""
    pairs = [("ein hund schläft .", "a dog sleeps ."), ("ein baum fällt nie .", "never !")] * 9
    sides = list(read_options(line).make_tokenizers(pairs).values())
    assert sides[0] is sides[1]
    texts = ["ein hund schläft nie .", "a dog never sleeps !"]
    ids, lengths = sides[0].encode(texts)
    assert [text.decode() for text in sides[0].decode(ids).numpy()] == texts
    assert 1 not in np.concatenate([row[:n] for row, n in zip(ids, lengths, strict=True)])


def test_a_format_is_that_of_the_files_of_pairs(tmp_path):
    (tmp_path / "scan").write_text("IN: run OUT: R\nIN: jump OUT: J\n")
    for side in ("source", "target"):
        (tmp_path / side).write_text(f"{side}\n")
    scan, files = f"{tmp_path}/scan", [f"--{side} {tmp_path}/{side}" for side in runs.SIDES]
    prefixed = [file.replace("--", "--validation-") for file in files]
    pairs, one = [("run", "R"), ("jump", "J")], [("source", "target")]
    data = read_options(f"--pairs {scan} --format scan {' '.join(prefixed)}").read_data()
    assert data == {"training": pairs, "validation": one}
    data = read_options(f"{' '.join(files)} --validation-pairs {scan} --format scan").read_data()
    assert data == {"training": one, "validation": pairs}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--source x --target y",
        "--source x --target y --validation-source x --validation-target y",
    ],
)
def test_a_format_without_files_of_pairs_is_refused(line):
    with pytest.raises(UsageError, match="--format is for files of pairs.*Received: --format scan"):
        read_options(f"{line} --format scan")


def test_the_help_says_what_limits_and_smoothing_count():
    helps = {option.name: option.help for option in options_of(Translation)}
    for side in runs.SIDES:
        assert "EOS token included" in helps[f"max_{side}_tokens"]
    assert "whole vocabulary" in helps["label_smoothing"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("rnnsearch --shuffle-buffer 9", "--shuffle-buffer is for --shards.*Received: .*-buffer 9"),
        ("rnnsearch --pairs x --sample-pairs 9", "--sample-pairs is for --shards"),
        ("rnnsearch --validation-fraction 0.1", "--validation-fraction is for files of yours that"),
        (
            "rnnsearch --pairs x --validation-pairs y --validation-fraction 0.1",
            "without validation files. Leave it out. Received: --validation-fraction 0.1",
        ),
        ("luong --window 5", "--window is for --local-attention monotonic or predictive"),
        ("luong --positions 9 --scorer dot", "--positions is for --scorer location"),
        (
            "transformer --max-length 9",
            "--max-length is for --positions learned. .* Received: --max-length 9 "
            "--positions sinusoidal",
        ),
        ("show-attend-tell --attention hard --doubly-stochastic 1", "is for --attention soft"),
        ("show-attend-tell --reinforce 0", "--reinforce is for --attention hard"),
        ("show-attend-tell --expected-rate 0.1", "--expected-rate is for --attention hard"),
        ("show-attend-tell --inference-mode sample", "--inference-mode is for --attention hard"),
        ("lstmn --text x --validation-text y --tokenizer-of z --tokenizer characters", "Leave out"),
    ],
)
def test_options_that_would_be_ignored_are_refused(line, told):
    model, *words = line.split()
    data = ["--mnist", "x"] if model == "show-attend-tell" else []
    with pytest.raises(UsageError, match=told):
        read_options(" ".join([*words, *data]), model)


@pytest.mark.parametrize(
    "line",
    [
        "rnnsearch --pairs x --validation-fraction 0.1 --shuffle-buffer 20000",
        "luong --local-attention predictive --window 5",
        "luong --paper --window 5",
        "luong --scorer location --positions 9",
        "transformer --positions learned --max-length 9",
        "show-attend-tell --mnist x --attention hard --expected-rate 0 --reinforce 0",
        "show-attend-tell --mnist x --doubly-stochastic 0.25",
    ],
)
def test_options_that_count_are_taken(line):
    model, *words = line.split()
    read_options(" ".join(words), model)
