"""Phrases that a translation has to contain, given as texts."""

import numpy as np
import pytest
import tensorflow as tf
from toy_translator import toy_translator

from keras_attention.export import SearchOptions, Translator, tokenizers
from keras_attention.export._required_phrases import encode_phrases
from keras_attention.search import BeamOptions, Constraints

SOURCE = tokenizers.train("characters", ["abc defg", "hij klm"])
TARGET = tokenizers.train("words", ["one two three four five six seven"])
TEXTS = ["abc def", "", "hij"]
PHRASES = [["two three", "seven"], [], ["five"]]


def make_translator(**options):
    model = toy_translator(SOURCE.vocabulary_size, TARGET.vocabulary_size)
    search = SearchOptions(beam_width=5, max_length=9, **options)
    return Translator.from_model(model, source=SOURCE, target=TARGET, search=search)


@pytest.fixture(scope="module")
def translator():
    return make_translator()


@pytest.mark.thorough
def test_every_translation_contains_the_phrases_of_its_text(translator):
    plain = translator.beam(TEXTS)
    found = translator.beam(TEXTS, phrases=PHRASES, batch_size=2)
    assert found[1].texts == plain[1].texts
    for one, before, phrases in zip(found, plain, PHRASES, strict=True):
        assert one.texts and one.alignment is None
        for phrase in phrases:
            assert all(f" {phrase} " in f" {text} " for text in one.texts)
            assert not all(f" {phrase} " in f" {text} " for text in before.texts)
    scores = translator.score([TEXTS[0]] * len(found[0].texts), found[0].texts)
    ended = [n for n, text in enumerate(found[0].texts) if len(text.split()) < 9]
    assert ended
    for place in ended:
        assert sum(scores[place]) == pytest.approx(found[0].scores[place], abs=1e-4)
    shown = translator.beam(TEXTS, phrases=PHRASES, return_alignments=True)[0]
    assert shown.texts == found[0].texts
    assert shown.alignment.shape == (len(shown.tokens), len(shown.source_tokens))
    assert translator.beam([], phrases=[]) == []
    assert translator.beam(TEXTS, phrases=[[], [], []]) == plain


def test_phrases_are_padded_to_few_shapes(translator):
    ids = encode_phrases([["one", "two", "three four five"], []], 2, TARGET, translator._search)
    one, two, *rest = TARGET.encode(tf.constant(["one two three four five"]))[0][0].numpy()
    np.testing.assert_array_equal(
        ids, [[[one, 0, 0, 0], [two, 0, 0, 0], [*rest, 0], [0] * 4], np.zeros((4, 4))]
    )


@pytest.mark.parametrize(
    "phrases, text",
    [
        (["two", [], []], "a list of phrases for each of the 3 texts"),
        ([["two"]], "a list of phrases for each of the 3 texts"),
        ([["two"], [" "], []], r"not empty. Received: phrases\[1\]\[0\]=' '"),
        ([[], ["one", 7], []], r"not empty. Received: phrases\[1\]\[1\]=7"),
        (
            [[], [], ["one red  big two"]],
            r"excludes 'red', 'big'. Received: phrases\[2\]\[0\]='one red",
        ),
        ([[], ["one six"], []], r"excludes 'six'. Received: phrases\[1\]\[0\]"),
        (
            [[], ["one two three four", "five one two three four five"], []],
            r"at most max_length=9 tokens.*10 in phrases\[1\]",
        ),
    ],
)
def test_phrases_that_no_output_can_contain_are_named(phrases, text):
    six = int(TARGET.encode(tf.constant(["six"]))[0][0, 0])
    translator = make_translator(constraints=Constraints(suppress_ids=[six]))
    with pytest.raises(ValueError, match=f"Translator.beam expects.*{text}"):
        translator.beam(TEXTS, phrases=phrases)


def test_groups_refuse_phrases():
    translator = make_translator(options=BeamOptions(num_groups=5))
    with pytest.raises(ValueError, match="expects num_groups=1.*num_groups=5"):
        translator.beam(TEXTS, phrases=PHRASES)
