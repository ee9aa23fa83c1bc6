"""Whole runs on tasks of known difficulty: sums in letters, and spelling that depends on a letter.

What is expected is what others report of these tasks: 99 % of the characters of sums of two digits
(Keras' own example of addition); of a monotone task, that a window serves as well as all of the
source, and that a predicted one stands where the attention over all of it looks.
"""

import json

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def train_and_translate(command, tmp_path):
    """A function that trains a system on lines and returns its run and what it made of others."""

    def train(name, system, lines, test_lines, *options, evaluation=()):
        run = tmp_path / name
        files = {"train": lines, "test": test_lines}
        for part, text in files.items():
            (tmp_path / f"{part}.tsv").write_text("".join(text))
        tokens = ["--source-tokenizer", "characters", "--target-tokenizer", "characters"]
        line = ["train", system, "--run", run, "--pairs", tmp_path / "train.tsv", *tokens]
        status, out, err = command(*line, "--embedding-dim", 32, "--layers", 1, *options)
        assert (status, err) == (0, ""), out
        line = ["evaluate", run, "--pairs", tmp_path / "test.tsv", "--beam-width", 1]
        line += ["--measure", "exact_match", "--json", tmp_path / "numbers.json"]
        status, out, err = command(*line, *evaluation)
        assert (status, err) == (0, ""), out
        return run, json.loads((tmp_path / "numbers.json").read_text())

    return train


def test_a_network_without_attention_learns_to_add(train_and_translate):
    sums = np.random.default_rng(1).permutation(10_000)[:6000]
    lines = [f"{n // 100}+{n % 100}\t{n // 100 + n % 100}\n" for n in sums]
    options = ["--units", 128, "--batch-size", 32, "--epochs", 55, "--decay-epochs", 20]
    options += ["--learning-rate", 0.002]
    numbers = train_and_translate("sums", "seq2seq", lines[:5000], lines[5000:], *options)[1]
    assert numbers["token_accuracy"] >= 0.99
    assert numbers["exact_match"] >= 0.97


def spell(word):
    """Letters before a, e and i are written large."""
    return "".join(
        c.upper() if after in "aei" else c for c, after in zip(word, word[1:] + "$", strict=True)
    )


def test_windows_serve_a_monotone_task_as_well_as_the_whole_source(train_and_translate):
    generator = np.random.default_rng(2)
    words = {
        "".join(generator.choice([*"abcdefghij"], generator.integers(3, 13))) for _ in range(5500)
    }
    lines = [f"{word}\t{spell(word)}\n" for word in sorted(words)]
    generator.shuffle(lines)
    options = [
        "--units",
        64,
        "--batch-size",
        64,
        "--epochs",
        10,
        "--decay-epochs",
        5,
        "--num-buckets",
        2,
    ]
    options += ["--learning-rate", 0.005, "--scorer", "dot"]

    def train(name, *more, evaluation=()):
        parts = lines[:-500], lines[-500:]
        return train_and_translate(name, "luong", *parts, *options, *more, evaluation=evaluation)

    whole, expected = train("global")
    assert expected["token_accuracy"] >= 0.99
    for locality in ("monotonic", "predictive"):
        compared = ["--aligned-by", whole] if locality == "predictive" else []
        window = ["--local-attention", locality, "--window", 5]
        numbers = train(locality, *window, evaluation=compared)[1]
        assert numbers["token_accuracy"] >= expected["token_accuracy"] - 0.01
    assert numbers["position_within_one"] >= 0.95
