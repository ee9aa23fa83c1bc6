"""Tables, units and the description of the machine."""

from benchmarks import machine, report


def test_columns_are_aligned_and_a_missing_side_is_running_text():
    lines = [["ours", "1.5", "2"], ["the peer", "10.25", "1"], ["another", "not installed here"]]
    assert report.table(["side", "time", "ratio"], lines).splitlines() == [
        "side       time  ratio",
        "--------  -----  -----",
        "ours        1.5      2",
        "the peer  10.25      1",
        "another   not installed here",
    ]


def test_units():
    assert report.seconds_text(1.23456) == "1.235 s"
    assert report.seconds_text(0.0123456) == "12.35 ms"
    assert report.range_text(0.09, 0.11) == "0.090 to 0.110 s"
    assert report.range_text(0.001, 0.0025) == "1.00 to 2.50 ms"
    assert report.bytes_text(97_400_000) == "97 MB"
    assert report.bytes_text(1_640_000_000) == "1.64 GB"


def test_a_busy_machine_is_said(monkeypatch):
    for load, busy in ((3.5, True), (0.1, False)):
        description = {**machine.describe_machine(), "load_average": load, "cores": 4}
        monkeypatch.setattr(report, "describe_machine", lambda value=description: value)
        notes = report.new_report("train", "title", "command", {})["notes"]
        assert bool(notes) == busy
        assert not busy or "load average 3.5 on 4 cores" in notes[0]


def test_the_processor_is_described(monkeypatch):
    text = "model name\t: Some CPU 9000\nflags\t\t: fpu avx2 fma avx512f amx_tile\n"
    monkeypatch.setattr(machine, "_cpuinfo", lambda: text)
    assert machine.processor_name() == "Some CPU 9000"
    assert machine.instruction_sets() == ["avx2", "fma", "avx512f", "amx_tile"]


def test_a_system_that_says_nothing_is_no_error(monkeypatch):
    monkeypatch.setattr(machine, "_cpuinfo", lambda: "")
    assert machine.instruction_sets() == [] and machine.processor_name()


def test_a_library_that_is_absent_is_said(monkeypatch):
    monkeypatch.setattr(machine, "DISTRIBUTIONS", ("numpy", "no-such-distribution"))
    versions = machine.library_versions()
    assert versions["no-such-distribution"] == "not installed"
    assert versions["numpy"][0].isdigit()
