"""Pairs that are no translations: words and phonemes, commands and actions; joint vocabularies."""

import csv
import json
import re

import pytest

from examples.recipes.text_metrics import phoneme_error_rate
from examples.recipes.translation import Translation
from keras_attention.export import Translation as TranslatedText
from keras_attention.export.runs import read_run

pytestmark = pytest.mark.thorough

TINY = (
    "--units 16 --embedding-dim 7 --maxout-units 5 --no-xla --num-buckets 1 --batch-size 8".split()
)
MONITORED = 7  # of 64 words
PHONEMES = {"A": "AH", "B": "B IY", "C": "S", "D": "D IY"}


class Answers:
    """Stands in for a translator: it knows its answers."""

    def __init__(self, answers):
        self.answers = answers

    def translate(self, texts):
        return [TranslatedText([self.answers[text]], [0.0], None, None, None) for text in texts]


@pytest.fixture(scope="session")
def words(tmp_path_factory):
    """A file of words and their phonemes; each fourth word has two pronunciations."""
    from command_line import answer

    folder = tmp_path_factory.mktemp("pronunciations")
    names = [a + b + c for a in PHONEMES for b in PHONEMES for c in PHONEMES]
    lines = [f"{word}\t{' '.join(PHONEMES[letter] for letter in word)}" for word in names]
    lines += [f"{word}\tX" for word in names[::4]]
    (folder / "train.tsv").write_text("".join(f"{line}\n" for line in lines))
    pairs = ["--pairs", folder / "train.tsv", "--validation-pairs", folder / "train.tsv"]
    kinds = ["--source-tokenizer", "characters", "--target-tokenizer", "words", "--monitor", "wer"]
    more = ["--epochs", 3, "--learning-rate", 0.02, "--ema-decay", 0.5, "--batch-tokens", 64]
    more += ["--monitor-texts", MONITORED]
    status, out, err = answer(
        "train", "rnnsearch", "--run", folder / "run", *TINY, *pairs, *kinds, *more
    )
    assert (status, err) == (0, ""), out
    return folder


def test_a_run_on_pronunciations_keeps_the_lowest_error_rate(words):
    run = words / "run"
    opened = read_run(run)
    assert (opened.source_tokenizer.kind, opened.target_tokenizer.kind) == ("characters", "words")
    with open(run / "history.csv", newline="") as file:
        rates = [float(row["wer"]) for row in csv.DictReader(file)]
    assert all(0 <= rate <= 100 for rate in rates) and len(rates) == 3
    wrong = [rate / 100 * MONITORED for rate in rates]
    assert wrong == pytest.approx([round(count) for count in wrong]), "of so many words"
    record = json.loads((run / "arguments.json").read_text())
    assert (record["monitor"], record["ema_decay"]) == ("wer", 0.5)


def test_error_rates_count_words_once_and_any_pronunciation(command, words, tmp_path, monkeypatch):
    lines = "AB\tAH B IY\tAE B\nABC\tX\nCD\tS D IY\nCD\tK D\n"
    (tmp_path / "test.tsv").write_text(lines)
    answers = {"AB": "AE B", "ABC": "AH B IY", "CD": "K"}
    monkeypatch.setattr(Translation, "make_translator", lambda *_: Answers(answers))
    numbers = tmp_path / "numbers.json"
    line = ("evaluate", words / "run", "--pairs", tmp_path / "test.tsv", "--json", numbers)
    status, out, err = command(*line, "--format", "targets")
    assert (status, err) == (0, "")
    told = json.loads(numbers.read_text())
    assert told["pairs"] == 3
    assert told["wer"] == pytest.approx(200 / 3)
    assert told["per"] == pytest.approx(100 * (0 + 3 + 1) / (2 + 1 + 2))
    assert told["exact_match"] == pytest.approx(1 / 3)
    assert "bleu" not in told
    assert re.search(r"^wer +66\.6667$", out, re.MULTILINE)
    references = [["AH B IY"], ["X"], ["S D IY", "K D"]]
    assert command(*line)[0] == 0  # the first pronunciation of a line only, lines joined
    told = json.loads(numbers.read_text())
    assert (told["wer"], told["pairs"]) == (100.0, 3)
    assert told["per"] == phoneme_error_rate(list(answers.values()), references)
    assert command(*line, "--max-examples", 2, "--measure", "bleu")[0] == 0
    told = json.loads(numbers.read_text())
    assert (told["pairs"], "bleu" in told, "wer" in told) == (2, True, False)


def test_commands_and_actions(command, tmp_path):
    verbs, times = {"run": "I_RUN", "walk": "I_WALK", "look": "I_LOOK"}, ("", " twice", " thrice")
    lines = [
        f"IN: {verb}{time} OUT: {' '.join([action] * n)}\n"
        for verb, action in verbs.items()
        for n, time in enumerate(times, 1)
    ]
    file, run, numbers = (tmp_path / name for name in ("scan.txt", "run", "numbers"))
    file.write_text("".join(lines * 4) + "jump I_JUMP\n")
    options = ["--pairs", file, "--format", "scan", "--tokenizer", "words", "--epochs", 1]
    options += ["--joint-vocabulary"]
    status, out, err = command("train", "rnnsearch", "--run", run, *TINY, *options)
    assert (status, err) == (
        1,
        "error: 9 different sources are too few to hold 0.02 of them out for evaluation. "
        "Name validation files, change --validation-fraction, or give more training data.\n",
    )
    assert not run.exists()
    status, out, err = command(
        *("train", "rnnsearch", "--run", run, *TINY, *options, "--validation-fraction", 0.2)
    )
    assert (status, err) == (0, "")
    assert f"{file}:37: without a partner (expected IN: source OUT: target)" in out
    saved = [run / f"{side}.tokenizer" / "vocab.txt" for side in ("source", "target")]
    assert saved[0].read_text() == saved[1].read_text()
    assert {"run", "I_RUN", "thrice"} <= set(saved[0].read_text().split())
    line = (
        "evaluate",
        run,
        "--pairs",
        file,
        "--beam-width",
        1,
        "--json",
        numbers,
        "--max-length",
        5,
    )
    assert command(*line)[0] == 1  # for its last line, which the training left out
    line = (*line, "--invalid-lines", "skip")
    status, out, err = command(*line)
    assert (status, err) == (0, "")
    assert set(json.loads(numbers.read_text())) >= {"exact_match", "perplexity"}
    assert "bleu" not in out and "wer" not in out
    status, _, err = command("evaluate", run, "--source", file, "--target", file, "--format", "tsv")
    assert (status, "--format is for files of pairs" in err) == (2, True)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            "--joint-vocabulary --target-tokenizer words",
            "same tokens on both sides. Received: sente",
        ),
        ("--ema-decay 1", "expected a number between 0 and 1, got '1'"),
        (
            "--min-frequency 2 --source-tokenizer sentencepiece",
            "SentencePiece has --vocabulary-size",
        ),
        ("--warmup 9", "--warmup is for --schedule inverse-sqrt"),
    ],
)
def test_options_that_do_not_go_together(command, tmp_path, parallel_files, options, told):
    files = ("--source", parallel_files[0], "--target", parallel_files[1])
    run = tmp_path / "run"
    status, _, err = command("train", "rnnsearch", "--run", run, *files, *options.split())
    assert (status, told in err) == (2, True), err
    assert not run.exists()


def test_a_batch_of_too_few_tokens_is_refused(command, words, tmp_path):
    options = ("--pairs", words / "train.tsv", "--tokenizer", "characters", "--batch-tokens", 3)
    status, _, err = command("train", "rnnsearch", "--run", tmp_path / "run", *TINY, *options)
    assert (status, "`batch_tokens` must hold the longest row" in err) == (1, True)
