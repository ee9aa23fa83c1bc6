import csv
import gzip
import json

import pytest

pytestmark = pytest.mark.thorough

TINY = "--units 8 --embedding-dim 7 --maxout-units 5 --no-xla --num-buckets 1 --epochs 1".split()


def write_pairs(path, pairs):
    text = "".join(f"{source}\t{target}\n" for source, target in pairs)
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", encoding="utf-8") as file:
        file.write(text)
    return path


def test_a_run_on_dates_is_complete(dates_run):
    names = {path.name for path in dates_run.iterdir()}
    assert names == {
        *("model.keras", "run.json", "source.tokenizer", "target.tokenizer"),
        *("history.csv", "backup", "arguments.json"),
    }
    told = json.loads((dates_run / "run.json").read_text())
    assert told["model"] == "rnnsearch"
    assert told["model_options"]["units"] == 8
    assert told["lengths"]["target"] == len("2024-11-21") + 1
    kind = json.loads((dates_run / "source.tokenizer" / "tokenizer.json").read_text())
    assert kind["kind"] == "characters"
    assert "<en-US>" in kind["symbols"]


def test_a_monitored_run_learns_and_keeps_its_best_epoch(words_run):
    with open(words_run / "history.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    measured = [float(row["exact_match"]) for row in rows]
    assert measured[0] < 0.5 < max(measured)
    assert float(rows[-1]["val_loss"]) < float(rows[0]["val_loss"])
    assert json.loads((words_run / "arguments.json").read_text())["monitor"] == "exact_match"


@pytest.mark.slow
def test_training_reads_compressed_pairs(command, tmp_path):
    pairs = [(f"{n} äpfel", f"{n} apples") for n in range(101)]
    file = write_pairs(tmp_path / "pairs.tsv.gz", [*pairs, ("leer", " ")])
    run = tmp_path / "run"
    options = [
        "--pairs",
        file,
        "--tokenizer",
        "characters",
        "--validation-fraction",
        0.1,
        "--lowercase",
    ]
    status, out, err = command("train", "rnnsearch", "--run", run, *TINY, *options)
    assert (status, err) == (0, "")
    assert "101 pairs used, 1 left out: 1 empty" in out
    assert f"{file}:102: empty" in out
    assert "training: 91 pairs" in out
    assert "validation: 10 pairs" in out
    kind = json.loads((run / "target.tokenizer" / "tokenizer.json").read_text())
    assert (kind["kind"], kind["lowercase"]) == ("characters", True)


def test_the_users_files_are_split_into_subwords_by_default(command, tmp_path, parallel_files):
    source, target = parallel_files
    run = tmp_path / "run"
    status, out, err = command(
        *("train", "rnnsearch", "--run", run, *TINY, "--source", source, "--target", target),
        *("--validation-source", source, "--validation-target", target, "--vocabulary-size", 40),
        *("--monitor", "bleu", "--dropout", 0.2, "--ema-decay", 0.9, "--label-smoothing", 0.1),
        *("--schedule", "plateau", "--max-minutes", 5, "--max-examples", 48, "--tensorboard"),
    )
    assert (status, err) == (0, "")
    assert "training: 48 pairs" in out
    assert "best bleu" in out
    kind = json.loads((run / "source.tokenizer" / "tokenizer.json").read_text())
    assert kind["kind"] == "sentencepiece"
    assert list((run / "tensorboard").iterdir())
