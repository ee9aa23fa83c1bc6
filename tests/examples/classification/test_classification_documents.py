"""Documents as they are read, cut and batched; what a malformed file is told; naive Bayes."""

import gzip
import json

import numpy as np
import pytest
from data_folder import DATA

from examples.classification import naive_bayes
from examples.classification.batches import DocumentBatches, Encoded, encode_documents
from examples.classification.documents import Document, read_documents, split_sentences
from examples.data.report import DataError
from keras_attention.export.tokenizers import WordTokenizer

REVIEWS = DATA / "movie_reviews" / "movie_reviews.folds0-8.jsonl.gz"
GOOD = {"id": "a", "fold": 3, "label": "pos", "sentences": ["a good film .", "", "see it ."]}


@pytest.fixture
def written(tmp_path):
    """A function that writes lines, objects or bytes, and returns the path."""

    def write(*lines):
        lines = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
        path = tmp_path / "documents.jsonl"
        path.write_bytes(b"\n".join(lines) + b"\n")
        return path

    return write


def test_documents_are_read_in_order_without_empty_sentences_and_lines(written, tmp_path):
    path = written(GOOD, b"", {"label": "né", "sentences": ["Ça va"], "more": 1})
    expected = [
        Document("a", "pos", ("a good film .", "see it ."), 3),
        Document("line 3", "né", ("Ça va",), None),
    ]
    assert read_documents(path) == expected
    zipped = tmp_path / "documents.jsonl.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert read_documents(zipped) == expected


def test_folds_are_chosen(written):
    path = written(*({**GOOD, "id": f"{n}", "fold": n % 5} for n in range(10)))
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
def test_a_malformed_line_is_told_by_file_and_number(written, line, told):
    path = written(GOOD, line, GOOD)
    with pytest.raises(DataError, match=rf"documents\.jsonl:2: {told}") as raised:
        read_documents(path)
    assert len(str(raised.value)) < 400


def test_a_file_without_documents_is_refused(written, tmp_path):
    with pytest.raises(DataError, match="holds no document"):
        read_documents(written(b"", b" "))
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
    encoded = encode_documents([FILM, short], TOKENIZER, ["neg", "pos"], 3, 2)
    assert encoded.ids[0].tolist() == [[4, 5], [1, 1], [6, 0]]
    assert encoded.ids[1].tolist() == [[5]]
    assert encoded.labels.tolist() == [1, 0]
    unlabeled = encode_documents([FILM], TOKENIZER, ["neg"], 3, 2)
    (_, _, weights, _), *_ = DocumentBatches(unlabeled, batch_size=2).in_order()
    assert weights.tolist() == [0, 0]  # what has no class is not measured
    assert (encoded.words, encoded.kept, encoded.cut) == (12, 6, 1)
    assert str(encoded) == "2 documents of 12 words, 50.0 % of them cut off, from 1 documents"


def some_documents(count, seed=1):
    random = np.random.default_rng(seed)
    ids = [
        np.full(random.integers(1, 6, 2) * (3, 1), number + 1, np.int32) for number in range(count)
    ]
    return Encoded(ids, np.arange(count, dtype=np.int32) % 3, 0, 1, 0)


def in_epoch(batches, epoch, start=0):
    """The documents of an epoch, batch by batch: all ids of a document are its number + 1."""
    found = []
    for inputs, labels, weights in batches.epoch(epoch, start):
        ids, labels = inputs["sentences"].numpy(), labels["logits"].numpy()
        assert ids.shape in batches.shapes()
        numbers = ids.max(axis=(1, 2))
        np.testing.assert_array_equal(labels, np.where(numbers > 0, (numbers - 1) % 3, 0))
        np.testing.assert_array_equal(weights, numbers > 0)
        found.append([number - 1 for number in numbers if number])
    return found


def test_every_document_comes_once_in_an_order_that_a_run_can_take_up_again():
    encoded = some_documents(37)
    batches = DocumentBatches(encoded, batch_size=5, max_shapes=3, seed=11)
    first = in_epoch(batches, 0)
    assert len(first) == batches.batches_per_epoch()
    assert len(batches.shapes()) <= 3
    assert sorted(sum(first, [])) == list(range(37))
    assert in_epoch(batches, 1) != first
    again = DocumentBatches(encoded, batch_size=5, max_shapes=3, seed=11)
    assert in_epoch(again, 0, start=4) == first[4:]
    assert in_epoch(DocumentBatches(encoded, batch_size=5, max_shapes=3, seed=12), 0) != first


def test_documents_are_padded_and_nothing_of_them_is_lost():
    encoded = some_documents(17)
    batches = DocumentBatches(encoded, batch_size=5, max_shapes=2)
    seen = []
    for ids, labels, weights, rows in batches.in_order():
        assert not ids[len(rows) :].any() and not labels[len(rows) :].any()
        assert weights.tolist() == [1.0] * len(rows) + [0.0] * (5 - len(rows))
        for line, row in zip(ids, rows, strict=False):
            sentences, words = encoded.ids[row].shape
            np.testing.assert_array_equal(line[:sentences, :words], encoded.ids[row])
            assert (line > 0).sum() == sentences * words
        seen += rows.tolist()
    assert sorted(seen) == list(range(17))


def test_the_digest_tells_other_data():
    one, other = some_documents(5), some_documents(5)
    assert DocumentBatches(one).digest() == DocumentBatches(other).digest()
    other.ids[3] = other.ids[3].reshape(1, -1)  # the same ids in other sentences
    assert DocumentBatches(one).digest() != DocumentBatches(other).digest()


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
