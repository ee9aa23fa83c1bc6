"""Several sources as one text: empty lines, line ends, and the errors."""

import gzip

import pytest

from examples.data import __main__ as command
from examples.data.report import DataError
from examples.data.sources import join_sources


def write(folder, **files):
    for name, text in files.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return [folder / name for name in files]


def test_three_files_by_hand(tmp_path, capsys):
    files = write(
        tmp_path,
        de="ein hund\r\n\n\nzwei\n",
        fr=gzip.compress("un chien\nun é\n \ndeux\n".encode()),
        es=" un perro \nuna\n\n\n",
    )
    arguments = ["join", *map(str, files), "--output", str(tmp_path / "all")]
    assert command.main(arguments) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'all'}: 4 lines\n"
    assert (tmp_path / "all").read_text(encoding="utf-8").split("\n") == [
        "ein hund <sep> un chien <sep> un perro",
        "<sep> un é <sep> una",
        "",
        "zwei <sep> deux <sep>",
        "",
    ]


def test_files_that_do_not_fit_are_refused(tmp_path, capsys):
    short, long, wrong = write(tmp_path, short="a\n", long="a\nb\n", wrong="a\nb <sep> c\n")
    arguments = ["join", str(short), str(long), "--output", str(tmp_path / "all")]
    assert command.main(arguments) == 1
    told = capsys.readouterr().err
    assert "all files need as many lines" in told
    assert f"Received: lines of {short} 1, {long} 2" in told
    for files, message in (
        ([long], "Name at least two files"),
        ([long, wrong], f"{wrong}:2 contains <sep>"),
        ([long, tmp_path / "none"], "none does not exist"),
    ):
        with pytest.raises(DataError, match=message):
            join_sources(files, tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_a_source_may_be_joined_with_itself(tmp_path):
    (file,) = write(tmp_path, de="a\nb\n")
    assert join_sources([file, file], tmp_path / "all") == 2
    assert (tmp_path / "all").read_text() == "a <sep> a\nb <sep> b\n"


def test_an_output_is_compressed_by_its_name(tmp_path):
    (file,) = write(tmp_path, de="a\nb\n")
    join_sources([file, file], tmp_path / "all.gz")
    assert gzip.decompress((tmp_path / "all.gz").read_bytes()) == b"a <sep> a\nb <sep> b\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.gz", "de"]


def test_an_output_that_cannot_be_written_is_told(tmp_path, capsys, monkeypatch):
    (file,) = write(tmp_path, de="a\nb\n")
    for output in (tmp_path / "none" / "all", file / "all", tmp_path):
        assert command.main(["join", str(file), str(file), "--output", str(output)]) == 1
        assert f"error: {output} cannot be written (" in capsys.readouterr().err
    (tmp_path / "all").write_text("before")

    def write_a_part(path, content):
        path.open("wb").close()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", write_a_part)
    with pytest.raises(DataError, match="all cannot be written .No space left on device."):
        join_sources([file, file], tmp_path / "all")
    assert (tmp_path / "all").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all", "de"]
