"""Several runs that answer as one: `--ensemble` of the commands on translators."""

import json

import keras
import numpy as np
import pytest
from translation_commands import call

from examples.commands.arguments import UsageError
from examples.models import (
    lstm_language_model,
    luong,
    rnn_encoder_decoder,
    rnnsearch,
    transformer,
)
from keras_attention.export import runs
from keras_attention.export.tokenizers import WordTokenizer

WORDS = WordTokenizer([*"abcdef"])
SIZE = WORDS.vocabulary_size
PAIRS = [("a b c", "d e"), ("f", "a"), ("c c d e f", "b b b")]


def write(path, model, name, tokens=WORDS):
    return runs.write_run(path, model, {"model": name, "training": {"pairs": "x"}}, tokens, tokens)


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """Runs of three models on the same tokens; their large weights make their choices differ."""
    folder = tmp_path_factory.mktemp("runs")
    keras.utils.set_random_seed(29)
    models = {
        "rnnsearch": rnnsearch.build(SIZE, SIZE, 5, 3, seed=2),
        "luong": luong.build(SIZE, SIZE, units=6, embedding_dim=3, layers=1, seed=3),
        "transformer": transformer.build(SIZE, SIZE, units=8, heads=2, layers=1, seed=5),
    }
    for model in models.values():
        for weight in model.trainable_weights:
            weight.assign(3 * weight)
    return [write(folder / name, model, name) for name, model in models.items()]


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    return path


def score(capsys, run, pairs, *options):
    call("score", run, "--pairs", pairs, *options)
    lines = capsys.readouterr().out.splitlines()
    return np.array([float(line) for line in lines])


def test_an_ensemble_scores_between_its_runs_and_alone_as_itself(directories, pairs, capsys):
    first, *others = directories
    alone = np.array([score(capsys, run, pairs) for run in directories])
    together = score(capsys, first, pairs, "--ensemble", *others)
    # The geometric mean, normalized, is at least the mean of the log-probabilities.
    assert (together > alone.mean(axis=0) - 1e-4).all()
    assert (abs(together - alone).min(axis=1) > 1e-3).all()
    np.testing.assert_allclose(
        score(capsys, first, pairs, "--ensemble", first), alone[0], atol=1e-4
    )


@pytest.mark.thorough
def test_every_command_takes_the_ensemble(directories, pairs, tmp_path, capsys):
    first, *others = directories
    ensemble = ["--ensemble", *others]
    numbers = tmp_path / "numbers.json"
    options = ["--beam-width", 3, "--max-length", 5]
    call("evaluate", first, "--pairs", pairs, "--json", numbers, *options, *ensemble)
    capsys.readouterr()
    total = -score(capsys, first, pairs, *ensemble).sum()
    count = sum(len(target.split()) + 1 for _, target in PAIRS)
    assert json.loads(numbers.read_text())["perplexity"] == pytest.approx(
        np.exp(total / count), rel=1e-4
    )
    texts = [source for source, _ in PAIRS]
    call("translate", first, *texts, *options, *ensemble)
    found = capsys.readouterr().out.splitlines()
    call("plot", first, *texts, *options, *ensemble, "--output-dir", tmp_path / "plots")
    shown = capsys.readouterr().out
    for text, output in zip(texts, found, strict=True):
        assert f"{text} -> {output}" in shown


def test_runs_that_do_not_fit_are_refused(directories, pairs, tmp_path):
    first = directories[0]
    others = WordTokenizer([*"abcdeg"])
    other = write(tmp_path / "other", rnnsearch.build(SIZE, SIZE, 5, 3), "rnnsearch", others)
    with pytest.raises(ValueError, match="averages predictions of the same tokens. Train its runs"):
        call("score", first, "--pairs", pairs, "--ensemble", other)
    language = runs.write_run(
        tmp_path / "language",
        lstm_language_model.build(SIZE, units=4, embedding_dim=3, layers=1),
        {"model": "lstm-language-model"},
    )
    with pytest.raises(ValueError, match="runs of translators.*a run of lstm-language-model"):
        call("score", first, "--pairs", pairs, "--ensemble", language)
    with pytest.raises(FileNotFoundError, match="no run directory"):
        call("score", first, "--pairs", pairs, "--ensemble", tmp_path / "none")
    with pytest.raises(UsageError, match="--aligned-by is for attention that predicts positions"):
        call(
            *("evaluate", first, "--pairs", pairs),
            *("--ensemble", directories[1], "--aligned-by", first),
        )


def test_the_shortest_table_of_positions_limits_both_sides(directories, tmp_path, capsys):
    tiny = {"units": 8, "heads": 2, "layers": 1, "positions": "learned", "max_length": 4}
    short = write(tmp_path / "short", transformer.build(SIZE, SIZE, **tiny), "transformer")
    call("translate", directories[0], "a b c d e", "--ensemble", short)
    out, err = capsys.readouterr()
    assert "only the first 3 tokens are read of text 1 (5 tokens)" in err
    assert len(out.split()) <= 4
    with pytest.raises(ValueError, match="--max-length expects at most 4"):
        call("translate", directories[0], "a", "--max-length", 5, "--ensemble", short)


def test_links_are_those_of_the_runs_that_attend(directories, tmp_path, capsys):
    model = rnn_encoder_decoder.build(SIZE, SIZE, units=5, embedding_dim=3, seed=7)
    silent = write(tmp_path / "silent", model, "rnn-encoder-decoder")
    line = ("translate", silent, "a b c", "--max-length", 4, "--alignment", "hard")
    with pytest.raises(UsageError, match="--alignment needs a model with attention"):
        call(*line)
    call(*line, "--ensemble", directories[0])
    output, links = capsys.readouterr().out.strip("\n").split(" ||| ")
    assert len(links.split()) == len(output.split())


@pytest.mark.parametrize("flag", [("--quantization", "int8"), ("--dtype", "float32")])
def test_an_export_is_of_all_runs(directories, tmp_path, monkeypatch, flag):
    written = []
    monkeypatch.setattr(
        "examples.recipes.translator.export_translator",
        lambda model, base, **options: written.append((model, options)) or base,
    )
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = rnnsearch.build(SIZE, SIZE, 5, 3, seed=2)
    finally:
        keras.config.set_dtype_policy("float32")
    half = write(tmp_path / "half", model, "rnnsearch")
    call("export", directories[0], tmp_path / "base", *flag, "--ensemble", half)
    ((model, options),) = written
    decoders = model.get_layer("decoder").decoders
    if flag[1] == "int8":
        for decoder in decoders:
            assert "int8" in {weight.dtype for weight in decoder.variables}
    else:
        assert [decoder.compute_dtype for decoder in decoders] == ["float32", "float32"]
    assert [run["model"] for run in options["run"]["ensemble"]] == ["rnnsearch"]


def test_words_behind_the_flag_are_explained(directories):
    with pytest.raises(FileNotFoundError, match="takes all words up to the next flag"):
        call("translate", directories[0], "--ensemble", directories[1], "a b c")
