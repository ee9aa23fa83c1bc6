"""Long texts are cut before they are read, between characters, and in time."""

import time

import numpy as np
import pytest
import tensorflow as tf
from trained_tokenizers import KINDS, LINES, texts_of, train_tokenizer

from keras_attention.export import tokenizers
from keras_attention.export._byte_truncation import truncate_bytes
from keras_attention.export.tokenizers import base


@pytest.fixture(params=sorted(KINDS))
def tokenizer(request):
    return train_tokenizer(request.param)


def test_long_texts_are_cut_on_request(tokenizer):
    ids, lengths = tokenizer.encode(LINES[:3])
    cut, cut_lengths = tokenizer.encode(LINES[:3], max_length=3)
    assert cut.numpy().tolist() == ids[:, :3].numpy().tolist()
    assert cut_lengths.numpy().tolist() == np.minimum(lengths.numpy(), 3).tolist()


@pytest.mark.parametrize("text", ["a" + "\u0301\u0316" * 500_000, "ab" * 500_000, "a " * 500_000])
def test_a_megabyte_is_cut_before_the_work(tokenizer, text):
    began = time.process_time()
    ids, lengths = tokenizer.encode([text, "der Hund"], 512)
    assert time.process_time() - began < 5  # 20 and 200 seconds before
    assert lengths[0] <= 512 and lengths[1] == tokenizer.encode(["der Hund"])[1][0]


@pytest.mark.parametrize("letter", ["я", "今", "👩"])
def test_a_cut_splits_no_character(tokenizer, letter, monkeypatch):
    monkeypatch.setattr(base, "MIN_BYTES", 16)
    monkeypatch.setattr(base, "BYTES_PER_TOKEN", 1)
    size = len(letter.encode())
    for inside in range(size + 1):  # bytes of the letter within the limit
        beginning = "der Hund " + "d" * (7 - inside)
        whole = beginning + letter * (inside == size)
        ids, length = tokenizer.encode([beginning + letter + "der Hund", whole], 16)
        assert length[0] == length[1] and ids[0].numpy().tolist() == ids[1].numpy().tolist()


def test_the_cut_after_64_kib_adds_no_token():
    words = tokenizers.WordTokenizer(["der", "Hund"])
    text = "der Hund" + " " * (2**16 - 9) + "今"  # one of its three bytes is inside
    ids, length = words.encode([text, "der Hund"], 32)
    assert length.numpy().tolist() == [2, 2] and ids[0].numpy().tolist() == [4, 5]


def test_texts_are_cut_as_python_cuts_them():
    generator = np.random.default_rng(3)
    for limit in (3, 4, 5, 8, 11):
        texts = ["".join(generator.choice(list("aя今👩"), 6)) for _ in range(100)]
        found = texts_of(truncate_bytes(tf.constant(texts), limit))
        assert found == [text.encode()[:limit].decode(errors="ignore") for text in texts]
    broken = tf.constant([b"\x80" * 9, b"abcd\x80\x80", b"abc\xe2\x82(", b"abc\xe2\x82\xac("])
    assert truncate_bytes(broken, 5).numpy().tolist() == [
        b"\x80" * 5,
        b"abcd\x80",
        b"abc\xe2\x82",
        b"abc",
    ]
    assert truncate_bytes(tf.constant([], tf.string), 5).shape == (0,)


@pytest.mark.parametrize(
    "character",
    ["e\u0301", "e\u0323\u0301", "क्षि", "👩‍🚀", "👩🏽‍🚀", "\u1112\u1161\u11ab", "❤\ufe0f"],
)
def test_a_cut_leaves_no_letter_without_its_marks(character):
    size = len(character.encode())
    for inside in range(size):
        text = "ab " + "c" * (10 - inside) + character + " d"
        (found,) = texts_of(truncate_bytes(tf.constant([text]), 13))
        clusters = ["ab " + "c" * (10 - inside)]
        if character == "क्षि" and inside >= 6:  # a consonant after a virama is one more letter
            clusters.append(clusters[0] + "क्")
        assert found in clusters
    (whole,) = texts_of(truncate_bytes(tf.constant(["c" * 3 + character + " d"]), 3 + size))
    assert whole == "c" * 3 + character


def test_a_word_beyond_64_kib_of_spaces_is_whole_or_cut_before_its_last_letter():
    words = tokenizers.WordTokenizer(["a", "b", "café", "cafe"])
    for spaces in range(65_530, 65_537):
        ids, length = words.encode([" " * spaces + "cafe\u0301 a b"], 31)
        assert 7 not in ids.numpy()[0, : length[0]]  # "cafe" stands nowhere in the text


def test_marks_without_end_are_cut_in_time():
    text = "a" + "\u0301" * 2**17
    (found,) = texts_of(truncate_bytes(tf.constant([text]), 2**16))
    assert 2**16 - 512 <= len(found.encode()) <= 2**16 and text.startswith(found)


@pytest.mark.parametrize("max_length", [2**25, 2**31, 10**12])
def test_a_limit_beyond_what_can_be_counted_is_none(tokenizer, max_length):
    ids, length = tokenizer.encode(["der Hund", ""], max_length)
    expected, expected_length = tokenizer.encode(["der Hund", ""])
    assert np.array_equal(ids, expected) and np.array_equal(length, expected_length)


def test_a_letter_keeps_thirty_marks():
    read = tokenizers.train("characters", ["a\u0301\u0316"]).normalize
    for marks, kept in ((29, 29), (30, 30), (31, 30), (300, 30)):
        (found,) = texts_of(read(tf.constant(["x" + "\u0316" * marks + "y"])))
        assert found == "x" + "\u0316" * kept + "y"
