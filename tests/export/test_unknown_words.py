"""Unknown words of an output are the source words they attended to, in Python and on a server."""

import json
import pathlib

import answer
import numpy as np
import pytest
import tensorflow as tf
from toy_translator import bahdanau_translator

from keras_attention.export import SearchOptions, Translator, runs, search_flags, tokenizers
from keras_attention.export import __main__ as command

SOURCE = tokenizers.WordTokenizer(["ein", "Mann", "läuft"])
TARGET = tokenizers.WordTokenizer(["a", "man", "runs"])
TEXTS = ["ein Zwerg läuft", "Gnom  läuft schnell", "", "Mann", "ein Mann Troll Elf Fee läuft"]
DICTIONARY = {"Zwerg": "dwarf", "schnell": "very fast", "Elf": "elf"}


@pytest.fixture(scope="module")
def model():
    """A translator with random weights that says unknown words more often than others."""
    model = bahdanau_translator(SOURCE.vocabulary_size, TARGET.vocabulary_size)
    (bias,) = [one for one in model.weights if one.shape == (TARGET.vocabulary_size,)]
    bias.assign([-9, 1.5, -9, -1, 0, 0, 0])
    return model


def make_translator(model, replace_unknown, **options):
    search = SearchOptions(3, 9, replace_unknown=replace_unknown, **options)
    return Translator.from_model(model, source=SOURCE, target=TARGET, search=search)


def compute_expected_texts(translator, dictionary):
    """The best text of each source, word by word from its tokens and its alignment."""
    texts = []
    for text, found in zip(TEXTS, translator.beam(TEXTS, return_alignments=True), strict=True):
        words, source = [], text.split()
        for token, weights in zip(found.tokens, found.alignment, strict=True):
            if token == "<unk>" and source:
                word = source[int(np.argmax(weights[: len(source)]))]
                words.append(dictionary.get(word, word))
            elif token != "</s>":
                words.append("\ufffd" if token == "<unk>" else token)
        texts.append(" ".join(words))
    return texts


@pytest.mark.thorough
@pytest.mark.parametrize("dictionary", [True, DICTIONARY])
def test_every_text_has_the_words_that_were_attended_to(model, dictionary):
    plain, translator = make_translator(model, False), make_translator(model, dictionary)
    expected = compute_expected_texts(plain, {} if dictionary is True else dictionary)
    before = [found.texts[0] for found in plain.beam(TEXTS)]
    assert sum("\ufffd" in text for text in before) >= 3, before
    assert [found.texts[0] for found in translator.beam(TEXTS)] == expected
    found = translator.beam(TEXTS, return_alignments=True)
    assert [one.texts[0] for one in found] == expected
    assert [one.tokens for one in found] == [
        one.tokens for one in plain.beam(TEXTS, return_alignments=True)
    ]
    assert all("\ufffd" not in text for text, source in zip(expected, TEXTS, strict=True) if source)
    np.testing.assert_array_equal(
        [one.scores for one in found], [one.scores for one in plain.beam(TEXTS)]
    )
    greedy = translator.greedy(TEXTS)
    known = plain.greedy(TEXTS)
    assert len(greedy) == len(TEXTS) and greedy != known
    assert all("\ufffd" not in text for text, source in zip(greedy, TEXTS, strict=True) if source)
    assert [text.count("\ufffd") for text in greedy] == [
        0 if source else known[row].count("\ufffd") for row, source in enumerate(TEXTS)
    ]


@pytest.mark.thorough
def test_each_hypothesis_copies_from_its_own_alignment(model):
    plain, translator = make_translator(model, False), make_translator(model, True)
    for text in TEXTS:
        signatures = (plain._functions, translator._functions)
        known, found = (one.translate_with_alignment(tf.constant([text])) for one in signatures)
        source = text.split()
        for hypothesis in range(3):
            words = []
            for time in range(int(known["length"][0, hypothesis])):
                token = known["tokens"][0, hypothesis, time].numpy().decode()
                weights = known["alignment"][0, hypothesis, time, : len(source)].numpy()
                if token == "<unk>":
                    token = source[int(np.argmax(weights))] if source else "\ufffd"
                words += [token] if token != "</s>" else []
            assert found["text"][0, hypothesis].numpy().decode() == " ".join(words)


@pytest.mark.thorough
def test_an_export_and_a_run_copy_too(model, tmp_path):
    settings = {"model": "toy", "lengths": {"source": 8, "target": 8}}
    runs.write_run(tmp_path / "run", model, settings, SOURCE, TARGET)
    lines = [f"{source}\t{target}\n" for source, target in DICTIONARY.items()]
    (tmp_path / "words.tsv").write_text("".join(lines), encoding="utf-8")
    options = ["--beam-width", "3", "--max-length", "9"]
    options += ["--replace-unknown", str(tmp_path / "words.tsv")]
    assert command.main([str(tmp_path / "run"), str(tmp_path / "served"), *options]) == 0
    path = tmp_path / "served" / "1"
    served = answer.Loaded(path)
    translator = make_translator(model, DICTIONARY)
    text = np.array([one.encode() for one in TEXTS], object)
    found = served.ask("serving_default", text=text)["text"][:, 0]
    assert [one.decode() for one in found] == [one.texts[0] for one in translator.beam(TEXTS)]
    found = served.ask("greedy", text=text)["text"]
    assert [one.decode() for one in found] == translator.greedy(TEXTS)
    limits = {"length_penalty": np.zeros(5, "float32"), "max_length": np.full(5, 9, "int32")}
    found = served.ask("search", text=text, **limits)["text"][:, 0]
    assert [one.decode() for one in found] == [one.texts[0] for one in translator.beam(TEXTS)]
    drawn = {"seed": np.arange(5, dtype="int32"), "temperature": np.ones(5, "float32")}
    found = served.ask("sample", text=text, **drawn)["text"]
    assert all(
        "\ufffd" not in one.decode() for one, source in zip(found, TEXTS, strict=True) if source
    )
    cards = [json.loads(card.read_text()) for card in pathlib.Path(path).rglob("*.json")]
    assert any("a dictionary of 3 words" in json.dumps(card) for card in cards)


def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path):
    (tmp_path / "words.tsv").write_text("Zwerg\tdwarf\nTroll\ttroll\n", encoding="utf-8-sig")
    found = search_flags._read_dictionary(tmp_path / "words.tsv")
    assert found == {"Zwerg": "dwarf", "Troll": "troll"}


@pytest.mark.thorough
def test_long_sources_are_cut_as_the_model_reads_them(model):
    translator = make_translator(model, True, max_source_length=2)
    texts = translator.greedy(["Gnom Zwerg Troll", "Troll " * 9])
    assert "Troll" not in texts[0]
    assert "\ufffd" not in texts[1]


@pytest.mark.thorough
def test_what_cannot_be_replaced_is_refused(model, tmp_path):
    characters = tokenizers.train("characters", ["ab"])
    with pytest.raises(ValueError, match="Received: source=characters"):
        Translator.from_model(
            bahdanau_translator(characters.vocabulary_size, TARGET.vocabulary_size),
            source=characters,
            target=TARGET,
            search=SearchOptions(replace_unknown=True),
        )
    for wrong in ({"two words": "one"}, {"a": ""}, {"a": 3}, "words.tsv", 3):
        with pytest.raises(ValueError, match="replace_unknown"):
            SearchOptions(replace_unknown=wrong)
    runs.write_run(tmp_path / "run", model, {"model": "toy"}, SOURCE, TARGET)
    path = tmp_path / "words.tsv"
    for content in (None, "", "a b\n", "two words\tone\n", "a\tb\tc\n"):
        if content is not None:
            path.write_text(content)
        given = [str(tmp_path / "run"), str(tmp_path / "served"), "--replace-unknown", str(path)]
        assert command.main(given) != 0
        assert not (tmp_path / "served").exists()
