import gzip

import pytest

from examples.data import texts
from examples.data.report import DataError
from keras_attention.export.tokenizers import WordTokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return WordTokenizer(["a", "dog", "runs", "."])


def test_lines_are_read_without_blank_ones(tmp_path):
    path = tmp_path / "texts.gz"
    path.write_bytes(gzip.compress("a dog\r\n\n  \n ein Vögelchen . \nlast".encode()))
    assert texts.read_texts(path) == ["a dog", "ein Vögelchen .", "last"]
    assert texts.read_texts(path, 2) == ["a dog", "ein Vögelchen ."]


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"a\nb\xff\n", "texts:2: expected UTF-8"), (b"\n \n", "holds no text"), (b"", "is empty")],
)
def test_a_file_that_is_no_text_is_refused_by_name(tmp_path, content, told):
    (tmp_path / "texts").write_bytes(content)
    with pytest.raises(DataError, match=told):
        texts.read_texts(tmp_path / "texts")


def test_every_token_and_the_end_is_predicted_from_those_before(tokenizer):
    lines = ["a dog runs .", "dog", "a cat .", "a dog runs runs runs runs ."]
    groups, places, length = texts.encode_texts(lines, tokenizer, 5, max_shapes=2, batch_size=2)
    found = {
        int(place): (ids[ids > 0].tolist(), target[target > 0].tolist())
        for (inputs, labels), rows in zip(groups, places, strict=True)
        for place, ids, target in zip(rows, inputs["ids"], labels["logits"], strict=True)
    }
    assert found == {
        0: ([2, 4, 5, 6, 7], [4, 5, 6, 7, 3]),
        1: ([2, 5], [5, 3]),
        2: ([2, 4, 1, 7], [4, 1, 7, 3]),
        # Five tokens are read of seven, and an end that is none is not learned.
        3: ([2, 4, 5, 6, 6], [4, 5, 6, 6, 6]),
    }
    assert length == texts.Length(texts=4, tokens=4 + 1 + 3 + 7, cut_texts=1, cut_tokens=2)
    assert str(length) == "4 lines of 15 tokens, 13.3 % of them cut off, from 1 lines"


def test_a_line_of_just_as_many_tokens_as_are_read_has_its_end(tokenizer):
    groups, _, length = texts.encode_texts(
        ["a dog runs ."], tokenizer, 4, max_shapes=1, batch_size=1
    )
    assert groups[0][1]["logits"].tolist() == [[4, 5, 6, 7, 3]]
    assert (length.tokens, length.cut_texts, length.cut_tokens) == (4, 0, 0)
