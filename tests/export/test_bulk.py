"""`python -m keras_attention.export.bulk`, on the direct runner of Apache Beam.

`sh .ci/beam` runs these tests: Beam needs other versions than the rest, see `.ci/beam`.
"""

import contextlib
import gzip
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf
from test_bulk_records import assert_equal, make_example
from toy_export import Offline, export_shared_toy

from keras_attention.export import _bulk_pipeline, _bulk_records, bulk
from keras_attention.export._digest_manifest import write_manifest

pytest.importorskip("apache_beam", reason="Apache Beam is installed in the environment of .ci/beam")

TEXTS = ["abc", "hij klm", "abc defg hij", "d", "<de> ghij", "klm abc"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return export_shared_toy(tmp_path_factory)


@pytest.fixture(scope="module")
def offline(toy):
    return Offline(toy)


@pytest.fixture(scope="module")
def fragile(tmp_path_factory):
    """A model that puts texts in capitals, and fails on any batch with the text "poison"."""

    def answer(text):
        check = tf.debugging.assert_none_equal(text, "poison", message="This text is poison.")
        with tf.control_dependencies([check]):
            return {"text": tf.strings.upper(text)}

    module, path = tf.Module(), tmp_path_factory.mktemp("fragile") / "3"
    spec = tf.TensorSpec([None], tf.string, name="text")
    module.answer = tf.function(answer, input_signature=[spec])
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.answer})
    write_manifest(path)
    return path.parent


def run(*arguments):
    return bulk.main([str(argument) for argument in arguments])


def read_records(folder, name):
    """Returns the records of a kind by file and line; each line is there once."""
    records = [
        json.loads(line)
        for path in sorted(folder.glob(f"{name}-*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]
    found = {(pathlib.Path(record["file"]).name, record["line"]): record for record in records}
    assert len(found) == len(records)
    return found


def read_summary(folder):
    return json.loads((folder / "summary.json").read_text())


def test_every_line_of_every_kind_of_file_is_answered_or_failed(toy, offline, tmp_path, capfd):
    lines = "\n".join([*TEXTS[:3], "", "x" * 70, *TEXTS[3:]]).encode() + b"\n\xff\n"
    (tmp_path / "a.txt").write_bytes(lines)
    with gzip.open(tmp_path / "b.txt.gz", "wb") as file:
        file.write(lines)
    for name, compression in (("c.tfrecord", ""), ("d.tfrecord-00000-of-00001.gz", "GZIP")):
        with tf.io.TFRecordWriter(str(tmp_path / name), compression) as writer:
            for text in TEXTS:
                writer.write(make_example(text=text.encode()))
            writer.write(b"no example")
    (tmp_path / "e.txt").write_bytes(b"")
    out = tmp_path / "made" / "out"
    patterns = (tmp_path / "*.txt*", tmp_path / "*.tfrecord*", tmp_path / "a.txt")
    arguments = (*patterns, out, "--max-line-bytes", 64, "--batch-size", 4, "--shards", 3)
    assert run(toy.parent, *arguments) == 0
    assert "32 lines of 5 files: 24 answered, 8 failed; see " in capfd.readouterr().out

    names = ["failed-00000-of-00001.jsonl", *(f"output-0000{n}-of-00003.jsonl" for n in range(3))]
    assert sorted(path.name for path in out.iterdir()) == [*names, "summary.json"]
    assert read_summary(out) == {"lines": 32, "answered": 24, "failed": 8}
    answers, failures = read_records(out, "output"), read_records(out, "failed")
    for name in ("a.txt", "b.txt.gz"):
        found = {number: failures.pop((name, number))["error"] for number in (4, 5, 9)}
        assert found == {
            4: "the line is empty",
            5: "70 bytes, at most 64 are allowed",
            9: "text is not UTF-8: byte 1",
        }
        for number, text in zip((1, 2, 3, 6, 7, 8), TEXTS, strict=True):
            check_answer(answers.pop((name, number)), offline, text)
    for name in ("c.tfrecord", "d.tfrecord-00000-of-00001.gz"):
        assert failures.pop((name, 7))["error"] == "not a tf.train.Example"
        for number, text in enumerate(TEXTS, 1):
            check_answer(answers.pop((name, number)), offline, text)
    assert not answers and not failures


def check_answer(record, offline, text, signature="serving_default"):
    assert record["inputs"] == {"text": text}
    alone = _bulk_records.remove_padding(offline.text(signature, text))
    assert_equal(record["outputs"], alone)


def test_alignments_are_written_and_hypotheses_left_out(toy, offline, tmp_path):
    (tmp_path / "in").write_text("abc\nhij klm defg\n")
    arguments = ("--signature", "translate_with_alignment", "--n-best", 2, "--threads", 1)
    assert run(toy, tmp_path / "in", tmp_path / "out", *arguments) == 0
    for (_, number), record in read_records(tmp_path / "out", "output").items():
        alone = offline.text("translate_with_alignment", ["abc", "hij klm defg"][number - 1])
        assert_equal(record["outputs"], _bulk_records.remove_padding(alone, 2))
        assert len(record["outputs"]["alignment"]) == 2


@pytest.mark.parametrize("name", ["in.txt", "in.txt.gz"])
def test_a_byte_order_mark_is_no_part_of_the_first_line(toy, tmp_path, name):
    content = "\ufeffabc\nhij\n".encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert run(toy, tmp_path / name, tmp_path / "out") == 0
    answers = read_records(tmp_path / "out", "output")
    assert [answers[name, line]["inputs"]["text"] for line in (1, 2)] == ["abc", "hij"]


def test_an_existing_file_is_no_pattern(tmp_path):
    for name in ("a[1].txt", "a1.txt", "b.txt"):
        (tmp_path / name).touch()
    base = str(tmp_path)
    assert _bulk_pipeline.find_files([f"{base}/a[1].txt"]) == (f"{base}/a[1].txt",)
    found = _bulk_pipeline.find_files([f"{base}/a[1].txt", f"{base}/b*"])
    assert found == (f"{base}/a[1].txt", f"{base}/b.txt")
    everything = tuple(f"{base}/{name}" for name in ("a1.txt", "a[1].txt", "b.txt"))
    assert _bulk_pipeline.find_files([f"{base}/"]) == everything


def test_pairs_are_scored(toy, offline, tmp_path):
    (tmp_path / "in.tsv").write_text("abc\tone two\nabc\nhij\tsix\n")
    assert run(toy, tmp_path / "in.tsv", tmp_path / "out", "--signature", "score") == 0
    answers = read_records(tmp_path / "out", "output")
    for number, pair in ((1, ("abc", "one two")), (3, ("hij", "six"))):
        alone = _bulk_records.remove_padding(offline.text("score", *pair))
        assert_equal(answers.pop(("in.tsv", number))["outputs"], alone)
    ((_, failure),) = read_records(tmp_path / "out", "failed").items()
    assert (failure["line"], failure["input"]) == (2, "abc")
    assert not answers


def test_of_a_batch_only_the_poisoned_lines_fail(fragile, tmp_path):
    texts = [f"text {number}" for number in range(1, 101)]
    texts[16] = texts[70] = "poison"
    (tmp_path / "in").write_text("\n".join(texts))
    assert run(fragile, tmp_path / "in", tmp_path / "out", "--batch-size", 100) == 0
    answers = read_records(tmp_path / "out", "output")
    assert {line: record["outputs"]["text"] for (_, line), record in answers.items()} == {
        line: text.upper() for line, text in enumerate(texts, 1) if text != "poison"
    }
    failures = read_records(tmp_path / "out", "failed")
    assert {line for _, line in failures} == {17, 71}
    assert all("This text is poison." in record["error"] for record in failures.values())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{none}", "{in}", "{out}"], "none is not an exported version: it has no saved_model.pb"),
        (["{toy}", "{none}", "{out}"], "No file matches"),
        (["{toy}", "{in}", "{none}*", "{out}"], "No file matches"),
        (
            ["{toy}", "{in}", "{out}", "--signature", "best"],
            "has no signature best. It has: greedy",
        ),
        (["{toy}", "{in}", "{out}", "--signature", "ids"], "signature ids does not take lines"),
        (
            ["{toy}", "{in}", "{out}", "--signature", "greedy", "--n-best", "2"],
            "--n-best is for signatures that return an n-best. Received: greedy",
        ),
        (["{toy}", "{in}", "{folder}"], "exists already. Choose another folder"),
        (["{toy}", "{in}", "{in}"], "exists already. Choose another folder"),
        (["{damaged}", "{in}", "{out}"], "damaged is damaged: saved_model.pb"),
        (["{toy}", "{cut}", "{out}"], "cut.txt.gz is damaged: Compressed file ended"),
        (["{toy}", "{in}", "{cut}", "{out}/deep", "--", "--runner", "NoRunner"], "NoRunner"),
        (["{toy}", "{record}", "{out}"], "cut.tfrecord is damaged: truncated record"),
    ],
)
def test_what_cannot_be_done_is_an_error_and_writes_nothing(
    toy, tmp_path, capfd, arguments, message
):
    names = ("none", "in", "out", "folder", "damaged")
    paths = {name: tmp_path / name for name in names} | {"toy": toy}
    paths |= {"cut": tmp_path / "cut.txt.gz", "record": tmp_path / "cut.tfrecord"}
    paths["in"].write_text("abc\n")
    paths["folder"].mkdir()
    paths["damaged"].mkdir()
    (paths["damaged"] / "saved_model.pb").write_bytes((toy / "saved_model.pb").read_bytes())
    (paths["damaged"] / "assets.extra").mkdir()
    write_manifest(paths["damaged"])
    with open(paths["damaged"] / "saved_model.pb", "ab") as file:
        file.write(b"more")
    paths["cut"].write_bytes(gzip.compress(b"abc\n" * 100)[:20])
    with tf.io.TFRecordWriter(str(paths["record"])) as writer:
        writer.write(make_example(text=b"abc"))
    paths["record"].write_bytes(paths["record"].read_bytes()[:-3])
    before = sorted(tmp_path.rglob("*"))
    assert run(*(argument.format(**paths) for argument in arguments)) == 1
    assert message in capfd.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def start(version, *arguments, **options):
    """Starts the command in a process group of its own."""
    command = [sys.executable, "-m", "keras_attention.export.bulk", version, *arguments]
    return subprocess.Popen(
        [str(each) for each in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        **options,
    )


@pytest.fixture
def many(tmp_path):
    """A file of 4,000 lines, 1 in 100 of which is empty."""
    draw = np.random.default_rng(5)
    words = ["abc", "defg", "hij", "klm", "<de>", "d"]
    lines = [" ".join(draw.choice(words, draw.integers(1, 4))) for _ in range(4000)]
    lines[50::100] = [""] * 40
    (tmp_path / "many.txt").write_text("\n".join(lines) + "\n")
    return tmp_path / "many.txt"


@pytest.mark.thorough
def test_two_processes_answer_as_one_does(toy, many, tmp_path):
    assert run(toy, many, tmp_path / "one", "--batch-size", 32) == 0
    process = start(toy, many, tmp_path / "two", "--processes", 2)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output.decode()
    assert read_summary(tmp_path / "two") == {"lines": 4000, "answered": 3960, "failed": 40}
    for name in ("output", "failed"):
        expected = read_records(tmp_path / "one", name)
        found = read_records(tmp_path / "two", name)
        assert found.keys() == expected.keys()
        for line, record in found.items():
            assert_equal(record, expected[line])


def list_workers(group):
    """Returns the processes of a group that are workers of Beam."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
            if b"apache_beam.runners.worker.sdk_worker_main" in arguments:
                if os.getpgid(int(folder.name)) == group:
                    found.append(int(folder.name))
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("seconds", [0, 6], ids=["not connected", "connected"])
def test_a_killed_worker_ends_the_job_and_leaves_no_output(toy, many, tmp_path, seconds):
    with open(many, "a") as file:
        file.write(many.read_text() * 50)  # it takes longer than until the kill
    process = start(toy, many, tmp_path / "out", "--processes", 2)
    try:
        deadline = time.monotonic() + 60
        while len(workers := list_workers(process.pid)) < 2:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(seconds)
        os.kill(workers[0], signal.SIGKILL)
        output, _ = process.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 1, output.decode()
    assert b"error: The pipeline failed and the output is not complete" in output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many.txt"]
