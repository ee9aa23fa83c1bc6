"""How the command line asks for a search."""

import argparse

import keras
import pytest

from examples.models import rnnsearch
from examples.translation import export
from examples.translation.opened import translator
from keras_attention.export import __main__ as command
from keras_attention.export import runs, text_translator
from keras_attention.export.search_arguments import add_search_arguments, parse_length_penalty
from keras_attention.export.tokenizers import WordTokenizer
from keras_attention.search import AverageLengthPenalty

WORDS = WordTokenizer([*"abc"])


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
    run = runs.write_run(tmp_path / "run", model, {"system": "rnnsearch"}, WORDS, WORDS)
    parser = argparse.ArgumentParser()
    add_search_arguments(parser, add_max_source_length=False)
    line = "--beam-width 3 --max-length 5 --length-penalty average"
    translator(runs.read_run(run), parser.parse_args(line.split()))
    (options,) = given
    assert (options.max_length, options.beam_width) == (5, 3)
    assert isinstance(options.length_penalty, AverageLengthPenalty)


def test_both_commands_that_export_have_the_same_flags_of_the_search():
    parser = argparse.ArgumentParser()
    export.add_arguments(parser)
    first, second = (
        [
            (action.option_strings, action.default, action.help)
            for group in one._action_groups
            if group.title == "search"
            for action in group._group_actions
        ]
        for one in (parser, command._make_parser())
    )
    assert first == second and len(first) == 8
