"""`python -m benchmarks`: what a newcomer reads, what is printed, written and refused."""

import json
import math

import pytest

from benchmarks import attention, pieces, train
from benchmarks.__main__ import main
from benchmarks.harness import BenchmarkError
from benchmarks.training_systems import SYSTEMS

TINY = {
    "batch": 3,
    "source_length": 5,
    "target_length": 4,
    "sentences": 2,
    "side": 17,
    "width": 8,
    "vocabulary": 11,
}
EXAMPLES = ("show-attend-tell", "han", "lstmn")


def sizes_of(system):
    return {name: TINY[name] for name in SYSTEMS[system].sizes}


def flags_of(system):
    return [f"--{name.replace('_', '-')}={size}" for name, size in sizes_of(system).items()]


def times(median):
    return {
        "seconds": [median],
        "median_seconds": median,
        "fastest_seconds": 0.5 * median,
        "quartile_seconds": [0.1, 0.2],
        "first_call_seconds": 3.0,
    }


@pytest.fixture
def fake_measurements(monkeypatch):
    """Canned measurements in place of real ones; returns the calls that were made."""
    calls = []

    def measure_times(cases, repeats, *, threads, warmup, progress):
        calls.append(("times", [case.name for case in cases], repeats, threads, warmup))
        return {case.name: times(0.1 * 2**index) for index, case in enumerate(cases)}

    def measure_memory(cases, repeats, *, threads, progress):
        calls.append(("memory", [case.name for case in cases], repeats, threads))
        return {
            case.name: {"extra_bytes": [1], "median_extra_bytes": 300_000_000 * 4**index}
            for index, case in enumerate(cases)
        }

    monkeypatch.setattr(train, "measure_times", measure_times)
    monkeypatch.setattr(attention, "measure_times", measure_times)
    monkeypatch.setattr(pieces, "measure_times", measure_times)
    monkeypatch.setattr(attention, "measure_memory", measure_memory)
    return calls


def rows_of(path):
    return {row["name"]: row for row in json.loads(path.read_text())["rows"]}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--help"], ["train", "attention", "eager PyTorch", "--group benchmarks"]),
        (["train", "--help"], ["--json FILE", "--repeats N", "(default: 15)", "--vocabulary N"]),
        (["attention", "--help"], ["--no-memory", "resident set", "(default: 256)"]),
    ],
)
def test_help_explains(words, expected, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert [part for part in expected if part not in text] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the following arguments are required: SUITE"),
        (["trian"], "invalid choice: 'trian'"),
        (["train", "--batch", "0"], "--batch: expected a whole number of at least 1, got '0'"),
        (["train", "--repeats", "many"], "--repeats: expected a whole number of at least 1"),
        (["attention", "--score", "cosine"], "invalid choice: 'cosine'"),
        (["train", "--json", "/no/such/folder/a.json"], "there is no folder /no/such/folder"),
    ],
)
def test_wrong_arguments_exit_with_2(words, message, fake_measurements, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not fake_measurements


def test_train_table_and_ratios(fake_measurements, capsys, tmp_path):
    path = tmp_path / "train.json"
    words = ["train", "--repeats", "5", "--threads", "3", "--batch", "6", "--target-length", "7"]
    assert main([*words, "--json", str(path)]) == 0
    assert fake_measurements == [("times", ["ours, XLA", "ours, graph", "PyTorch, eager"], 5, 3, 3)]
    rows = rows_of(path)
    assert rows["ours, XLA"]["speed_ratio"] == pytest.approx(4)
    assert rows["ours, graph"]["speed_ratio"] == pytest.approx(2)
    assert rows["ours, XLA"]["tokens_per_second"] == pytest.approx(6 * 7 / 0.1)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "ours, XLA 0.100 s 0.100 to 0.200 s 50.00 ms 420 4.00 3.000 s" in lines
    assert any(line.startswith("machine") and "cores" in line for line in lines)
    assert any(line.startswith("versions") and "tensorflow 2." in line for line in lines)
    assert f"command python -m benchmarks {' '.join(words)} --json {path}" in lines


def test_json_holds_what_was_printed_and_more(fake_measurements, tmp_path):
    path = tmp_path / "train.json"
    path.write_text("an older file")
    assert main(["train", "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert report["suite"] == "train" and report["settings"]["vocabulary"] == 8000
    assert {"processor", "cores", "instruction_sets", "python"} <= report["machine"].keys()
    assert {"tensorflow", "keras", "torch", "numpy"} <= report["versions"].keys()
    assert report["rows"][0]["seconds"] == [0.1]
    assert [entry.name for entry in tmp_path.iterdir()] == ["train.json"]


def test_a_missing_peer_stands_in_the_table(monkeypatch, capsys, tmp_path):
    reason = "not measured: torch not installed (pip install ...)"

    def measure_times(cases, *arguments, **named):
        return {case.name: {"missing": reason} if case.needs else times(0.5) for case in cases}

    monkeypatch.setattr(train, "measure_times", measure_times)
    path = tmp_path / "train.json"
    assert main(["train", "--json", str(path)]) == 0
    text = capsys.readouterr().out
    assert f"PyTorch, eager  {reason}" in text
    assert "Without PyTorch, eager there is no ratio" in text
    rows = rows_of(path)
    assert rows["PyTorch, eager"] == {"name": "PyTorch, eager", "missing": reason}
    assert rows["ours, XLA"]["speed_ratio"] is None


def test_attention_table_and_ratios(fake_measurements, capsys, tmp_path):
    path = tmp_path / "attention.json"
    assert main(["attention", "--memory-repeats", "2", "--json", str(path)]) == 0
    assert [call[0] for call in fake_measurements] == ["times", "memory", "memory"] * 2
    names = [
        f"additive, {owner}, {mode}" for mode in ("graph", "XLA") for owner in ("ours", "Keras")
    ]
    assert (
        fake_measurements[0][1] == fake_measurements[1][1] == names and fake_measurements[1][2] == 2
    )
    rows = rows_of(path)
    assert len(rows) == 8 + 4
    for mode in ("graph", "XLA"):
        assert rows[f"dot, ours, {mode}"]["speed_ratio"] == pytest.approx(2)
        assert rows[f"dot, ours, {mode}"]["memory_ratio"] == pytest.approx(0.25)
        assert rows[f"dot, Keras, {mode}"]["speed_ratio"] == 1
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "dot, ours, graph 0.100 s 0.100 to 0.200 s 50.00 ms 2.00 300 MB 0.25 3.000 s" in lines
    assert "dot, Keras, graph 0.200 s 0.100 to 0.200 s 0.100 s 1.00 1.20 GB 1.00 3.000 s" in lines


def test_the_long_part_of_attention_measures_memory_alone(fake_measurements, capsys, tmp_path):
    path = tmp_path / "attention.json"
    assert main(["attention", "--score", "dot", "--json", str(path)]) == 0
    assert fake_measurements[-1][:2] == (
        "memory",
        [f"dot 8,192 x 8,192, ours, {m}" for m in attention.MODES],
    )
    assert rows_of(path)["dot 8,192 x 8,192, ours, XLA"]["memory_ratio"] is None
    out = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "dot 8,192 x 8,192, ours, graph - - - - 300 MB - -" in lines
    assert "The score matrix of dot 8,192 x 8,192 takes 268 MB." in out
    words = ["attention", "--score", "dot", "--long-peers", "--json", str(path)]
    assert main(words) == 0
    assert rows_of(path)["dot 8,192 x 8,192, ours, XLA"]["memory_ratio"] == pytest.approx(0.25)


def test_the_long_part_can_be_left_out(fake_measurements):
    assert main(["attention", "--score", "additive", "--no-long"]) == 0
    assert [call[0] for call in fake_measurements] == ["times", "memory"]


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["graph", "XLA"])
def test_the_long_dot_side_can_be_built_and_called(mode):
    sizes = {"batch": 2, "queries": 5, "keys": 7, "units": 3}
    options = {**sizes, "score": "dot", "jit_compile": mode == "XLA"}
    ours = attention.long_dot_side(**options, owner="ours")()
    assert ours == pytest.approx(attention.attention_side(**options, owner="ours")(), rel=1e-5)


def test_attention_without_memory_and_with_one_score(fake_measurements, tmp_path, capsys):
    path = tmp_path / "attention.json"
    words = ["attention", "--score", "dot", "--no-memory", "--json", str(path)]
    assert main(words) == 0
    assert [call[0] for call in fake_measurements] == ["times"]
    assert set(rows_of(path)) == set(fake_measurements[0][1])
    assert "MB" not in capsys.readouterr().out


def test_a_failing_side_exits_with_1_in_one_line(monkeypatch, capsys):
    def fail(*arguments, **named):
        raise BenchmarkError("'ours' failed: ValueError: no such size")

    monkeypatch.setattr(train, "measure_times", fail)
    assert main(["train"]) == 1
    assert capsys.readouterr().err == "benchmarks: 'ours' failed: ValueError: no such size\n"


@pytest.mark.parametrize("system", ["rnnsearch", *EXAMPLES])
def test_the_peer_of_training_runs_from_end_to_end(system, capsys, tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed: no peer to measure")
    path = tmp_path / "train.json"
    words = ["train", "--model", system, *flags_of(system), "--repeats", "3", "--threads", "1"]
    assert main([*words, "--sides", "torch", "--json", str(path)]) == 0, capsys.readouterr().err
    rows = rows_of(path)
    assert list(rows) == ["PyTorch, eager"]
    assert len(rows["PyTorch, eager"]["seconds"]) == 3
    assert 0 < rows["PyTorch, eager"]["fastest_seconds"] <= rows["PyTorch, eager"]["median_seconds"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_peer_trains_on_its_example_batch(system, dtype, monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: no peer to train")
    monkeypatch.setenv("OMP_NUM_THREADS", str(torch.get_num_threads()))
    work = train.torch_side(system=system, dtype=dtype, **sizes_of(system))
    losses = [work() for _ in range(40)]
    assert losses[-1] < losses[0] - 0.02


@pytest.mark.thorough
@pytest.mark.parametrize("system", EXAMPLES)
def test_our_side_of_training_runs_from_end_to_end(system, capsys, tmp_path):
    path = tmp_path / "train.json"
    words = ["train", "--model", system, *flags_of(system), "--repeats", "1", "--warmup", "1"]
    assert main([*words, "--sides", "graph", "--json", str(path)]) == 0, capsys.readouterr().err
    assert rows_of(path)["ours, graph"]["median_seconds"] > 0
    assert f"{SYSTEMS[system].unit}/s" in capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.parametrize("system", ["rnnsearch", *EXAMPLES])
def test_our_training_side_learns(system):
    work = train.keras_side(system=system, mode="graph", **sizes_of(system))
    losses = [work() for _ in range(40)]
    classes = 2 if system == "han" else TINY["vocabulary"]
    assert losses[0] == pytest.approx(math.log(classes), rel=0.1)
    assert losses[-1] < losses[0] - 0.02


@pytest.mark.thorough
@pytest.mark.parametrize("system", ["rnnsearch", *EXAMPLES])
def test_fit_trains_as_the_custom_step_does(system):
    lengths = {"source_length": 8, "target_length": 7, "steps": 2, "shapes": 2}
    sizes = sizes_of(system)
    sizes |= {name: size for name, size in lengths.items() if name in (*sizes, "steps", "shapes")}
    custom, fit = (train.keras_side(system=system, mode=m, **sizes) for m in ("graph", "fit"))
    assert [fit() for _ in range(4)] == pytest.approx([custom() for _ in range(4)], rel=1e-4)


def test_each_model_has_sizes_of_its_own(fake_measurements, capsys, tmp_path):
    path = tmp_path / "train.json"
    assert main(["train", "--model", "han", "--sentences", "7", "--json", str(path)]) == 0
    settings = json.loads(path.read_text())["settings"]
    expected = {"batch": 16, "sentences": 7, "source_length": 25, "vocabulary": 20000}
    assert expected.items() <= settings.items() and "target_length" not in settings
    words = rows_of(path)["ours, XLA"]["tokens_per_second"]
    assert words == pytest.approx(16 * 7 * 25 / 0.1)
    assert "words/s" in capsys.readouterr().out


def test_sizes_that_a_model_does_not_have_are_refused(fake_measurements, capsys):
    assert main(["train", "--model", "lstmn", "--source-length", "5"]) == 1
    message = "has the sizes --batch, --target-length, --width, --vocabulary."
    assert f"{message} Received: --source-length 5" in capsys.readouterr().err
    assert not fake_measurements


def test_lengths_that_would_be_used_up_are_refused(capsys, fake_measurements):
    assert main(["train", "--target-length", "7", "--shapes", "4"]) == 1
    assert "--shapes 4 needs sentences of more than 9 words. Received: 7" in capsys.readouterr().err
    assert not fake_measurements


@pytest.mark.parametrize("mode", ["graph", "XLA"])
@pytest.mark.parametrize("score", attention.SCORES)
def test_attention_sides_can_be_built_and_called(score, mode):
    sizes = {"batch": 2, "queries": 5, "keys": 7, "units": 3}
    cases = [case for case in attention.cases(score, sizes) if case.name.endswith(mode)]
    values = [attention.attention_side(**case.options)() for case in cases]
    assert all(math.isfinite(value) for value in values)
    if score == "dot":  # no weights: both layers compute the same number
        assert values[0] == pytest.approx(values[1], rel=1e-5)


def test_pieces_compares_each_form_with_the_one_it_replaced(fake_measurements, tmp_path, capsys):
    path = tmp_path / "pieces.json"
    assert main(["pieces", "--only", "dropout", "memory", "--json", str(path)]) == 0
    assert [call[1] for call in fake_measurements] == [
        ["CounterDropout", "keras.layers.Dropout"],
        ["freed memory kept", "freed memory given back"],
    ]
    rows = rows_of(path)
    assert rows["CounterDropout"]["speed_ratio"] == pytest.approx(2.0)
    assert rows["keras.layers.Dropout"]["speed_ratio"] == pytest.approx(1.0)
    assert "times as fast" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("piece", pieces.PIECES)
def test_both_forms_of_a_piece_compute_the_same_thing(piece):
    sizes = {"batch": 3, "length": 5, "width": 8, "vocabulary": 11}
    side = getattr(pieces, f"{piece}_side")
    ours, replaced = (side(**sizes, own=own)() for own in (True, False))
    if piece == "gradient":
        assert ours == pytest.approx(replaced, rel=1e-4)
    assert math.isfinite(ours) and math.isfinite(replaced)
