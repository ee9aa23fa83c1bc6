import keras
import numpy as np
import pytest

from examples.models import memory_network

SIZES = {"vocabulary_size": 13, "words": 3, "max_memories": 7, "linear_start": False}
SIZES |= {"units": 5, "num_hops": 2}
STORY = np.array([[[4, 5, 0], [6, 0, 0], [7, 8, 9]], [[4, 0, 0], [0, 0, 0], [0, 0, 0]]])
QUESTION = np.array([[10, 11, 0], [12, 0, 0]])


@pytest.mark.parametrize("weight_tying", ["adjacent", "layer-wise"])
@pytest.mark.parametrize("encoding", ["bag", "paper", "centered"])
def test_every_tying_and_encoding_answers_with_weights_over_the_story(weight_tying, encoding):
    options = {"weight_tying": weight_tying, "encoding": encoding, "seed": 1}
    for pad in (False, True):
        model = memory_network.build(**SIZES, **options, pad_to_max_memories=pad)
        outputs = model.predict_on_batch({"story": STORY, "question": QUESTION})
        assert outputs["logits"].shape == (2, 13)
        assert outputs["weights"].shape == (2, 2, 3)
        read = outputs["weights"].sum(axis=2)
        if pad:  # of seven memories, whose scores are nearly equal before training
            np.testing.assert_allclose(read, [[3 / 7] * 2, [1 / 7] * 2], rtol=0.2)
        else:
            np.testing.assert_allclose(read, 1.0, rtol=1e-5)
        np.testing.assert_array_equal(outputs["weights"][1, :, 1:], 0.0)  # there is one sentence


def test_the_order_of_words_counts_but_for_a_bag():
    turned = STORY.copy()
    turned[0, 0, :2] = [5, 4]
    for encoding, same in (("bag", True), ("paper", False), ("centered", False)):
        model = memory_network.build(**SIZES, encoding=encoding, seed=1)
        answers = [
            model.predict_on_batch({"story": story, "question": QUESTION})["logits"]
            for story in (STORY, turned)
        ]
        assert np.allclose(*answers, atol=1e-6) == same, encoding


def test_adjacent_tying_has_no_answer_matrix_of_its_own():
    tables = 13 * 5 + 7 * 5  # a table of words and one of times
    flag = 1  # whether the softmax is out
    adjacent = memory_network.build(**SIZES, weight_tying="adjacent")
    assert adjacent.count_params() == 3 * tables + flag
    layer_wise = memory_network.build(**SIZES, weight_tying="layer-wise")
    assert layer_wise.count_params() == 2 * tables + 5 * 5 + 2 * 13 * 5 + flag


def test_a_saved_model_comes_back_without_the_examples(tmp_path):
    model = memory_network.build(**SIZES, weight_tying="layer-wise", seed=1)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras", compile=False)
    inputs = {"story": STORY, "question": QUESTION}
    for one, other in zip(
        *(keras.tree.flatten(m.predict_on_batch(inputs)) for m in (model, again)), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-6)
