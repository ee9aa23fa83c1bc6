"""Copied words: their ids, and a translator that learns to copy names it has never seen."""

import answer
import keras
import numpy as np
import pytest

from keras_attention import (
    CopyNetDecoder,
    LuongDecoder,
    PointerGeneratorDecoder,
    TokenCrossentropy,
    TransformerDecoder,
)
from keras_attention.export import SearchOptions, Translator, tokenizers
from keras_attention.export.tokenizers import CopiedWords, WordTokenizer

WORDS = WordTokenizer(["sees", "by", "seen", "Ann"])
V = WORDS.vocabulary_size
TEXTS = ["Bob sees Eve", "Eve  sees Bob and Eve and Ida", "", "Ann sees Ann", "Al Bo Cy sees Al Di"]
TARGETS = ["Eve seen by Bob", "Ida Eve Bob", "Bob", "Ann Al", "Di Cy Bo Al Al"]


def number_by_loops(text, most):
    """The ids of a source, and its unknown words in their order."""
    unknown, ids = [], []
    for word in text.split():
        if word in WORDS.vocabulary:
            ids.append(4 + WORDS.vocabulary.index(word))
            continue
        unknown += [word] if word not in unknown else []
        place = unknown.index(word)
        ids.append(V + place if place < most else 1)
    return ids, unknown[:most]


@pytest.mark.parametrize("most", [1, 2, 7])
def test_unknown_words_are_numbered_in_their_order(most):
    copied = CopiedWords(WORDS, most)
    ids = copied.number(WORDS.encode(TEXTS)[0], TEXTS).numpy()
    labels = copied.number_targets(WORDS.encode(TARGETS)[0], TARGETS, TEXTS).numpy()
    texts = copied.decode(labels, TEXTS).numpy()
    tokens = copied.get_tokens(ids, TEXTS).numpy()
    for row, (text, target) in enumerate(zip(TEXTS, TARGETS, strict=True)):
        expected, unknown = number_by_loops(text, most)
        assert [one for one in ids[row].tolist() if one] == expected
        known = unknown + WORDS.vocabulary
        words = [word if word in known else "\ufffd" for word in target.split()]
        assert texts[row].decode() == " ".join(words)
        words = [word if word in known else "<unk>" for word in text.split()]
        assert [token.decode() for token in tokens[row] if token] == words
    assert copied.decode(labels[:, None], TEXTS).shape == (5, 1)


def test_no_texts_and_empty_texts_have_no_words():
    copied = CopiedWords(WORDS, 3)
    for texts, targets, expected in (([], [], []), ([""], ["Bob Al"], [[1, 1]])):
        ids = copied.number(WORDS.encode(texts)[0], texts)
        assert ids.shape == (len(texts), 0)
        labels = copied.number_targets(WORDS.encode(targets)[0], targets, texts)
        assert labels.numpy().tolist() == expected


def test_a_source_that_is_cut_has_the_words_that_are_read():
    copied = CopiedWords(WORDS, 3, max_source_length=2)
    ids = copied.number(WORDS.encode(["Bob sees Eve"], 2)[0], ["Bob sees Eve"])
    assert ids.numpy().tolist() == [[V, 4]]
    (text,) = copied.decode(np.array([[V, V + 1]]), ["Bob sees Eve"]).numpy()
    assert text.decode() == "Bob \ufffd"


def make_names(count, ending, seed):
    random = np.random.RandomState(seed)
    return ["".join(random.choice(list("bdfgklmnprst"), 5)) + ending for _ in range(count)]


def make_pairs(names, count, seed):
    random, verbs = np.random.RandomState(seed), {"greets": "greeted", "calls": "called"}
    pairs = []
    for _ in range(count):
        one, other = random.choice(names, 2, replace=False)
        verb = random.choice(list(verbs))
        pairs.append((f"{one} {verb} {other}", f"{other} was {verbs[verb]} by {one}"))
    return [list(side) for side in zip(*pairs, strict=True)]


def point(decoder, size):
    return PointerGeneratorDecoder(decoder(size + 1), 4, name="decoder")


def share(decoder, size):
    return CopyNetDecoder(decoder(size + 16), 4, 16, name="decoder")


def make_translator(words, decoder, copying=point, **search):
    ids = keras.Input([None], dtype="int32")
    outputs = keras.layers.Embedding(words.vocabulary_size, 16, mask_zero=True)(ids)
    outputs = keras.layers.Bidirectional(keras.layers.GRU(16, return_sequences=True))(outputs)
    encoder = keras.Model(ids, {"memory": outputs}, name="encoder")
    decoder = copying(decoder, words.vocabulary_size)
    search = SearchOptions(3, 8, **search)
    return Translator(encoder, decoder, source=words, target=words, search=search)


@pytest.mark.thorough
@pytest.mark.parametrize("copying", [point, share])
def test_names_never_seen_are_copied_in_python_and_by_an_export(copying, tmp_path):
    keras.utils.set_random_seed(3)
    training = make_pairs(make_names(200, "a", 1), 600, 2)
    sources, targets = make_pairs(make_names(100, "o", 3), 41, 4)
    texts = [text for side in training for text in side]
    words = tokenizers.train("words", texts, min_frequency=30)
    assert words.vocabulary_size == 10
    translator = make_translator(words, lambda size: LuongDecoder(size, 16, 32), copying)
    translator.model.compile(keras.optimizers.Adam(0.01), TokenCrossentropy(), jit_compile=True)
    translator.model.fit(*translator.encode_pairs(*training), epochs=8, batch_size=32, verbose=0)
    assert translator.greedy(sources) == targets
    found = translator.beam(sources, return_alignments=True)
    assert [one.texts[0] for one in found] == targets
    assert found[0].source_tokens == [*sources[0].split(), "</s>"]
    assert found[0].tokens == [*targets[0].split(), "</s>"]
    sums = [sum(row) for row in translator.score(sources, targets)]
    np.testing.assert_allclose(sums, [one.scores[0] for one in found], atol=1e-4)
    served = answer.Loaded(translator.export(tmp_path))
    text = np.array([one.encode() for one in sources], object)
    for name in ("serving_default", "greedy"):
        texts = served.ask(name, text=text)["text"].reshape(len(text), -1)[:, 0]
        assert [one.decode() for one in texts] == targets
    ids, length = np.array([[10, 7, 11, 99]], "int32"), np.array([3], "int32")
    found = served.ask("ids", ids=ids, length=length)["ids"][0, 0]
    assert found[0] == 11 and found[-2] == 10


@pytest.mark.parametrize("copying", [point, share])
def test_a_copying_translator_refuses_what_does_not_fit(copying):
    def decoder(size):
        return TransformerDecoder(size, 32, 1, 2)

    translator = make_translator(WORDS, decoder, copying)
    model, others = translator.model, WordTokenizer(["sees", "by", "seen", "Bob"])
    with pytest.raises(ValueError, match="source=words, target=words, which differ"):
        Translator.from_model(model, source=WORDS, target=others)
    with pytest.raises(ValueError, match="expects no `replace_unknown`"):
        make_translator(WORDS, decoder, copying, replace_unknown=True)
    inside = translator.model.get_layer("decoder").decoder.vocabulary_size - 1
    with pytest.raises(ValueError, match=f"that copies words to have {inside} ids inside"):
        small = WordTokenizer(WORDS.vocabulary[:-1])
        Translator.from_model(model, source=small, target=small)
    with pytest.raises(ValueError, match="CharacterTokenizer"):
        CopiedWords(tokenizers.train("characters", ["ab"]), 2)
