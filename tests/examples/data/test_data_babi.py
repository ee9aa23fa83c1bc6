import gzip
import io
import random
import tarfile

import pytest
from data_folder import DATA as DATA_FOLDER

from examples.data.babi import Question, parse, read_questions, split
from examples.data.report import DataError

DATA = DATA_FOLDER / "babi"
STORY = """\
1 Ann is in the park.
2 Bob left.
3 Where is Ann?\tpark\t1
4 Ann went home.
5 Where is Ann? \thome\t4
1 Cy sleeps.
2 Who sleeps and where?\tcy,home\t1
"""


def questions(text):
    return list(parse(text.encode(), "mine.txt", "7"))


def archive(path, folder="tasks/en", **files):
    archive_of(path, {f"{folder}/{name}.txt": text for name, text in files.items()})


def archive_of(path, files):
    with tarfile.open(path, f"w:{path.suffix[1:]}") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))


def test_a_question_knows_the_sentences_before_it_and_those_it_needs():
    first, second, third = questions(STORY)
    told = ("Ann is in the park.", "Bob left.", "Ann went home.")
    assert first == Question("7", 0, told[:2], "Where is Ann?", "park", (0,))
    # Line 3 was a question: sentence 4 of the file is the third that was told.
    assert second == Question("7", 0, told, "Where is Ann?", "home", (2,))
    assert third == Question("7", 1, ("Cy sleeps.",), "Who sleeps and where?", "cy,home", (0,))


def test_line_ends_and_a_byte_order_mark_do_no_harm():
    assert questions("\ufeff" + STORY.replace("\n", "\r\n") + "\r\n") == questions(STORY)


def test_supporting_sentences_may_be_left_out():
    (question,) = questions("1 It rains.\n2 Is it dry?\tno\n")
    assert question.support == ()


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("2 It rains.\n", 1, "the number 1"),
        ("1 It rains.\n3 It snows.\n", 2, "the number 2, or 1 for a new story"),
        ("It rains.\n", 1, "the number 1"),
        ("1 It rains.\n\n2 Is it dry?\tno\n", 2, "the number 2"),
        ("1\n", 1, "a sentence after the number"),
        ("1 Is it dry?\tno\n", 1, "a sentence before the first question"),
        ("1 It rains.\n2 Is it dry?\tnot now\t1\n", 2, "the answer one word"),
        ("1 It rains.\n2 Is it dry?\t\t1\n", 2, "the answer one word"),
        ("1 It rains.\n2 Is it dry?\tno\t1\tyes\n", 2, "question<TAB>answer"),
        ("1 It rains.\n2 Is it dry?\tno\tone\n", 2, "numbers of sentences"),
        ("1 It rains.\n2 Is it dry?\tno\t2\n", 2, "sentences that stand before"),
        ("1 It rains.\n2 It snows.\n1 It is dry.\n2 Is it?\tyes\n", 2, "a question about the"),
        ("1 It rains.\n2 Is it?\tyes\n1 It is dry.\n2 Is it\n", 4, "a question about the story"),
    ],
)
def test_a_malformed_line_is_refused_with_its_name_and_what_was_expected(text, line, expected):
    with pytest.raises(DataError, match=rf"^mine\.txt:{line}: expected ") as refused:
        questions(text)
    assert expected in str(refused.value)
    assert "Received: " in str(refused.value)


def test_a_file_that_is_not_utf_8_or_empty_is_refused():
    with pytest.raises(DataError, match="mine.txt:2: expected UTF-8"):
        list(parse(b"1 It rains.\n2 \xff\n", "mine.txt", "7"))
    for text in ("\n", "1 It rains.\n"):
        with pytest.raises(DataError, match="mine.txt: expected stories with questions"):
            questions(text)


def test_a_file_may_be_gzip_and_one_that_is_damaged_or_utf_16_is_told(tmp_path):
    plain, packed = tmp_path / "qa2_two_train.txt", tmp_path / "qa2_two_train.txt.gz"
    plain.write_text(STORY)
    packed.write_bytes(gzip.compress(STORY.encode()))
    assert read_questions([packed], "train") == read_questions([plain], "train")
    plain.write_text(STORY, encoding="utf-16")
    with pytest.raises(DataError, match=r"qa2_two_train\.txt is UTF-16\. Convert it"):
        read_questions([plain], "train")
    drawn = "".join(random.Random(1).choices("abcdefgh ", k=20_000))
    packed.write_bytes(gzip.compress(f"1 {drawn}.\n2 Is it dry?\tno\t1\n".encode())[:-200])
    with pytest.raises(DataError, match=r"qa2_two_train\.txt\.gz is damaged after line"):
        read_questions([packed], "train")


def test_folder_archive_and_file_give_the_same_questions(tmp_path):
    folder = tmp_path / "tasks" / "en"
    folder.mkdir(parents=True)
    (folder / "qa2_two_train.txt").write_text(STORY)
    (folder / "qa10_ten_train.txt").write_text(STORY)
    (folder / "qa2_two_test.txt").write_text("1 It rains.\n2 Is it dry?\tno\t1\n")
    (folder / "README.txt").write_text("not a task")
    archive(tmp_path / "all.tar.xz", qa2_two_train=STORY, qa10_ten_train=STORY, other=STORY)
    of_folder = read_questions([tmp_path / "tasks"], "train")
    assert [question.task for question in of_folder] == ["2"] * 3 + ["10"] * 3  # by number
    assert read_questions([tmp_path / "all.tar.xz"], "train") == of_folder
    assert read_questions([folder / "qa2_two_train.txt"], "train") == of_folder[:3]
    assert read_questions([folder], "train", "10") == of_folder[3:]
    assert [question.answer for question in read_questions([folder], "test")] == ["no"]
    with pytest.raises(DataError, match=r"a train file of task 3.* found those of 2, 10\."):
        read_questions([folder], "train", "3")
    with pytest.raises(DataError, match="missing: No such file"):
        read_questions([tmp_path / "missing"], "train")


def test_a_task_in_several_folders_is_refused_until_one_is_named(tmp_path):
    # The official archive has en, en-10k, hn, ...: all of them at once are no data set.
    hindi = STORY.replace("Ann", "Sita")
    files = {
        "tasks/en/qa1_one_train.txt": STORY,
        "tasks/en-10k/qa1_one_train.txt": STORY,
        "tasks/hn/qa1_one_train.txt": hindi,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    path = tmp_path / "all.tar.gz"
    archive_of(path, files)
    with pytest.raises(DataError) as refused:
        read_questions([tmp_path / "tasks"], "train")
    folders = ", ".join(str(tmp_path / "tasks" / name) for name in ("en", "en-10k", "hn"))
    assert f"The train file of task 1 lies in 3 folders: {folders}." in str(refused.value)
    with pytest.raises(DataError, match=r"all\.tar\.gz:tasks/en, .*all\.tar\.gz:tasks/hn\."):
        read_questions([path], "train")
    english = read_questions([tmp_path / "tasks" / "en"], "train")
    for name in ("en", "tasks/en", "tasks/en/"):
        assert read_questions([f"{path}:{name}"], "train") == english
    assert read_questions([f"{path}:hn"], "train")[0].question == "Where is Sita?"
    with pytest.raises(DataError, match=r"expected a folder fr .* tasks/en, tasks/en-10k, tasks"):
        read_questions([f"{path}:fr"], "train")
    with pytest.raises(DataError, match="No such file"):
        read_questions([f"{tmp_path / 'none.tar.gz'}:en"], "train")


@pytest.mark.parametrize("suffix", ["tar.xz", "tar.gz"])
@pytest.mark.parametrize("share", [0.4, 0.9])
def test_an_archive_that_is_cut_off_is_refused(suffix, share, tmp_path):
    drawn = "".join(random.Random(1).choices("abcdefgh ", k=20_000))
    story = f"1 {drawn}.\n2 Is it dry?\tno\t1\n"
    archive(tmp_path / f"whole.{suffix}", qa1_one_train=story, qa2_two_train=story[::-1])
    content = (tmp_path / f"whole.{suffix}").read_bytes()
    (tmp_path / f"cut.{suffix}").write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=f"cut.{suffix}"):
        read_questions([tmp_path / f"cut.{suffix}"], "train")


def test_every_tenth_story_of_each_task_is_held_out_whole():
    told = [
        Question(task, story, ("It rains.",), f"Is it dry {number}?", "no")
        for task in ("1", "2")
        for story in range(23)
        for number in range(3)
    ]
    training, dev = split(told)
    assert {(question.task, question.story) for question in dev} == {
        (task, story) for task in ("1", "2") for story in (9, 19)
    }
    assert len(dev) == 12
    assert sorted(training + dev, key=told.index) == told


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the bAbI tasks are not in {DATA}")
def test_the_twenty_tasks_are_read_whole():
    path = DATA / "babi_en_1k.tar.xz"
    found = {part: read_questions([path], part) for part in ("train", "test")}
    for part in found.values():
        assert list(dict.fromkeys(question.task for question in part)) == [
            str(task) for task in range(1, 21)
        ]
        assert all(len(question.support) for question in part)
    assert (len(found["train"]), len(found["test"])) == (20000, 20000)
    training, dev = split(found["train"])
    assert len(dev) == pytest.approx(2000, abs=25)
    assert {question.task for question in dev} == {str(task) for task in range(1, 21)}
