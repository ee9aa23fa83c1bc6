import keras
import numpy as np
import pytest

from examples.models import attention_over_attention, attention_sum
from examples.models.cloze_reader import find_common_words, map_to_embedding_rows

READERS = (attention_over_attention, attention_sum)
SIZES = {"units": 5, "embedding_dim": 3, "slots": 4, "seed": 1}
EXTRAS = {"common_word_dim": 2, "shared_encoder": True, "annotation_dropout": 0.3}
WORDS = 11
DOCUMENT = np.array([[5, 901, 6, 902, 901, 0, 0], [7, 8, 903, 5, 6, 8, 904]])
QUERY = np.array([[4, 6, 0, 0], [9, 4, 8, 7]])
CANDIDATES = np.array([[901, 902, 905], [904, 903, 0]])


def answers(model, document=DOCUMENT, query=QUERY, candidates=CANDIDATES):
    ids = {"document": document, "query": query, "candidates": candidates}
    return model.predict_on_batch(ids)


@pytest.mark.parametrize("reader", READERS)
def test_the_mentions_of_a_candidate_add_up(reader):
    outputs = answers(reader.build(WORDS, **SIZES))
    weights, probabilities = outputs["weights"], outputs["probabilities"]
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(weights[0, 5:], 0.0)
    expected = [
        [weights[0, 1] + weights[0, 4], weights[0, 3], 0.0],
        [weights[1, 6], weights[1, 2], 0],
    ]
    np.testing.assert_allclose(probabilities, expected, rtol=1e-5)
    assert ("query_weights" in outputs) == (reader is attention_over_attention)
    if "query_weights" in outputs:
        np.testing.assert_allclose(outputs["query_weights"].sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("extras", [{}, EXTRAS])
@pytest.mark.parametrize("reader", READERS)
def test_padding_changes_nothing(reader, extras):
    model = reader.build(WORDS, **SIZES, **extras)
    wider = (np.pad(DOCUMENT, [(0, 0), (0, 2)]), np.pad(QUERY, [(0, 0), (0, 3)]))
    np.testing.assert_allclose(
        answers(model, *wider)["probabilities"], answers(model)["probabilities"], atol=1e-6
    )


def test_with_slots_a_name_is_its_place_among_the_candidates_and_nothing_else():
    model = attention_over_attention.build(WORDS, **SIZES)
    renamed = [np.where(ids > 900, ids + 50, ids) for ids in (DOCUMENT, QUERY, CANDIDATES)]
    np.testing.assert_allclose(
        answers(model, *renamed)["probabilities"], answers(model)["probabilities"], atol=1e-6
    )
    swapped = CANDIDATES[:, [1, 0, 2]]
    assert not np.allclose(
        answers(model, candidates=swapped)["probabilities"][:, [1, 0, 2]],
        answers(model)["probabilities"],
        atol=1e-7,
    )


def test_words_slots_and_unknown_words_have_rows_of_their_own():
    ids, candidates = np.array([[5, 901, 906, 902, 0, 7]]), np.array([[902, 901, 7, 0]])
    slots = map_to_embedding_rows(keras.ops.array(ids), keras.ops.array(candidates), WORDS, 4)
    assert keras.ops.convert_to_numpy(slots).tolist() == [[5, 12, 1, 11, 0, 13]]
    known = map_to_embedding_rows(keras.ops.array(ids), keras.ops.array(candidates), WORDS, 0)
    assert keras.ops.convert_to_numpy(known).tolist() == [[5, 1, 1, 1, 0, 7]]


def test_a_word_is_common_where_the_other_text_has_it_too():
    document, query = (keras.ops.array(ids) for ids in (DOCUMENT, QUERY))
    found = [find_common_words(document, query), find_common_words(query, document)]
    assert [keras.ops.convert_to_numpy(common).tolist() for common in found] == [
        [[0, 0, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 1, 0]],
        [[0, 1, 0, 0], [0, 0, 1, 1]],
    ]


@pytest.mark.parametrize("reader", READERS)
def test_a_name_that_the_query_has_too_is_marked(reader):
    """With words for names, 903 and 904 are both unknown: a mark alone tells them apart."""
    keras.utils.set_random_seed(1)
    other, same = (np.where(QUERY == 9, name, QUERY) for name in (903, 904))
    plain, marking = (
        reader.build(WORDS, **SIZES, names="words", common_word_dim=dim) for dim in (0, 2)
    )
    marking.get_layer("common_words").set_weights([np.array([[0.0, 0.0], [5.0, -5.0]])])
    of_plain, of_marking = (
        [answers(model, query=query)["probabilities"][1] for query in (other, same)]
        for model in (plain, marking)
    )
    np.testing.assert_allclose(*of_plain, atol=1e-7)
    assert np.abs(of_marking[0] - of_marking[1]).max() > 0.01


@pytest.mark.parametrize("reader", READERS)
def test_a_shared_encoder_reads_both_texts(reader):
    counts = [
        sum(isinstance(layer, keras.layers.Bidirectional) for layer in model.layers)
        for model in (reader.build(WORDS, **SIZES), reader.build(WORDS, **SIZES, **EXTRAS))
    ]
    assert counts == [2, 1]


@pytest.mark.thorough
@pytest.mark.parametrize("reader", READERS)
def test_a_saved_model_comes_back_without_the_examples(reader, tmp_path):
    model = reader.build(WORDS, **SIZES, **EXTRAS, names="words")
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    np.testing.assert_allclose(
        answers(again)["probabilities"], answers(model)["probabilities"], rtol=1e-6
    )
