"""Tokenizers: ids and back, in the graph, for every kind and for hostile text."""

import doctest
import gc
import importlib
import time
import unicodedata

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf

from keras_attention.export import tokenizers
from keras_attention.export._text_truncation import truncate_bytes
from keras_attention.export.tokenizers import base

LINES = [
    "ein Mann läuft schnell .",
    "der Hund läuft .",
    "<de-DE> 3.4.2005",
    "Tag der Männer und Hunde",
    "мама мыла раму",
    "今日は\\n良い天気",
] * 10
SYMBOLS = ["<de-DE>", "<de>"]
HOSTILE = [
    "",
    " ",
    "\x00",
    "der\x00Hund",
    b"\xff\xfeder\xe4\xbd",
    b"\xed\xa0\x80",  # a lone surrogate
    "👩‍🚀🏳️‍🌈",
    "</s> <unk> <s> <pad>",
    "\u2581\u2581der\u2581Hund",
    "\u202eder\u200f",
    "<de-DE><de><de-D",
]
KINDS = {
    "characters": {"kind": "characters"},
    "words": {"kind": "words"},
    "wordpiece": {"kind": "wordpiece", "vocabulary_size": 139},
    "unigram": {"kind": "sentencepiece", "vocabulary_size": 73},
    "bpe": {"kind": "sentencepiece", "vocabulary_size": 73, "model_type": "bpe"},
}
_trained = {}


@pytest.fixture(params=sorted(KINDS))
def tokenizer(request):
    if request.param not in _trained:
        _trained[request.param] = tokenizers.train(
            texts=LINES, symbols=SYMBOLS, **KINDS[request.param]
        )
    return _trained[request.param]


def texts_of(tensor):
    return [text.decode("utf-8", errors="strict") for text in tensor.numpy()]


def test_known_text_comes_back(tokenizer):
    ids, lengths = tokenizer.encode(LINES[:6])
    assert texts_of(tokenizer.decode(ids)) == LINES[:6]
    assert ids.dtype == lengths.dtype == tf.int32
    assert ids.shape[1] == max(lengths)
    padding = np.arange(ids.shape[1])[None] >= lengths.numpy()[:, None]
    assert ((ids.numpy() == 0) == padding).all()
    assert ids.numpy()[~padding].min() >= 4
    assert ids.numpy().max() < tokenizer.vocabulary_size


def test_composed_and_decomposed_letters_are_the_same(tokenizer):
    decomposed = unicodedata.normalize("NFD", LINES[0])
    assert decomposed != LINES[0]
    ids, _ = tokenizer.encode([LINES[0], decomposed])
    assert (ids[0].numpy() == ids[1].numpy()).all()


def test_symbols_are_one_token_the_longer_first(tokenizer):
    ids, lengths = tokenizer.encode(["<de-DE>", "<de>"])
    marked = tokenizer.kind == "sentencepiece"  # which puts a word mark before the first word
    assert lengths.numpy().tolist() == [1 + marked, 1 + marked]
    assert texts_of(tokenizer.ids_to_tokens(ids[:, -1])) == SYMBOLS


def test_hostile_text_has_a_defined_answer(tokenizer):
    ids, lengths = tokenizer.encode(tf.constant(HOSTILE))
    assert lengths[0] == 0
    assert not np.isin(ids.numpy(), [2, 3]).any()
    back = texts_of(tokenizer.decode(ids))
    # An unknown character takes the word with it, or begins one, or stays where it is.
    expected = {"words": "\ufffd", "wordpiece": "der \ufffdHund"}
    assert back[3] == expected.get(tokenizer.kind, "der\ufffdHund")
    # A row's ids do not depend on the rows beside it.
    for row, text in enumerate(HOSTILE):
        alone, length = tokenizer.encode(tf.constant([text]))
        assert alone.numpy()[0].tolist() == ids.numpy()[row, : length.numpy()[0]].tolist()


def test_one_replacement_character_for_each_broken_sequence():
    tokenizer = tokenizers.CharacterTokenizer(["a", "b"])
    ids, lengths = tokenizer.encode(tf.constant([b"a\xffb", b"\xe4\xbda", b"a\x00b"]))
    assert lengths.numpy().tolist() == [3, 2, 3]
    assert ids.numpy().tolist() == [[4, 1, 5], [1, 4, 0], [4, 1, 5]]


def test_no_rows_and_no_columns(tokenizer):
    ids, lengths = tokenizer.encode(tf.zeros([0], tf.string))
    assert ids.shape == (0, 0) and lengths.shape == (0,)
    assert tokenizer.decode(ids).shape == (0,)
    assert tokenizer.ids_to_tokens(ids).shape == (0, 0)
    assert texts_of(tokenizer.decode(tf.zeros([3, 0], tf.int32))) == ["", "", ""]


def test_decode_stops_at_the_end_and_survives_foreign_ids(tokenizer):
    first, second = tokenizer.encode(["der Hund"])[0].numpy()[0, :2].tolist()
    size = tokenizer.vocabulary_size
    plain = texts_of(tokenizer.decode([[first, second]]))[0]
    ids = [[2, first, 0, second, 3, first, 3], [first, second, 3, size, -1, 10**9, 3]]
    assert texts_of(tokenizer.decode(ids)) == [plain, plain]
    assert texts_of(tokenizer.decode([[size], [-1], [1]]))[0].strip() == "\ufffd"
    assert len(set(texts_of(tokenizer.decode([[size], [-1], [1]])))) == 1


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


def test_tokens_name_the_special_ids(tokenizer):
    tokens = tokenizer.ids_to_tokens([[0, 1], [2, 3], [tokenizer.vocabulary_size, -7]])
    expected = [[b"", b"<unk>"], [b"<s>", b"</s>"], [b"<unk>", b"<unk>"]]
    assert tokens.numpy().tolist() == expected


@pytest.mark.thorough
def test_same_ids_in_function_and_dataset(tokenizer):
    expected, _ = tokenizer.encode(LINES[:6])
    in_function = tf.function(tokenizer.encode)(tf.constant(LINES[:6]))[0]
    assert (in_function.numpy() == expected.numpy()).all()
    dataset = tf.data.Dataset.from_tensor_slices(LINES[:6]).batch(6).map(tokenizer.encode)
    in_dataset, _ = next(iter(dataset))
    assert (in_dataset.numpy() == expected.numpy()).all()


def test_save_and_load(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "a")
    loaded = tokenizers.load(tmp_path / "a")
    loaded.save(tmp_path / "b")
    for name in ("tokenizer.json", tokenizer.file_name):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    texts = tf.constant(LINES[:6] + HOSTILE)
    assert (loaded.encode(texts)[0].numpy() == tokenizer.encode(texts)[0].numpy()).all()


def test_training_is_deterministic(tokenizer):
    kind = next(k for k, t in _trained.items() if t is tokenizer)
    again = tokenizers.train(texts=LINES, symbols=SYMBOLS, **KINDS[kind])
    assert again.get_content() == tokenizer.get_content()


@pytest.mark.thorough
def test_module_attribute_travels_in_a_saved_model(tokenizer, tmp_path):
    def answer(text):
        ids, length = tokenizer.encode(text)
        return {
            "ids": ids,
            "length": length,
            "text": tokenizer.decode(ids),
            "token": tokenizer.ids_to_tokens(ids),
        }

    module = tf.Module()
    module.tokenizer = tokenizer
    module.answer = tf.function(answer, input_signature=[tf.TensorSpec([None], tf.string)])
    tf.saved_model.save(module, str(tmp_path))
    served = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    texts = tf.constant(LINES[:6] + HOSTILE)
    expected = answer(texts)
    for name, value in served(texts).items():
        assert (value.numpy() == expected[name].numpy()).all(), name


def test_a_tokenizer_outlives_a_new_seed(tokenizer):
    # In TensorFlow Text a new global seed takes the model from every SentencePiece tokenizer.
    function = tf.function(tokenizer.encode)
    expected = function(tf.constant(LINES[:3]))[0].numpy().tolist()
    tf.random.set_seed(5)
    gc.collect()
    assert tokenizer.encode(LINES[:3])[0].numpy().tolist() == expected
    assert function(tf.constant(LINES[:3]))[0].numpy().tolist() == expected
    assert texts_of(tokenizer.decode(expected)) == LINES[:3]


def test_a_tokenizer_outlives_its_twins(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "files")
    module = tf.Module()
    module.tokenizer = tokenizer
    module.lengths = tf.function(
        lambda text: {"length": tokenizer.encode(text)[1]},
        input_signature=[tf.TensorSpec([None], tf.string, name="text")],
    )
    expected = tokenizer.encode(LINES[:3])[1].numpy().tolist()
    tf.saved_model.save(module, str(tmp_path / "saved"))
    for _ in range(2):
        twin = tokenizers.load(tmp_path / "files")
        served = tf.saved_model.load(str(tmp_path / "saved"))
        served.signatures["serving_default"](text=tf.constant(LINES[:3]))
        assert twin.encode(LINES[:3])[1].numpy().tolist() == expected
        del twin, served
        gc.collect()
        assert tokenizer.encode(LINES[:3])[1].numpy().tolist() == expected
        assert texts_of(tokenizer.decode(tokenizer.encode(LINES[:3])[0])) == LINES[:3]


ALPHABET = "ab é\u0301Åß\n\t\\<de->İσςΣ\u3000\u2028今"


@hypothesis.settings(max_examples=40, deadline=None)
@hypothesis.given(st.lists(st.text(ALPHABET, max_size=13), min_size=1, max_size=5), st.booleans())
def test_characters_lose_nothing_but_normalization(texts, lowercase):
    tokenizer = tokenizers.train("characters", [*texts, "a"], lowercase=lowercase)
    normal = tokenizer.normalize(tf.constant(texts))
    decoded = tokenizer.decode(tokenizer.encode(texts)[0])
    assert texts_of(decoded) == texts_of(normal)
    if not lowercase:
        assert texts_of(normal) == [unicodedata.normalize("NFC", text) for text in texts]
    assert texts_of(tokenizer.normalize(normal)) == texts_of(normal)


@hypothesis.settings(max_examples=40, deadline=None)
@hypothesis.given(st.lists(st.text(ALPHABET, max_size=13), min_size=1, max_size=5))
def test_words_lose_nothing_but_white_space(texts):
    tokenizer = tokenizers.train("words", [*texts, "a"])
    decoded = texts_of(tokenizer.decode(tokenizer.encode(texts)[0]))
    assert decoded == [" ".join(unicodedata.normalize("NFC", text).split()) for text in texts]


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(st.lists(st.binary(max_size=17), min_size=1, max_size=5))
def test_any_bytes_give_valid_text(texts):
    tokenizer = tokenizers.CharacterTokenizer(["a", "<de>"], symbols=["<de>"])
    ids, lengths = tokenizer.encode(tf.constant(texts, tf.string))
    known = [text.count("a") for text in texts_of(tokenizer.decode(ids))]
    assert known == [text.count(b"a") for text in texts]
    assert (lengths.numpy() == 0).tolist() == [not text for text in texts]


def pieces_by_hand(word, vocabulary):
    """Greedy longest match, a character without a piece alone."""
    pieces, start = [], 0
    while start < len(word):
        ends = range(len(word), start, -1)
        spelled = [("##" if start else "") + word[start:end] for end in ends]
        fit = [p for p in spelled if p in vocabulary and (start or not p.startswith("##"))]
        pieces.append(fit[0] if fit else "<unk>")
        start += len(pieces[-1].removeprefix("##" if start else "")) if fit else 1
    return pieces


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(st.lists(st.text("ab#é☃", min_size=1, max_size=11), min_size=1, max_size=4))
def test_wordpiece_takes_the_longest_piece(words):
    vocabulary = ["a", "ab", "aba", "é", "#", "##a", "##b", "##ba", "##bab", "###", "##é"]
    tokenizer = tokenizers.WordPieceTokenizer(vocabulary)
    ids, lengths = tokenizer.encode([" ".join(words)])
    expected = [piece for word in words for piece in pieces_by_hand(word, vocabulary)]
    assert texts_of(tokenizer.ids_to_tokens(ids[0])) == expected
    assert lengths.numpy().tolist() == [len(expected)]


def test_a_giant_word_is_one_unknown():
    tokenizer = tokenizers.WordPieceTokenizer(["a", "##a"])
    _, lengths = tokenizer.encode(["a" * 1000, "a" * 1001, "a" * 1_000_000 + " aa"])
    assert lengths.numpy().tolist() == [1000, 1, 3]


def test_wordpiece_symbols_are_words():
    tokenizer = tokenizers.train("wordpiece", ["3.4 <de>3 x<de-DE>"] * 3, symbols=SYMBOLS)
    ids, _ = tokenizer.encode(["<de-DE>3.4", "3<de>4"])
    assert texts_of(tokenizer.decode(ids)) == ["<de-DE> 3.4", "3 <de> 4"]
    with pytest.raises(ValueError, match="do not begin with `##`.*'##x'"):
        tokenizers.WordPieceTokenizer(["##x"], symbols=["##x"])


def test_vocabulary_is_sorted_by_count_and_limited():
    corpus = ["c b a", "b a", "a", "d"]
    assert tokenizers.train("words", corpus).vocabulary == ["a", "b", "c", "d"]
    assert tokenizers.train("words", corpus, min_frequency=2).vocabulary == ["a", "b"]
    limited = tokenizers.train("words", corpus, vocabulary_size=7, symbols=["<x>"])
    assert limited.vocabulary == ["<x>", "a", "b"]
    assert limited.vocabulary_size == 7


def test_vocabulary_file_holds_one_token_a_line(tmp_path):
    vocabulary = ["\\", "\n", "\r", "n", "\\n", "\u2028", "\u0085", " "]
    tokenizer = tokenizers.CharacterTokenizer(vocabulary, symbols=["\\n"])
    tokenizer.save(tmp_path)
    lines = (tmp_path / "vocab.txt").read_bytes().decode().split("\n")
    assert lines[:8] == ["<pad>", "<unk>", "<s>", "</s>", "\\\\", "\\n", "\\r", "n"]
    assert tokenizers.load(tmp_path).vocabulary == vocabulary


def test_lower_case_reaches_symbols_too():
    tokenizer = tokenizers.train("characters", LINES, lowercase=True, symbols=["<de-DE>"])
    assert tokenizer.symbols == ("<de-de>",)
    assert tokenizer.encode(["<de-DE>D"])[1].numpy().tolist() == [2]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"kind": "bytes"}, "one of 'characters', 'words', 'wordpiece'.*kind='bytes'"),
        ({"min_frequency": 0}, "min_frequency=0"),
        ({"vocabulary_size": 4}, "at least 5.*vocabulary_size=4"),
        ({"texts": "one line"}, "wrap it in a list.*'one line'"),
        ({"texts": [b"bytes"]}, "iterable of strings.*type bytes"),
        ({"texts": []}, "at least one token.*no such token"),
        ({"texts": ["", " "], "kind": "sentencepiece"}, "at least one token.*no such token"),
        ({"symbols": "<x>"}, "sequence of non-empty strings"),
        ({"symbols": ["a b"]}, "without white space.*'a b'"),
        ({"kind": "sentencepiece", "min_frequency": 2}, "set by `vocabulary_size`"),
        ({"kind": "wordpiece", "min_frequency": 2}, "WordPiece, whose vocabulary is set by"),
        ({"kind": "wordpiece", "texts": ["", "\ufffd"]}, "at least one token.*no such token"),
        ({"kind": "wordpiece", "vocabulary_size": 5}, "`vocabulary_size` of at least 6.*size=5"),
        ({"kind": "sentencepiece", "model_type": "word"}, "model_type='word'"),
        (
            {"kind": "sentencepiece", "model_type": "bpe", "vocabulary_size": 5000},
            "SentencePiece could not train.*vocabulary_size=5000.*too high",
        ),
    ],
)
def test_training_arguments_are_checked(arguments, text):
    with pytest.raises(ValueError, match=f"(?s){text}"):
        tokenizers.train(**({"kind": "words", "texts": ["a b"]} | arguments))


def test_constructor_and_call_arguments_are_checked():
    with pytest.raises(ValueError, match=r"distinct non-empty strings.*repeated=\['a'\]"):
        tokenizers.WordTokenizer(["a", "b", "a"])
    with pytest.raises(ValueError, match=r"symbols without an id: \['<x>'\]"):
        tokenizers.CharacterTokenizer(["a"], symbols=["<x>"])
    with pytest.raises(ValueError, match="bytes of a SentencePiece model.*Received: 4 bytes"):
        tokenizers.SentencePieceTokenizer(b"junk")
    tokenizer = tokenizers.WordTokenizer(["a"])
    with pytest.raises(ValueError, match=r"rank 1.*texts.shape=\(1, 1\)"):
        tokenizer.encode([["a"]])
    with pytest.raises(ValueError, match=r"rank 2.*ids.shape=\(3,\)"):
        tokenizer.decode([4, 1, 3])


def test_model_with_other_special_ids_is_refused():
    sentencepiece = pytest.importorskip("sentencepiece")
    import io

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=52, minloglevel=2
    )
    with pytest.raises(ValueError, match="pad_id=0, unk_id=1, bos_id=2, eos_id=3.*'<unk>', '<s>'"):
        tokenizers.SentencePieceTokenizer(model.getvalue())


@pytest.mark.parametrize("name", ["characters", "words", "wordpiece", "sentencepiece", "_training"])
def test_examples_in_docstrings(name):
    module = importlib.import_module(f"keras_attention.export.tokenizers.{name}")
    assert doctest.testmod(module).failed == 0


def test_damaged_tokenizers_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no tokenizer file .*tokenizer.json"):
        tokenizers.load(tmp_path)
    tokenizers.WordTokenizer(["a", "b"]).save(tmp_path)
    description = (tmp_path / "tokenizer.json").read_text()
    vocabulary = (tmp_path / "vocab.txt").read_text()

    (tmp_path / "vocab.txt").write_text(vocabulary.replace("b", "c"))
    with pytest.raises(ValueError, match=r"vocab.txt does not match .*digests differ"):
        tokenizers.load(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(FileNotFoundError, match="no tokenizer file .*vocab.txt"):
        tokenizers.load(tmp_path)
    (tmp_path / "vocab.txt").write_text(vocabulary)

    for old, new, text in [
        ("}", "", "not valid JSON"),
        ('"kind": "words",', "", "lacks kind"),
        ('"schema_version": 1', '"schema_version": 2', "schema_version=2"),
        ('"kind": "words"', '"kind": "pictures"', "kind='pictures'"),
        ('"vocabulary_size": 6', '"vocabulary_size": 7', "vocabulary_size=7"),
    ]:
        (tmp_path / "tokenizer.json").write_text(description.replace(old, new))
        with pytest.raises(ValueError, match=text):
            tokenizers.load(tmp_path)
