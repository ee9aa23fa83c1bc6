"""Readers: every bad line is told by number, and no pair ever shifts."""

import doctest
import gzip
import os

import pytest

from examples.data import parallel, report
from examples.data.parallel import read_pairs, read_parallel
from examples.data.report import BadLine, DataError, Report


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return str(path)


def list_bad_lines(corpus):
    return [(bad.line, bad.reason, os.path.basename(bad.file)) for bad in corpus.report.examples()]


def test_bad_lines_are_left_out_with_their_partners(tmp_path):
    source = write(tmp_path, "a.de", b"eins\n\nzwei\ndrei \xff\nvier\n" + b"x" * 21 + b"\nsechs\n")
    target = write(tmp_path, "a.en", b"one\nnothing\n  \nthree\nfour\nfive\nsix\n")
    corpus = read_parallel(source, target, max_characters=20)
    assert corpus.pairs == [("eins", "one"), ("vier", "four"), ("sechs", "six")]
    assert corpus.lines == [1, 5, 7]
    assert list_bad_lines(corpus) == [
        (2, "empty", "a.de"),
        (3, "empty", "a.en"),
        (4, "not UTF-8", "a.de"),
        (6, "too long", "a.de"),
    ]
    assert corpus.report.summary() == ("3 pairs used, 4 left out: 2 empty, 1 not UTF-8, 1 too long")
    assert f"{source}:4: not UTF-8 (byte 6 is 0xff)" in str(corpus.report)
    assert "(21 characters, the limit is 20)" in str(corpus.report)


def test_refusing_tells_every_kind_after_reading_all(tmp_path):
    source = write(tmp_path, "a.de", b"eins\n\nzwei\n\xff\n")
    target = write(tmp_path, "a.en", b"one\n\ntwo\nthree\n")
    with pytest.raises(DataError, match=r"2 bad lines in .*a\.de:2: empty; .*a\.de:4: not UTF-8"):
        read_parallel(source, target, on_bad_line="refuse")


def test_good_files_are_not_refused(tmp_path):
    path = write(tmp_path, "a.tsv", b"eins\tone\nzwei\ttwo\n")
    corpus = read_pairs(path, on_bad_line="refuse")
    assert list(corpus) == [("eins", "one"), ("zwei", "two")]
    assert str(corpus.report) == "2 pairs used, none left out"


@pytest.mark.parametrize("on_bad_line", ["skip", "refuse"])
@pytest.mark.parametrize("longer", ["source", "target"])
def test_files_of_different_numbers_of_lines_are_refused(tmp_path, longer, on_bad_line):
    long = write(tmp_path, "long", b"a\n\nc\nd\ne\n")  # a line that is empty has its number too
    short = write(tmp_path, "short", b"A\nB\nD\n")
    files = (long, short) if longer == "source" else (short, long)
    counts = {long: 5, short: 3}
    expected = " and ".join(
        f"{path}{' has' * first} {counts[path]}{' lines' * first}"
        for path, first in zip(files, (True, False), strict=True)
    )
    with pytest.raises(DataError, match=f"{expected}: line n of one must be the translation"):
        read_parallel(*files, on_bad_line=on_bad_line)


def test_an_empty_line_at_the_end_of_one_file_counts(tmp_path):
    one = write(tmp_path, "one", b"a\nb\n")
    more = write(tmp_path, "more", b"A\nB\n\n")
    with pytest.raises(DataError, match=r"one has 2 lines and .*more 3: .* at its end counts too"):
        read_parallel(one, more)
    assert len(read_parallel(one, write(tmp_path, "open", b"A\nB"))) == 2


def test_tsv_ignores_further_columns_and_tells_lines_without_a_tab(tmp_path):
    content = b"a\tb\tCC-BY\tx\n\nno tab here\n\tc\nd\t\ne\tf\n"
    corpus = read_pairs(write(tmp_path, "a.tsv", content))
    assert corpus.pairs == [("a", "b"), ("e", "f")]
    assert corpus.lines == [1, 6]
    assert sorted(list_bad_lines(corpus)) == [
        (2, "empty", "a.tsv"),
        (3, "without a partner", "a.tsv"),
        (4, "empty", "a.tsv"),
        (5, "empty", "a.tsv"),
    ]


def test_further_columns_are_targets_where_they_are_said_to_be(tmp_path):
    content = b"ABS\tAE B Z\tEY B\t\nAT\tAE T\n\nNO\n\tX\tY\nZ\t\t Z\nE\t\t\n"
    corpus = read_pairs(write(tmp_path, "a.tsv", content), form="targets")
    assert corpus.pairs == [("ABS", "AE B Z"), ("ABS", "EY B"), ("AT", "AE T"), ("Z", " Z")]
    assert corpus.lines == [1, 1, 2, 6]
    assert list_bad_lines(corpus) == [
        *((line, "empty", "a.tsv") for line in (3, 5, 5)),
        (4, "without a partner", "a.tsv"),
    ]
    assert "a.tsv:4: without a partner (expected source<TAB>target<TAB>another" in str(
        corpus.report
    )
    assert corpus.report.counts == {"empty": 4, "without a partner": 1}


def test_scan_lines_are_commands_and_actions(tmp_path):
    content = (
        b"IN: jump twice OUT: I_JUMP I_JUMP\r\nIN:walk  OUT: I_WALK \n\njump OUT: I_JUMP\n"
        b"IN: jump I_JUMP\nIN: run OUT:\nIN: look INOUT: a OUT: I_LOOK\n"
    )
    corpus = read_pairs(write(tmp_path, "a.txt", content), form="scan")
    assert corpus.pairs == [
        ("jump twice", "I_JUMP I_JUMP"),
        ("walk", "I_WALK"),
        ("look INOUT: a", "I_LOOK"),
    ]
    assert sorted((bad.line, bad.reason) for bad in corpus.report.examples()) == [
        (3, "empty"),
        (4, "without a partner"),
        (5, "without a partner"),
        (6, "empty"),
    ]
    assert "a.txt:5: without a partner (expected IN: source OUT: target)" in str(corpus.report)


def test_a_file_of_another_form_is_refused_with_what_was_expected(tmp_path):
    path = write(tmp_path, "a.tsv", b"jump\tI_JUMP\n")
    with pytest.raises(DataError, match=r"a.tsv:1: without a partner \(expected IN: source OUT"):
        read_pairs(path, form="scan")
    path = write(tmp_path, "b.txt", b"IN: jump OUT: I_JUMP\n")
    with pytest.raises(DataError, match=r"b.txt:1: without a partner \(no tab\)"):
        read_pairs(path)
    with pytest.raises(ValueError, match="one of 'tsv', 'targets', 'scan'. Received: form='csv'"):
        read_pairs(path, form="csv")


def test_only_line_feeds_end_lines(tmp_path):
    # All of these would shift the pairs if they were taken for line ends.
    odd = "a\u2028b\u2029c\x0bd\x0ce\x85f\x1cg\rh"
    source = write(tmp_path, "a.de", f"{odd}\nzwei\n".encode())
    target = write(tmp_path, "a.en", b"one\ntwo")
    assert read_parallel(source, target).pairs == [(odd, "one"), ("zwei", "two")]


def test_bom_and_carriage_returns_are_dropped(tmp_path):
    source = write(tmp_path, "a.de", b"\xef\xbb\xbfeins\r\nzwei \xef\xbb\xbf\r\n")
    target = write(tmp_path, "a.en", b"\xef\xbb\xbfone\ntwo\n")
    assert read_parallel(source, target).pairs == [("eins", "one"), ("zwei \ufeff", "two")]


def test_gzip_is_read_whatever_its_name(tmp_path):
    content = gzip.compress("für\tfor\r\n".encode())
    for name in ("a.tsv.gz", "a.tsv"):
        assert read_pairs(write(tmp_path, name, content)).pairs == [("für", "for")]


def test_only_the_first_of_each_kind_are_shown(tmp_path):
    corpus = read_pairs(write(tmp_path, "a.tsv", b"a\tb\n" + b"\n" * 1000 + b"c\n"))
    text = str(corpus.report).split("\n")
    assert text[0] == "1 pair used, 1,001 left out: 1,000 empty, 1 without a partner"
    assert text[-2] == "... and 997 more empty"
    assert text[-1].endswith("a.tsv:1002: without a partner (no tab)")
    assert len(text) == 6


def test_report_counts_what_it_does_not_keep():
    kept = Report(keep=1)
    for line in (3, 5, 7):
        kept.add(BadLine("f", line, "empty"))
    assert kept.left_out == 3 and [bad.line for bad in kept.examples()] == [3]


def test_unreadable_files_name_the_remedy(tmp_path):
    good = write(tmp_path, "good", b"a\tb\n")
    damaged = gzip.compress(b"a\tb\n" * 9999)
    cases = [
        (str(tmp_path / "none.tsv"), "none.tsv does not exist. Check the path."),
        (str(tmp_path), "is a folder. Name a file in it."),
        (write(tmp_path, "empty.tsv", b""), "empty.tsv is empty. Give a file"),
        (write(tmp_path, "empty.gz", gzip.compress(b"")), "empty.gz is empty"),
        (write(tmp_path, "bom", b"\xef\xbb\xbf"), "No usable pair in .*bom:1: empty"),
        (write(tmp_path, "plain.gz", b"a\tb\n"), "named .gz but is not gzip. Rename or compress"),
        (write(tmp_path, "cut.gz", damaged[:-9]), r"damaged after line \d+.*copy it again"),
        (write(tmp_path, "bits.gz", damaged[:40] + b"!!!" + damaged[43:]), "damaged after line"),
        (
            write(tmp_path, "block.gz", damaged[:10] + b"\xff" + damaged[11:]),
            "damaged after line 0",
        ),
        (write(tmp_path, "utf16.tsv", "a\tb\n".encode("utf-16")), "is UTF-16. Convert it"),
        (write(tmp_path, "no.tsv", b"a b\n"), r"No usable pair in .*no.tsv:1: without a partner"),
    ]
    for path, message in cases:
        with pytest.raises(DataError, match=message) as error:
            read_pairs(path)
        assert "\n" not in str(error.value)
        with pytest.raises(DataError):
            read_parallel(good, path + ".missing")


def test_errors_are_value_errors():
    assert issubclass(DataError, ValueError)


def test_wrong_options_are_refused_before_reading(tmp_path):
    with pytest.raises(ValueError, match="Received: on_bad_line='ignore'"):
        read_pairs(str(tmp_path / "none"), on_bad_line="ignore")
    with pytest.raises(ValueError, match="Received: max_characters=0"):
        read_pairs(str(tmp_path / "none"), max_characters=0)


@pytest.mark.parametrize("module", [parallel, report])
def test_examples_in_docstrings_run(module):
    results = doctest.testmod(module)
    assert results.attempted and not results.failed
