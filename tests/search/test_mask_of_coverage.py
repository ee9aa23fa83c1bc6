"""The mask of a search reaches its coverage penalty."""

import numpy as np
import pytest
from keras import ops
from search_runs import arrays, build_arguments
from tf_or_skip import tf

from keras_attention.search import BeamOptions, CoveragePenalty, beam_search


def first_word(ids, state, memory):
    """Attends to the first of three source words, whatever it says."""
    rows = ops.shape(ids)[0]
    logits = ops.tile(ops.array([[-9.0, -9.0, -9.0, 0.5, 1.0, 0.7]]), (rows, 1))
    return logits, state, ops.tile(ops.array([[1.0, 0.0, 0.0]]), (rows, 1))


@pytest.mark.thorough
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("groups", [1, 3])
def test_words_that_nobody_attended_to_count_and_padding_does_not(compiled, groups):
    mask = np.array([[True, True, True], [True, True, False], [True, False, False]])

    def run(mask):
        options = {"beam_width": 3, "max_length": 4, "num_groups": groups, "memory_mask": mask}
        return beam_search(
            first_word,
            {},
            mask,
            **build_arguments(coverage_penalty=CoveragePenalty(0.5), **options),
        )

    run = tf.function(run, autograph=False) if compiled else run
    result = arrays(run(ops.convert_to_tensor(mask)))
    penalties = 0.5 * np.log(1e-9) * np.array([[2.0], [1.0], [0.0]])
    np.testing.assert_allclose(result["scores"], result["log_probs"] + penalties, rtol=1e-5)


def test_a_mask_of_ints_is_the_boolean_one_in_any_container():
    mask = [[1, 1, 1], [1, 1, 0], [1, 0, 0]]
    seen = []

    def penalty(coverage, memory_mask):
        seen.append(memory_mask)
        return CoveragePenalty(0.5)(coverage, memory_mask)

    results = [
        arrays(
            beam_search(
                first_word,
                {},
                np.zeros((3, 3)),
                beam_width=2,
                max_length=3,
                options=BeamOptions(coverage_penalty=penalty, memory_mask=given),
            )
        )
        for given in (ops.array(mask, "bool"), np.array(mask), mask)
    ]
    for result in results[1:]:
        np.testing.assert_array_equal(result["scores"], results[0]["scores"])
    assert {ops.is_tensor(given) and str(given.dtype).count("bool") for given in seen} == {1}
