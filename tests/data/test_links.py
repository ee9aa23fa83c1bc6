"""Links of words: Pharaoh files, their errors, arrays, and links of attention weights."""

import gzip

import numpy as np
import pytest

from keras_attention.data import find_links, format_links, links_to_array, read_links, write_links

SURE = [{(0, 0), (2, 1), (2, 3)}, set(), {(12, 0), (3, 10)}]
POSSIBLE = [{(0, 0), (1, 1)}, {(4, 0)}, set()]
LINES = "0-0 1p1 2-1 2-3\n4p0\n3-10 12-0\n"


def test_a_file_that_is_written_is_read_back(tmp_path):
    path = tmp_path / "links.txt"
    write_links(path, SURE, POSSIBLE)
    assert path.read_text() == LINES
    every = [sure | possible for sure, possible in zip(SURE, POSSIBLE, strict=True)]
    assert read_links(path) == read_links(path, [3, 5, 13], [4, 1, 11]) == (SURE, every)
    write_links(path, SURE)
    assert path.read_text() == "0-0 2-1 2-3\n\n3-10 12-0\n"
    assert format_links(()) == ""


def test_other_forms_of_a_file(tmp_path):
    path = tmp_path / "links.txt.gz"
    path.write_bytes(gzip.compress(b" 2-3  0-0 2-1\t1?1 0-0\r\n4?0\r\n12-0 3-10"))
    sure, possible = read_links(str(path))
    assert sure == SURE and possible[0] == SURE[0] | POSSIBLE[0]


@pytest.mark.parametrize(
    "token", ["1", "1-", "-1-0", "1--0", "a-0", "1-0-0", "1:0", "1.0-0", "1s0", "\u0661-0"]
)
def test_a_malformed_link_is_named_with_file_and_line(tmp_path, token):
    path = tmp_path / "links.txt"
    path.write_text(f"0-0\n0-0 {token} 1-1\n")
    with pytest.raises(ValueError) as caught:
        read_links(path)
    assert str(caught.value).startswith(f"{path}:2: expected links such as 0-0, or 1p2 and 1?2")
    assert str(caught.value).endswith(f"Received: {token!r}")


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (([2, 2], [1, 2]), "2: the link 2-1 points outside its sentence: the source has 2 words"),
        (([2, 3], [1, 1]), "2: the link 2-1 points outside its sentence: the target has 1 words"),
        ((None, [0, 2]), "1: the link 0p0 points outside its sentence: the target has 0 words"),
        (([2], None), r" has 2 lines, and there are 1 source sentences"),
        (([2, 3], [1, 1, 1]), r" has 2 lines, and there are 3 target sentences"),
    ],
)
def test_a_file_of_other_sentences_is_refused(tmp_path, lengths, message):
    path = tmp_path / "links.txt"
    path.write_text("0p0\n2-1\n")
    with pytest.raises(ValueError) as caught:
        read_links(path, *lengths)
    assert str(caught.value).removeprefix(str(path)).lstrip(":").startswith(message)


def test_arrays_are_padded():
    array = links_to_array(SURE, target_length=13, source_length=17)
    assert array.shape == (3, 13, 17) and array.dtype == np.float32
    expected = {(n, t, s) for n, links in enumerate(SURE) for s, t in links}
    assert set(zip(*np.nonzero(array), strict=True)) == expected and array.max() == 1
    assert links_to_array(SURE).shape == (3, 11, 13)
    assert links_to_array([set()]).shape == (1, 0, 0)
    assert links_to_array([], 5, 7).shape == (0, 5, 7)
    with pytest.raises(ValueError, match="`target_length` to be an int of at least 11.*=10"):
        links_to_array(SURE, target_length=10)
    with pytest.raises(ValueError, match="`source_length` to be an int of at least 13.*=12"):
        links_to_array(SURE, source_length=12)


#: Three source words, EOS, padding; two target words, EOS.
ROWS = np.array([[0.1, 0.5, 0.4, 0, 0], [0.3, 0, 0.2, 0.5, 0], [0.9, 0.1, 0, 0, 0]])


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [
        (None, {(1, 0)}),  # the second word attends most to EOS, and EOS is no word
        (0.3, {(1, 0), (2, 0), (0, 1)}),
        (0.2, {(1, 0), (2, 0), (0, 1), (2, 1)}),
        (1, set()),
    ],
)
def test_links_of_weights(threshold, expected):
    assert find_links([ROWS, ROWS[:, :4]], [3, 3], [2, 2], threshold) == [expected] * 2


def test_links_of_weights_that_are_0_tied_or_empty():
    rows = np.array([[0, 0, 0], [0.5, 0.5, 0], [0, 0, np.nan]])
    assert find_links(rows[None], [2], [3]) == [{(0, 1)}]
    assert find_links(rows[None].astype("float16"), [2], [3], 0.5) == [{(0, 1), (1, 1)}]
    empty = [np.zeros((0, 2)), np.zeros((2, 0)), np.zeros((1, 1))]
    assert find_links(empty, [1, 0, 0], [0, 2, 1]) == [set()] * 3
    assert find_links(np.zeros((0, 3, 5)), [], []) == []


def test_weights_of_other_sentences_are_refused():
    message = r"weights\[1\].shape=\(3, 5\), source_lengths\[1\]=6, target_lengths\[1\]=2"
    with pytest.raises(ValueError, match=message):
        find_links([ROWS, ROWS], [3, 6], [2, 2])
    with pytest.raises(ValueError, match=r"source_lengths\[0\]=3, target_lengths\[0\]=4"):
        find_links([ROWS], [3], [4])
    for threshold in (0, 1.5, True):
        with pytest.raises(ValueError, match=r"`threshold` to be a number in \(0, 1\]"):
            find_links([ROWS], [3], [2], threshold)


def test_links_of_an_array_are_those_it_was_made_of():
    array = links_to_array([{(1, 0), (0, 2)}, {(4, 1)}], 3, 7)
    assert find_links(array, [6, 6], [3, 2]) == [{(1, 0), (0, 2)}, {(4, 1)}]


def test_a_file_is_read_by_what_it_holds(tmp_path):
    links = [{(0, 0), (2, 1)}, set(), {(1, 0)}]
    write_links(tmp_path / "links.gz", links)
    content = gzip.decompress((tmp_path / "links.gz").read_bytes())
    assert content == b"0-0 2-1\n\n1-0\n"
    (tmp_path / "packed").write_bytes((tmp_path / "links.gz").read_bytes())
    (tmp_path / "bom").write_bytes(b"\xef\xbb\xbf" + content)
    for name in ("links.gz", "packed", "bom"):
        assert read_links(tmp_path / name)[0] == links


def test_a_damaged_file_is_told(tmp_path):
    write_links(tmp_path / "whole.gz", [{(n, n % 7)} for n in range(500)])
    whole = (tmp_path / "whole.gz").read_bytes()
    for damaged in (whole[:-20], whole[:300] + bytes(300) + whole[600:]):
        (tmp_path / "links.gz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"links.gz is damaged \(.*Compress or copy it again"):
            read_links(tmp_path / "links.gz")


@pytest.mark.parametrize("link", [(-1, 0), (0, -1)])
def test_negative_positions_have_no_place(link):
    with pytest.raises(
        ValueError, match=rf"from 0. Received: \({link[0]}, {link[1]}\) in links\[1"
    ):
        links_to_array([{(0, 0)}, {(1, 1), link}], target_length=3, source_length=3)
