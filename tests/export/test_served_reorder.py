"""A served search has its decoder's `reorder_cache` and its own mask, whatever the batch."""

import types

import numpy as np
import pytest
import tensorflow as tf
from served_translators import begin_alone
from toy_translator import ToyDecoder, toy_translator

from keras_attention._utils.flat_beams import gather_beams
from keras_attention.export import SearchOptions, tokenizers
from keras_attention.export._signatures import TranslatorSignatures
from keras_attention.export.search_options import resolve_search_options
from keras_attention.search import (
    BeamOptions,
    CoveragePenalty,
    beam_search,
)

SOURCE = tokenizers.train("characters", ["abc defg"])
TARGET = tokenizers.train("words", ["one two three four five six seven"])
LIMIT = 5


class Rotating(ToyDecoder):
    """Its `reorder_cache` does more than gather, so a search without it finds another text."""

    def reorder_cache(self, state, parents):
        state = gather_beams(state, parents)
        return state | {"hidden": tf.roll(state["hidden"], 1, axis=-1)}


class Blind(ToyDecoder):
    """It looks at no first letter: a real one without coverage, which only a mask tells."""

    def step(self, ids, state, memory):
        logits, state, alignment = super().step(ids, state, memory)
        return logits, state, alignment * tf.concat([[0.0], tf.ones_like(alignment[0, 1:])], 0)


@pytest.mark.thorough
@pytest.mark.parametrize("num_groups", [1, 3])
@pytest.mark.parametrize("kind", [ToyDecoder, Rotating, Blind])
def test_rows_of_unequal_length_are_searched_as_each_alone(kind, num_groups):
    size = TARGET.vocabulary_size
    model = toy_translator(SOURCE.vocabulary_size, size, decoder=kind(size, 7, name="decoder"))
    options = BeamOptions(coverage_penalty=0.5, num_groups=num_groups)
    options = SearchOptions(3, LIMIT, None, options=options)
    options = resolve_search_options("test", options, model, SOURCE, TARGET)
    functions = TranslatorSignatures(model, SOURCE, TARGET, options)
    ids, length = functions.pipeline.tokenize_source(tf.constant(["abc def", "", "ga"]))
    found = functions._beam_search(ids, length)
    served = types.SimpleNamespace(model=model, target=TARGET, source_limit=None)
    reorder_cache = getattr(model.get_layer("decoder"), "reorder_cache", None)
    for row, source in enumerate(ids.numpy()):
        alone, begun = begin_alone(served, source[: length[row] - 1].tolist())
        expected = beam_search(
            *begun,
            max_length=LIMIT,
            beam_width=3,
            options=BeamOptions(
                CoveragePenalty(0.5),
                memory_mask=tf.ones_like(alone, tf.bool),
                num_groups=num_groups,
                reorder_cache=reorder_cache,
            ),
        )
        np.testing.assert_array_equal(found["ids"][row], expected["ids"][0])
        np.testing.assert_allclose(found["score"][row], expected["scores"][0], atol=1e-5)
