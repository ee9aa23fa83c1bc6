"""Documents as they are read, cut and batched; what a malformed file is told; naive Bayes."""

import gzip
import json

import numpy as np
import pytest
from data_folder import DATA

from examples.data.classification import Document, read_documents, split_sentences
from examples.data.classification_encoding import Length, encode_documents
from examples.data.report import DataError
from examples.data.rows import RowBatches
from examples.models import naive_bayes
from keras_attention.export.tokenizers import WordTokenizer

REVIEWS = DATA / "movie_reviews" / "movie_reviews.folds0-8.jsonl.gz"
GOOD = {"id": "a", "fold": 3, "label": "pos", "sentences": ["a good film .", "", "see it ."]}


@pytest.fixture
def write_documents(tmp_path):
    """A function that writes lines, objects or bytes, and returns the path."""

    def write(*lines):
        lines = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
        path = tmp_path / "documents.jsonl"
        path.write_bytes(b"\n".join(lines) + b"\n")
        return path

    return write


def test_documents_are_read_in_order_without_empty_sentences_and_lines(write_documents, tmp_path):
    path = write_documents(GOOD, b"", {"label": "né", "sentences": ["Ça va"], "more": 1})
    expected = [
        Document("a", "pos", ("a good film .", "see it ."), 3),
        Document("line 3", "né", ("Ça va",), None),
    ]
    assert read_documents(path) == expected
    zipped = tmp_path / "documents.jsonl.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert read_documents(zipped) == expected


def test_folds_are_chosen(write_documents):
    path = write_documents(*({**GOOD, "id": f"{n}", "fold": n % 5} for n in range(10)))
    assert [document.name for document in read_documents(path, [1, 4])] == ["1", "4", "6", "9"]
    with pytest.raises(DataError, match="no document of fold 7. It has the folds 0, 1, 2, 3, 4"):
        read_documents(path, [1, 7])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"label": "\xff"}', r"not UTF-8 \(byte 12 is 0xff\)"),
        ([1], "expected a JSON object"),
        ({"sentences": ["a"]}, "expected `label` to be a text.*Received: null"),
        ({**GOOD, "label": 1}, "expected `label` to be a text.*Received: 1"),
        ({**GOOD, "label": " "}, "expected `label` to be a text"),
        ({**GOOD, "sentences": "a good film"}, "expected `sentences` to be a list of texts"),
        ({**GOOD, "sentences": ["a", 1]}, "expected `sentences` to be a list of texts"),
        ({**GOOD, "sentences": [" "]}, "expected at least one sentence that is not empty"),
        ({**GOOD, "sentences": ["\ud800 x"]}, "expected texts of Unicode characters"),
        ({**GOOD, "fold": "3"}, "expected `fold` to be a whole number"),
        ({**GOOD, "fold": True}, "expected `fold` to be a whole number"),
    ],
)
def test_a_malformed_line_is_told_by_file_and_number(write_documents, line, told):
    path = write_documents(GOOD, line, GOOD)
    with pytest.raises(DataError, match=rf"documents\.jsonl:2: {told}") as raised:
        read_documents(path)
    assert len(str(raised.value)) < 400


def test_a_file_without_documents_is_refused(write_documents, tmp_path):
    with pytest.raises(DataError, match="holds no document"):
        read_documents(write_documents(b"", b" "))
    with pytest.raises(DataError, match="does not exist"):
        read_documents(tmp_path / "missing.jsonl")


def test_a_text_is_split_where_a_mark_stands_alone():
    assert split_sentences("a 3.5 hour film . why ?\nwell\n\n") == (
        "a 3.5 hour film .",
        "why ?",
        "well",
    )
    assert split_sentences(" \n") == ()


TOKENIZER = WordTokenizer(["good", "film", "."])
FILM = Document("1", "pos", ("good film .", "see it", ".", "good good good good ."))


def test_what_is_beyond_the_limits_is_cut_and_counted():
    short = Document("2", "neg", ("film",))
    groups, places, length = encode_documents(
        [FILM, short], TOKENIZER, ["neg", "pos"], 3, 2, num_buckets=2, batch_size=1
    )
    assert [rows.tolist() for rows in places] == [[1], [0]]
    assert [inputs["sentences"].tolist() for inputs, *_ in groups] == [
        [[[5]]],
        [[[4, 5], [1, 1], [6, 0]]],
    ]
    assert [labels["logits"].tolist() for _, labels, _ in groups] == [[0], [1]]
    ((_, labels, weights),), *_ = encode_documents([FILM], TOKENIZER, ["neg"], 3, 2, 1, 2)
    assert (labels["logits"].tolist(), weights.tolist()) == ([0], [0])  # not measured: no class
    assert length == Length(documents=2, words=12, cut_documents=1, cut_words=6)
    assert str(length) == "2 documents of 12 words, 50.0 % of them cut off, from 1 documents"


def some_documents(count, seed=1):
    """Documents of one word, the same in all places, with other numbers of sentences and words."""
    random = np.random.default_rng(seed)
    for number in range(count):
        sentences, words = random.integers(1, 6, 2) * (3, 1)
        yield Document(
            f"{number}", f"{number % 3}", (" ".join([f"w{number:02}"] * words),) * sentences
        )


def encode(count, num_buckets=3):
    """Groups of documents, the only word of each of which is its number + 4."""
    words = WordTokenizer([f"w{number:02}" for number in range(count)])
    documents = list(some_documents(count))
    return encode_documents(documents, words, ["0", "1", "2"], 99, 99, num_buckets, 5)


def in_epoch(batches, epoch, start=0):
    """The documents of an epoch, batch by batch."""
    found = []
    for inputs, labels, weights in batches.epoch(epoch, start):
        ids, labels = inputs["sentences"].numpy(), labels["logits"].numpy()
        assert (ids.shape,) in batches.shapes()
        numbers = ids.max(axis=(1, 2)) - 4
        np.testing.assert_array_equal(labels, np.where(numbers >= 0, numbers % 3, 0))
        np.testing.assert_array_equal(weights, numbers >= 0)
        found.append([number for number in numbers if number >= 0])
    return found


def test_every_document_comes_once_in_an_order_that_a_run_can_take_up_again():
    groups, _, _ = encode(37)
    batches = RowBatches(groups, batch_size=5, seed=11, drop_remainder=False)
    first = in_epoch(batches, 0)
    assert len(first) == batches.batches_per_epoch() == sum(-(-len(g[2]) // 5) for g in groups)
    assert len(batches.shapes()) <= 3
    assert sorted(sum(first, [])) == list(range(37))
    assert in_epoch(batches, 1) != first
    again = RowBatches(groups, batch_size=5, seed=11, drop_remainder=False)
    assert in_epoch(again, 0, start=4) == first[4:]
    other = RowBatches(groups, batch_size=5, seed=12, drop_remainder=False)
    assert in_epoch(other, 0) != first


def test_documents_are_padded_and_nothing_of_them_is_lost():
    documents = list(some_documents(17))
    groups, places, _ = encode(17, num_buckets=2)
    assert sorted(np.concatenate(places).tolist()) == list(range(17))
    for (inputs, _, _), rows in zip(groups, places, strict=True):
        for ids, row in zip(inputs["sentences"], rows, strict=True):
            sentences = documents[row].sentences
            words = len(sentences[0].split())
            np.testing.assert_array_equal(ids[: len(sentences), :words], row + 4)
            assert (ids > 0).sum() == len(sentences) * words


def test_the_digest_tells_other_data():
    documents = [Document("1", "a", ("x x", "x x", "x x")), Document("2", "b", ("x x x",) * 2)]
    digests = []
    for document in (*documents, documents[0]):  # the same ids in other sentences
        groups, *_ = encode_documents([document], WordTokenizer(["x"]), ["a", "b"], 9, 9, 1, 1)
        digests.append(RowBatches([group[:1] for group in groups], 1).digest())
    assert digests[0] == digests[2] != digests[1]


def test_naive_bayes_by_hand():
    films = [
        Document("1", "pos", ("good good film",)),
        Document("2", "pos", ("good cast",)),
        Document("3", "neg", ("bad film",)),
    ]
    # 4 words. "good film" is pos with 2/3 * 3/8 * 2/8 = 1/16, neg with 1/3 * 1/6 * 2/6 = 1/54;
    # "bad film" is pos with 2/3 * 1/8 * 2/8 = 1/48, neg with 1/3 * 2/6 * 2/6 = 1/27.
    classify = naive_bayes.train(films)
    assert classify(Document("4", "", ("good film",))) == "pos"
    assert classify(Document("5", "", ("bad film bad",))) == "neg"
    assert classify(Document("6", "", ("unseen words",))) == "pos"  # the prior alone
    assert naive_bayes.accuracy(classify, films) == 1


@pytest.mark.skipif(not REVIEWS.exists(), reason=f"{REVIEWS} is not there")
def test_the_movie_reviews_are_read_and_naive_bayes_has_its_known_accuracy():
    documents = read_documents(REVIEWS)
    assert len(documents) == 1800
    test = [document for document in documents if document.fold == 8]
    training = [document for document in documents if document.fold < 8]
    assert [sum(d.label == name for d in test) for name in ("pos", "neg")] == [100, 100]
    # data/README.md: 79.0 % on the presence of words, trained on folds 0 to 7.
    assert naive_bayes.accuracy(naive_bayes.train(training), test) == pytest.approx(0.79)
