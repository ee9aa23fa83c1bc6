"""A recurrent Keras model, one token at a time, for shallow fusion."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops
from search_models import START, HashModel, log_softmax
from search_reference import list_permitted
from search_runs import run
from tf_or_skip import tf

from keras_attention import LSTMN
from keras_attention.search import (
    RecurrentLanguageModel,
    ShallowFusion,
    beam_search,
    greedy_search,
)

VOCABULARY = 7


def chain(*recurrent, dtype=None, vocabulary=VOCABULARY):
    keras.utils.set_random_seed(331)
    layers = [
        keras.Input([None], dtype="int32"),
        keras.layers.Embedding(vocabulary, 5, mask_zero=True, dtype=dtype),
        *recurrent,
        keras.layers.Dropout(0.5, dtype=dtype),
        keras.layers.LayerNormalization(dtype=dtype),
        keras.layers.Dense(vocabulary, kernel_initializer="random_normal", dtype=dtype),
    ]
    model = keras.Sequential(layers)
    model.layers[-1].kernel.assign(40 * model.layers[-1].kernel)
    return model


def lstm(**options):
    return keras.layers.LSTM(5, return_sequences=True, **options)


RECURRENT = {
    "lstm": lambda: [lstm()],
    "two layers": lambda: [lstm(), keras.layers.GRU(3, return_sequences=True)],
    "stacked cells": lambda: [
        keras.layers.RNN(
            [keras.layers.SimpleRNNCell(3), keras.layers.LSTMCell(4)], return_sequences=True
        )
    ],
    "lstmn": lambda: [LSTMN(5), LSTMN(3)],
}


@pytest.mark.parametrize("name", RECURRENT)
def test_steps_are_the_full_call(name):
    model = chain(*RECURRENT[name]())
    max_length = 4 if name == "lstmn" else None
    language_model = RecurrentLanguageModel(model, max_length=max_length)
    ids = np.array([[2, 4, 5, 6], [2, 6, 1, 4]])
    assert language_model.vocabulary_size == VOCABULARY
    assert language_model.variables == model.variables
    expected, state = model(ids), language_model.start(2)
    for time in range(4):
        logits, state, alignment = language_model.step(ops.array(ids[:, time]), state)
        np.testing.assert_allclose(logits, expected[:, time], rtol=1e-4, atol=1e-5)
        assert tuple(alignment.shape) == (2, 1)


def test_the_language_model_reads_its_own_start_id_first():
    model = chain(lstm())
    language_model = RecurrentLanguageModel(model, start_id=6)
    first, state, _ = language_model.step(ops.array([2]), language_model.start(1))
    second, *_ = language_model.step(ops.array([5]), state)
    expected = model(np.array([[6, 5]]))
    np.testing.assert_allclose(np.stack([first, second], axis=1), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="RecurrentLanguageModel expects `start_id`.*=-1"):
        RecurrentLanguageModel(model, start_id=-1)


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_keeps_the_dtype_of_the_state(dtype):
    language_model = RecurrentLanguageModel(chain(lstm(dtype=dtype), dtype=dtype))
    model = HashModel(332, batch=3, vocabulary=VOCABULARY)
    found = run(greedy_search, model, max_length=3, fusion=ShallowFusion(language_model, 0.5))
    assert (found["lengths"] > 0).all()


@pytest.mark.parametrize("recurrent", [lstm, lambda: LSTMN(5)], ids=["lstm", "lstmn"])
def test_a_fused_search_finds_the_best_of_all_sequences(recurrent):
    """The sum of a model and a recurrent one, read from its full call, of every sequence."""
    keras_model, model = chain(recurrent()), HashModel(333, batch=3, vocabulary=VOCABULARY)
    every = [
        ids
        for length in (1, 2, 3)
        for ids in itertools.product(list_permitted((), VOCABULARY), repeat=length)
        if 3 not in ids[:-1] and (ids[-1] == 3 or length == 3)
    ]
    padded = np.array([[START, *ids, *[0] * (3 - len(ids))] for ids in every])
    logits = ops.convert_to_numpy(keras_model(padded))
    fusion = ShallowFusion(RecurrentLanguageModel(keras_model, max_length=3), 1.5)
    found = run(beam_search, model, beam_width=len(every), max_length=3, fusion=fusion)
    plain = run(beam_search, model, beam_width=len(every), max_length=3)
    assert (found["ids"] != plain["ids"]).any(axis=(1, 2)).all()
    for row in range(3):
        scores = [
            sum(
                model.reference(row, ids[:place])[0][token]
                + 1.5 * log_softmax(logits[number, place])[token]
                for place, token in enumerate(ids)
            )
            for number, ids in enumerate(every)
        ]
        order = np.argsort(scores)[::-1]
        for place, number in enumerate(order):
            ids = every[number]
            assert found["ids"][row, place, : len(ids)].tolist() == list(ids)
        np.testing.assert_allclose(found["scores"][row], np.array(scores)[order], rtol=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("recurrent", [lstm, lambda: LSTMN(5)], ids=["lstm", "lstmn"])
def test_xla_and_an_unknown_batch_agree_with_eager(recurrent):
    language_model = RecurrentLanguageModel(chain(recurrent()), max_length=4)
    fusion = ShallowFusion(language_model, 0.7)
    model = HashModel(334, batch=3, vocabulary=VOCABULARY)

    def search(offsets):
        state = {"hash": tf.zeros_like(offsets), "nested": [{"position": tf.zeros_like(offsets)}]}
        state["nested"].append((tf.zeros((tf.shape(offsets)[0], 2, 3)),))
        options = {"beam_width": 3, "max_length": 4, "fusion": fusion}
        return beam_search(model.step, state, {"offsets": offsets}, **options)["scores"]

    specs = [tf.TensorSpec([None], tf.int32)]
    eager = search(tf.constant(model.offsets))
    for jit_compile in (False, True):
        compiled = tf.function(search, specs, autograph=False, jit_compile=jit_compile)
        np.testing.assert_allclose(compiled(tf.constant(model.offsets)), eager, rtol=1e-4)


def test_probabilities_are_refused():
    layers = chain(lstm()).layers
    ids = keras.Input([None], dtype="int32")
    with pytest.raises(ValueError, match="returns logits.*Leave the softmax out"):
        RecurrentLanguageModel(keras.Sequential([ids, *layers, keras.layers.Activation("softmax")]))
    log_probs = keras.layers.Activation("log_softmax")
    RecurrentLanguageModel(keras.Sequential([ids, *layers, log_probs]))


def test_a_search_longer_than_the_state_is_refused():
    model = HashModel(seed=332, batch=2, vocabulary=VOCABULARY)
    fusion = ShallowFusion(RecurrentLanguageModel(chain(LSTMN(5)), max_length=8), 0.5)
    given = (model.step, model.state(), model.memory())
    greedy_search(*given, max_length=8, fusion=fusion)
    with pytest.raises(ValueError, match="`state` for at most 8 steps.*Received: 9 steps"):
        greedy_search(*given, max_length=9, fusion=fusion)


def test_other_models_are_refused():
    ids = keras.Input([None], dtype="int32")
    embedded = keras.layers.Embedding(VOCABULARY, 5)(ids)
    residual = keras.layers.Dense(VOCABULARY)(embedded + lstm()(embedded))
    both_ways = chain(keras.layers.Bidirectional(lstm()))
    for model in (keras.Model(ids, residual), both_ways):
        with pytest.raises(ValueError, match="a chain of layers.*steps with logits that differ"):
            RecurrentLanguageModel(model)
    with pytest.raises(ValueError, match="a chain of layers.*steps with the error"):
        RecurrentLanguageModel(keras.Model(ids, keras.layers.Add()([embedded, lstm()(embedded)])))
    with pytest.raises(ValueError, match="expects `max_length` for layers that attend.*lstmn"):
        RecurrentLanguageModel(chain(LSTMN(5)))
    with pytest.raises(ValueError, match="expects `max_length` to be a positive int.*=0"):
        RecurrentLanguageModel(chain(lstm()), max_length=0)
    for model in (3, keras.Sequential([keras.layers.Dense(3)])):
        with pytest.raises(ValueError, match="built Sequential or functional"):
            RecurrentLanguageModel(model)
    last = keras.Model(ids, keras.layers.LSTM(5)(embedded))
    for model in (last, keras.Model(ids, {"scores": residual})):
        with pytest.raises(ValueError, match="returns logits"):
            RecurrentLanguageModel(model)
