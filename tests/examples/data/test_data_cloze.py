import gzip

import pytest
from data_folder import DATA as DATA_FOLDER

from examples.data.cloze import ClozeQuestion, ask_every_candidate, parse, read_cloze
from examples.data.report import DataError

DATA = DATA_FOLDER / "cloze_en"
TEXT = """\
1 She saw Ann and Bob .
2 Ann ran .
3 Then XXXXX came .\tBob\t\tAnn|Bob|Cy

1 Cy sat .
2 " XXXXX ! "\tCy\tAnn|Cy

"""


def test_questions_have_their_sentences_and_candidates():
    first, second = parse(TEXT.split("\n"), "cloze.txt")
    told = ("She saw Ann and Bob .", "Ann ran .")
    assert first == ClozeQuestion(told, "Then XXXXX came .", ("Ann", "Bob", "Cy"), "Bob")
    assert first.document == "She saw Ann and Bob . Ann ran ."
    assert (second.query, second.answer) == ('" XXXXX ! "', "Cy")


def test_every_candidate_that_could_be_an_answer_is_asked_for():
    told, candidates = ("Ann , Bob and Dan sat .",), ("Ann", "Bob", "Cy", "Dan", "Eve")
    question = ClozeQuestion(told, "Bob , Cy , Dan , XXXXX and Dan ran .", candidates, "Ann")
    first, second = ask_every_candidate(question)  # Cy was not told of, Dan comes twice
    assert first == question
    assert (second.query, second.answer) == ("XXXXX , Cy , Dan , Ann and Dan ran .", "Bob")
    assert (second.sentences, second.candidates) == (told, candidates)


def test_plain_and_gzipped_files_are_read_up_to_a_limit(tmp_path):
    (tmp_path / "plain").write_bytes(TEXT.replace("\n", "\r\n").encode())
    (tmp_path / "zipped").write_bytes(gzip.compress(TEXT.encode()))
    assert read_cloze(tmp_path / "plain") == read_cloze(tmp_path / "zipped")
    assert len(read_cloze(tmp_path / "plain", limit=1)) == 1


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("2 Ann .", 1, "the number 1"),
        ("1 Ann .\n3 Bob .", 2, "the number 2"),
        ("1 Ann .\n2", 2, "the number 2, a space and a sentence"),
        ("1 XXXXX .\tAnn\t\tAnn|Bob", 1, "sentences before the one with a gap"),
        ("1 Ann .\n2 No gap .\tAnn\t\tAnn|Bob", 2, "sentence with one XXXXX"),
        ("1 Ann .\n2 XXXXX .\tAnn", 2, "candidate|candidate"),
        ("1 Ann .\n2 XXXXX .\tCy\t\tAnn|Bob", 2, "the answer 'Cy' among the candidates"),
        ("1 Ann .\n2 XXXXX .\tAnn\t\tAnn||Ann", 2, "two or more different candidates"),
        ("1 Ann .\n2 XXXXX .\tAnn\t\tAnn|Bob Dylan", 2, "of one word each"),
        ("1 Ann .\n2 XXXXX .\tAnn\t\tAnn|Bob\n3 Bob .", 3, "an empty line after a question"),
        ("1 Ann .\n\n1 Bob .", 2, "a sentence with a gap before the empty line"),
        ("1 Ann .", 1, "a sentence with a gap at the end"),
    ],
)
def test_a_malformed_line_is_refused_with_its_name_and_what_was_expected(
    text, line, expected, tmp_path
):
    (tmp_path / "cloze.txt").write_text(text)
    with pytest.raises(DataError, match=rf"cloze\.txt:{line}: expected ") as refused:
        read_cloze(tmp_path / "cloze.txt")
    assert expected in str(refused.value)


def test_candidates_that_are_empty_or_come_twice_count_once():
    (question,) = parse(["1 Ann .", "2 XXXXX .\tAnn\t\tAnn||Bob|Ann| |Cy|"], "cloze.txt")
    assert question.candidates == ("Ann", "Bob", "Cy")


def test_files_that_cannot_be_read_are_refused(tmp_path):
    for content, told in (
        (b"\n", "there is none"),
        (b"1 Ann .\n2 \xff\n", "bad:2: expected UTF-8"),
        (gzip.compress(TEXT.encode())[:40], "damaged after line"),
    ):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(DataError, match=told):
            read_cloze(tmp_path / "bad")
    with pytest.raises(DataError, match="does not exist"):
        read_cloze(tmp_path / "missing")


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the cloze questions are not in {DATA}")
def test_the_questions_about_books_are_read_whole():
    found = read_cloze(DATA / "books_ne.valid.txt.gz")
    assert len(found) == 1325
    assert {(len(q.sentences), len(q.candidates)) for q in found} == {(20, 10)}
    assert all(q.answer in q.document.split() for q in found)
