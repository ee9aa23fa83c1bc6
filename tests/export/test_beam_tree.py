"""The signature `beam_tree`: the tree of the Python search, in exports that ask for it alone."""

import argparse
import dataclasses
import types

import answer
import numpy as np
import pytest
import tensorflow as tf
from served_translators import TEXTS, column, encode_alone, search_alone
from toy_export import BEAM_WIDTH, MAX_LENGTH, SOURCE_LIMIT, toy_parts
from toy_translator import bahdanau_translator

from keras_attention import plotting
from keras_attention.export import (
    SearchOptions,
    _model_card,
    _search_memory,
    _warmup_requests,
    export_translator,
    tokenizers,
    validate_export,
)
from keras_attention.export._signatures import TranslatorSignatures
from keras_attention.export.search_flags import add_search_flags, make_search_options
from keras_attention.export.search_options import resolve_search_options
from keras_attention.search import BeamOptions, Constraints, SpecialIds

TREE = BeamOptions(return_tree=True)
PLAIN = ["ids", "greedy", "sample", "score", "search", "serving_default"]
PLAIN += ["translate_with_alignment"]


def describe(model, source, target, **options):
    """A translator for `encode_alone`, its signatures, and the arguments of its search."""
    options = {"options": TREE, "beam_width": BEAM_WIDTH, "max_length": MAX_LENGTH, **options}
    resolved = SearchOptions(max_source_length=SOURCE_LIMIT, **options)
    resolved = resolve_search_options("test", resolved, model, source, target)
    return types.SimpleNamespace(
        model=model,
        source=source,
        target=target,
        source_limit=SOURCE_LIMIT,
        search=options,
        functions=TranslatorSignatures(model, source, target, resolved),
    )


def toy(**options):
    return describe(*toy_parts(), **options)


def bahdanau(**options):
    lines = ["ein Mann läuft schnell .", "der Hund läuft ."]
    source, target = tokenizers.train("words", lines), tokenizers.train("words", lines)
    model = bahdanau_translator(source.vocabulary_size, target.vocabulary_size)
    return describe(model, source, target, **options)


def spell_expected(translator, text):
    """What the search of the Keras model returns for one text: `{name: (steps, places)}`."""
    found = search_alone(*encode_alone(translator, text), translator.search)
    count = int((found["tree_log_probs"].max(axis=1) > -5e8).sum())
    log_prob = found["tree_log_probs"][:count]
    half = np.arange(2 * BEAM_WIDTH) < BEAM_WIDTH
    return {
        "tokens": translator.target.ids_to_tokens(found["tree_ids"][:count]).numpy(),
        "parent": found["tree_parents"][:count],
        "log_prob": log_prob,
        "state": np.where(log_prob > -5e8, np.where(half, 1, 2), 0),
    }


def check_row(expected, found, row):
    count = found["length"][row]
    assert count == len(expected["tokens"])
    for name, array in expected.items():
        if name == "log_prob":
            np.testing.assert_allclose(found[name][row, :count], array, atol=1e-5)
        else:
            np.testing.assert_array_equal(found[name][row, :count], array)
    assert (found["log_prob"][row, count:] == -1e9).all()
    for name, padding in (("tokens", b""), ("parent", 0), ("state", 0)):
        assert (found[name][row][found["log_prob"][row] == -1e9] == padding).all()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "make, options",
    [
        (toy, {}),
        (toy, {"length_penalty": 2.0, "constraints": Constraints(min_length=3)}),
        (bahdanau, {"options": BeamOptions(return_tree=True, num_groups=3)}),
        (bahdanau, {"constraints": Constraints(special_ids=SpecialIds(end_id=(3, 5)))}),
    ],
)
def test_the_tree_is_that_of_the_python_search(make, options):
    translator = make(**options)
    found = translator.functions.beam_tree(tf.constant(column(TEXTS)))
    found = {name: value.numpy() for name, value in found.items()}
    assert found["tokens"].shape[1:] == (found["length"].max(), 2 * BEAM_WIDTH)
    for row, text in enumerate(TEXTS):
        check_row(spell_expected(translator, text), found, row)


def test_other_exports_have_no_tree():
    assert set(toy(options=BeamOptions()).functions.signatures()) == set(PLAIN)


@pytest.mark.parametrize("for_export", [True, False])
def test_only_commands_that_export_ask_for_more_signatures(for_export):
    parser = argparse.ArgumentParser()
    add_search_flags(parser, for_export=for_export)
    translator = toy()
    run = types.SimpleNamespace(model=translator.model, settings={}, target_tokenizer=None)
    search = make_search_options(parser.parse_args([]), run)
    assert (search.options.return_tree, search.stream, search.phrases) == (False, False, False)
    flags = ("--return-tree", "--stream", "--phrases")
    for place, flag in enumerate(flags):
        if for_export:
            search = make_search_options(parser.parse_args([flag]), run)
            found = (search.options.return_tree, search.stream, search.phrases)
            assert found == tuple(n == place for n in range(len(flags)))
        else:
            with pytest.raises(SystemExit):
                parser.parse_args([flag])


def test_a_tree_counts_in_the_memory(monkeypatch):
    pipeline = toy().functions.pipeline
    size, length, source = pipeline.num_logits, MAX_LENGTH, SOURCE_LIMIT + 1
    per_beam = 12 * size + 16 * min(size, 6) + 12 * length + 12 * length * source + 24 * source
    monkeypatch.setattr(_search_memory, "MAX_SEARCH_BYTES", 64 * BEAM_WIDTH * per_beam)
    monkeypatch.setattr(_search_memory, "_count_state_bytes", lambda *arguments: 0)
    options = SearchOptions(BEAM_WIDTH, MAX_LENGTH, SOURCE_LIMIT)
    _search_memory.check_search_ram(pipeline, options)
    with pytest.raises(ValueError, match="expected to take at most"):
        _search_memory.check_search_ram(pipeline, dataclasses.replace(options, options=TREE))


@pytest.fixture(scope="module")
def export_path(tmp_path_factory):
    model, source, target = toy_parts()
    options = SearchOptions(BEAM_WIDTH, MAX_LENGTH, SOURCE_LIMIT, options=TREE)
    base = tmp_path_factory.mktemp("tree") / "toy"
    return export_translator(model, base, source=source, target=target, search=options)


@pytest.mark.thorough
def test_an_export_has_it_with_a_description_and_warm_up_requests(export_path):
    assert validate_export(export_path) == []
    card = _model_card.read(export_path)
    assert sorted(card["signatures"]) == sorted([*PLAIN, "beam_tree"])
    assert "return_tree" not in card["options"]
    assert card["signatures"]["beam_tree"]["outputs"]["tokens"]["shape"] == [None, None, 6]
    requests = _warmup_requests.read_requests(export_path)
    assert "beam_tree" in {request.signature for request in requests}
    assert "## `beam_tree`" in (export_path / _model_card.MARKDOWN_FILE).read_text()


@pytest.mark.thorough
def test_the_explorer_shows_what_a_server_returns(export_path):
    loaded, translator = answer.Loaded(export_path), toy()
    many = loaded.ask("beam_tree", text=column(TEXTS * 14))  # more than search at a time
    for row in (*range(len(TEXTS)), len(many["length"]) - 1):
        check_row(spell_expected(translator, TEXTS[row % len(TEXTS)]), many, row)
    count = many["length"][0]
    tree = (many[name][0, :count] for name in ("tokens", "parent", "log_prob"))
    assert "Beam search" in plotting.explore_beam_search(*tree).html
    assert loaded.ask("beam_tree", text=column([]))["tokens"].shape[0] == 0
