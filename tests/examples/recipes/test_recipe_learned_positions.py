"""Texts that are longer than what a translator has learned positions for."""

import io
import sys

import numpy as np
import pytest
from translation_commands import Echo, call

from examples.data.report import DataError
from examples.models import convs2s, rnnsearch, transformer
from examples.recipes.learned_positions import find_source_limit
from examples.recipes.translation import Translation
from examples.recipes.translator import TextTranslator
from keras_attention.export import SearchOptions, runs
from keras_attention.export.length_limits import DEFAULT_MAX_LENGTH, choose_max_length
from keras_attention.export.tokenizers import WordTokenizer

WORDS = WordTokenizer([*"abcdef"])
TINY = {"units": 8, "heads": 2, "layers": 1, "seed": 5}
POSITIONS = 6
LONG = "a b c d e f a b c"
READ = "a b c d e"  # what the positions are enough for, one of them being the EOS token's
NOTE = (
    "note: the encoder has learned 6 positions, and the EOS token takes one: only the first 5 "
    "tokens are read of "
)


def build(**options):
    """A model with weights so large that every position counts."""
    model = transformer.build(WORDS.vocabulary_size, WORDS.vocabulary_size, **TINY, **options)
    rng = np.random.default_rng(3)
    for variable in model.trainable_variables:
        variable.assign(rng.normal(0, 1, variable.shape))
    return model


def write(folder, model):
    settings = {"model": "transformer", "training": {"pairs": "x"}}
    return runs.write_run(folder / "run", model, settings, WORDS, WORDS)


@pytest.fixture(scope="module")
def model():
    return build(positions="learned", max_length=POSITIONS)


@pytest.fixture(scope="module")
def run(model, tmp_path_factory):
    return write(tmp_path_factory.mktemp("learned"), model)


@pytest.fixture
def echo(monkeypatch):
    monkeypatch.setattr(Translation, "make_translator", lambda *_: Echo())


@pytest.mark.thorough
def test_a_long_source_is_read_as_far_as_positions_are_learned(model):
    translator = TextTranslator(model, WORDS, WORDS, SearchOptions(beam_width=2, max_length=4))
    found, expected, other = translator.align([LONG, READ, "a b c d f"])
    assert found.texts == expected.texts
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5)
    assert found.source_tokens == expected.source_tokens
    assert len(found.source_tokens) == POSITIONS
    assert max(np.abs(np.subtract(found.scores, other.scores))) > 1e-3


def test_texts_that_are_cut_are_named(run, capsys, echo):
    call("translate", run, READ, LONG, "b", f"{READ} f")
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 4
    assert err == f"{NOTE}text 2 (9 tokens), text 4 (6 tokens).\n"


def test_lines_that_are_cut_are_named_by_number_and_counted(run, capsys, echo, monkeypatch):
    lines = ["a", "", *[LONG] * 7]
    stream = io.TextIOWrapper(io.BytesIO("\n".join(lines).encode()))
    monkeypatch.setattr(sys, "stdin", stream)
    call("translate", run)
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 9
    named = ", ".join(f"line {number} (9 tokens)" for number in range(3, 8))
    assert err == f"{NOTE}{named}, and 2 more.\n"


@pytest.mark.thorough
def test_pictures_of_texts_that_are_cut_are_named(run, tmp_path, capsys, echo):
    call("plot", run, "b", LONG, "--output-dir", tmp_path)
    assert capsys.readouterr().err == f"{NOTE}text 2 (9 tokens).\n"


def test_a_model_without_learned_positions_reads_all(tmp_path, capsys, echo):
    model = build()
    assert find_source_limit(model) is None
    call("translate", write(tmp_path, model), LONG)
    assert capsys.readouterr().err == ""


def test_pairs_that_are_too_long_are_not_scored(model, run, tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text(f"a b\tc\n{LONG}\ta\nb\t{READ} f\n{READ}\t{READ}\n")
    with pytest.raises(DataError) as raised:
        call("score", run, "--pairs", path)
    assert str(raised.value) == (
        "The model has not learned as many positions as these pairs need: 1 too many source "
        f"tokens, 1 too many target tokens. {path}:2: too many source tokens (10 with the EOS "
        f"token, learned are 6); {path}:3: too many target tokens (7 with the EOS token, learned "
        "are 6). Shorten them or leave them out."
    )
    with pytest.raises(DataError, match="pair:2: too many source tokens"):
        TextTranslator(model, WORDS, WORDS).score([("a", "b"), (LONG, "b")])


@pytest.mark.thorough
def test_pairs_of_all_learned_positions_are_scored(run, tmp_path, capsys):
    path = tmp_path / "pairs.tsv"
    path.write_text(f"{READ}\t{READ}\n")
    call("score", run, "--pairs", path, "--tokens")
    assert len(capsys.readouterr().out.split("\t")[1].split()) == POSITIONS


def test_outputs_are_no_longer_than_the_positions_that_were_learned():
    sizes = {"units": 8, "layers": 1, "heads": 2}
    learned = transformer.build(11, 13, positions="learned", max_length=40, **sizes)
    assert choose_max_length(learned, 12) == 24
    assert choose_max_length(learned, 21) == 40
    assert choose_max_length(learned, None) == 40
    free = transformer.build(11, 13, max_length=40, **sizes)
    assert choose_max_length(free, 300) == 600
    convolutional = convs2s.build(11, 13, units=8, embedding_dim=8, max_length=31)
    assert choose_max_length(convolutional, 20) == 31
    assert choose_max_length(rnnsearch.build(11, 13, units=6), None) == DEFAULT_MAX_LENGTH
