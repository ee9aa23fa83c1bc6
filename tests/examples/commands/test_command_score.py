"""`python -m examples score`: the log-probabilities of given pairs."""

import numpy as np
import pytest

from examples.data.batches import Batches
from keras_attention.decoders import get_decoder_start_id
from keras_attention.export import runs

pytestmark = pytest.mark.thorough

PAIRS = [
    ("ein hund schläft .", "a dog sleeps ."),
    ("kein baum fällt .", "no tree falls ."),
    ("ein hund schläft .", "falls ."),
]


def score(command, run, folder, *options):
    path = folder / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    status, out, err = command("score", run, "--pairs", path, *options)
    assert (status, err) == (0, "")
    return [line.split("\t") for line in out.splitlines()]


def full_call(directory):
    """The same from the model's call with the right tokens fed, one pair at a time."""
    run = runs.read_run(directory)
    first = get_decoder_start_id(run.model.get_layer("decoder"))
    sides = (run.source_tokenizer, run.target_tokenizer)
    found = []
    for pair in PAIRS:
        batches = Batches.from_pairs([pair], *sides, batch_size=1, decoder_start_id=first)
        inputs, labels = next(iter(batches.epoch(0)))
        logits = np.array(run.model(inputs))[0].astype("float64")
        log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        found.append(log_probs[np.arange(labels.shape[1]), labels[0]])
    return found


def test_each_pair_has_its_log_probability_in_its_place(command, words_run, tmp_path):
    lines = score(command, words_run, tmp_path, "--tokens")
    for (total, tokens), expected in zip(lines, full_call(words_run), strict=True):
        np.testing.assert_allclose([float(x) for x in tokens.split()], expected, atol=2e-4)
        assert float(total) == pytest.approx(expected.sum(), abs=2e-4)
    assert score(command, words_run, tmp_path) == [line[:1] for line in lines]


def test_a_decoder_that_reads_the_end_id_first_is_trained_and_scored_so(command, tmp_path):
    (tmp_path / "train.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in PAIRS * 4))
    sizes = "--units 8 --embedding-dim 5 --layers 1 --tokenizer words --epochs 1"
    status, _, err = command(
        "train", "seq2seq", "--run", tmp_path / "run", "--pairs", tmp_path / "train.tsv",
        "--validation-pairs", tmp_path / "train.tsv", *sizes.split(),
        "--no-xla", "--num-buckets", 1,
    )  # fmt: skip
    assert status == 0, err
    lines = score(command, tmp_path / "run", tmp_path)
    for (total,), expected in zip(lines, full_call(tmp_path / "run"), strict=True):
        assert float(total) == pytest.approx(expected.sum(), abs=2e-4)


def test_a_line_that_is_no_pair_is_told_with_a_remedy_that_score_has(command, words_run, tmp_path):
    (tmp_path / "pairs.tsv").write_bytes(b"ein hund\ta dog\nh\xfcnd\ta dog\n")
    status, _, err = command("score", words_run, "--pairs", tmp_path / "pairs.tsv")
    assert status == 1
    assert "1 bad line in" in err and "pairs.tsv:2: not UTF-8" in err
    assert "repair them." in err and "--invalid-lines" not in err


def test_nothing_to_score_is_told(command, words_run):
    status, _, err = command("score", words_run)
    assert status == 2 and "Name what is to be scored: --pairs" in err
