"""Tokenizers: ids and back, in the graph, for every kind and for hostile text."""

import doctest
import gc
import importlib
import os
import subprocess
import sys
import unicodedata

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf
from trained_tokenizers import KINDS, LINES, SYMBOLS, texts_of, train_tokenizer

from keras_attention.export import tokenizers

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


@pytest.fixture(params=sorted(KINDS))
def tokenizer(request):
    return train_tokenizer(request.param)


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


@pytest.mark.parametrize("name", KINDS)
def test_training_is_deterministic(name):
    again = tokenizers.train(texts=LINES, symbols=SYMBOLS, **KINDS[name])
    assert again.get_content() == train_tokenizer(name).get_content()


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


LOWER = """
from keras_attention.export.tokenizers import CharacterTokenizer
texts = ["Iİ I\u0307 Jj", "ÌÍĨ Į\u0301 J\u0301 ΑΣ"]
print(ascii([text.decode() for text in CharacterTokenizer.normalize_texts(texts, True).numpy()]))
"""


@pytest.mark.thorough
@pytest.mark.parametrize("locale", ["C", "tr_TR.UTF-8", "lt_LT.UTF-8"])
def test_lower_case_does_not_depend_on_the_locale(locale):
    """Turkish has an i without a dot, and Lithuanian keeps it under an accent."""
    environment = os.environ | {"LC_ALL": locale}
    command = [sys.executable, "-c", LOWER]
    printed = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout
    texts = ["ii\u0307 i\u0307 jj", "ìíĩ į\u0301 j\u0301 ας"]
    expected = [unicodedata.normalize("NFC", text) for text in texts]
    assert printed.splitlines()[-1] == ascii(expected)


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
