"""A cache, step by step, against the parallel causal call."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

import keras_attention as ka
from keras_attention.attention._key_value_cache import empty_cache, write_cache
from keras_attention.kernels import execution_mode

ROWS, LENGTH, WIDTH, ROOM = 3, 7, 11, 9

LAYERS = {
    "plain": lambda **o: ka.MultiHeadAttention(4, 6, 5, **o),
    "grouped": lambda **o: ka.MultiHeadAttention(4, 6, 5, 2, use_bias=True, **o),
    "rotary": lambda **o: ka.MultiHeadAttention(2, 6, rotary=ka.RotaryEmbedding(**o), **o),
    "relative": lambda **o: ka.MultiHeadAttention(
        4,
        6,
        5,
        2,
        relative_keys=ka.RelativePositionEmbedding(2, "normal", **o),
        relative_values=ka.RelativePositionEmbedding(3, "normal", **o),
        **o,
    ),
    "additive": lambda **o: ka.MultiHeadAttention(2, 6, scorer=ka.AdditiveScorer(3, **o), **o),
}


def _built(name, **options):
    set_seed(1)
    layer = LAYERS[name](**options)
    layer.build((None, None, WIDTH), (None, None, WIDTH))
    states = np.random.RandomState(1).randn(ROWS, LENGTH, WIDTH).astype("float32")
    return layer, states


@pytest.mark.parametrize("name", LAYERS)
def test_steps_equal_the_parallel_causal_call(name):
    layer, states = _built(name)
    given = {"use_causal_mask": True, "return_attention_scores": True}
    expected, weights = layer(states, states, **given)
    cache = layer.start_cache(ROWS, ROOM)
    for step in range(LENGTH):
        position = np.full(ROWS, step)
        cache = layer.extend_cache(cache, states[:, step], position)
        context, its = layer.attend(states[:, step], cache, position=position)
        np.testing.assert_allclose(context, expected[:, step], atol=1e-5)
        np.testing.assert_allclose(its[..., :LENGTH], weights[:, :, step], atol=1e-5)
        assert np.all(np.array(its)[..., LENGTH:] == 0)


@pytest.mark.parametrize("name", LAYERS)
def test_rows_stand_at_different_positions_and_begin_with_a_prompt(name):
    layer, states = _built(name)
    expected = np.array(layer(states, states, use_causal_mask=True))
    lengths = np.array([4, 1, 3])  # of the prompts, padded to 4
    prompt_mask = np.arange(4) < lengths[:, None]
    cache = layer.start_cache(ROWS, ROOM)
    start = np.zeros(ROWS, "int32")
    cache = layer.extend_cache(cache, states[:, :4], start, value_mask=prompt_mask)
    read, _ = layer.attend(states[:, :4], cache, position=start, use_causal_mask=True)
    np.testing.assert_allclose(read[prompt_mask], expected[:, :4][prompt_mask], atol=1e-5)
    for step in range(3):
        position = lengths + step
        new = states[np.arange(ROWS), position]
        cache = layer.extend_cache(cache, new, position)
        context, _ = layer.attend(new, cache, position=position)
        np.testing.assert_allclose(context, expected[np.arange(ROWS), position], atol=1e-5)


def test_beams_are_reordered_by_gathering_rows():
    layer, states = _built("rotary")
    parents = np.array([2, 0, 0])
    cache = layer.start_cache(ROWS, ROOM)
    for step in range(3):
        cache = layer.extend_cache(cache, states[:, step], np.full(ROWS, step))
    cache = keras.tree.map_structure(lambda leaf: keras.ops.take(leaf, parents, axis=0), cache)
    cache = layer.extend_cache(cache, states[:, 3], np.full(ROWS, 3))
    context, _ = layer.attend(states[:, 3], cache, position=np.full(ROWS, 3))
    joined = np.concatenate([states[parents, :3], states[:, 3:4]], axis=1)
    expected = layer(joined, joined, use_causal_mask=True)
    np.testing.assert_allclose(context, expected[:, 3], atol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("compiled", [False, True])
def test_a_cache_is_the_state_of_a_compiled_loop(compiled):
    layer, states = _built("grouped")
    expected = layer(states, states, use_causal_mask=True)

    @tf.function(
        jit_compile=compiled, input_signature=[tf.TensorSpec([None, None, WIDTH], "float32")]
    )
    def decode(states):
        rows, length = tf.shape(states)[0], tf.shape(states)[1]

        def step(number, cache, outputs):
            position = tf.fill([rows], number)
            new = tf.gather(states, number, axis=1)
            cache = layer.extend_cache(cache, new, position)
            context, _ = layer.attend(new, cache, position=position)
            here = (tf.range(length) == number)[None, :, None]
            return number + 1, cache, tf.where(here, context[:, None], outputs)

        state = (tf.constant(0), layer.start_cache(rows, ROOM), tf.zeros_like(states))
        return tf.while_loop(
            lambda number, *_: number < length, step, state, maximum_iterations=LENGTH
        )[2]

    np.testing.assert_allclose(decode(states), expected, atol=1e-5)


def test_what_was_written_earlier_at_later_positions_is_not_read_causally():
    layer, states = _built("plain")
    full = layer.extend_cache(layer.start_cache(ROWS, ROOM), states, np.zeros(ROWS, "int32"))
    position = np.array([2, 0, 5])
    query = states[np.arange(ROWS), position]
    context, _ = layer.attend(query, full, position=position, use_causal_mask=True)
    expected = np.array(layer(states, states, use_causal_mask=True))
    np.testing.assert_allclose(context, expected[np.arange(ROWS), position], atol=1e-5)


@pytest.mark.parametrize("policy", ["float32", "float16", "bfloat16"])
def test_an_empty_cache_gives_zeros(policy):
    layer, states = _built("grouped", dtype=policy)
    context, weights = layer.attend(states[:, 0], layer.start_cache(ROWS, ROOM))
    assert np.all(np.array(weights) == 0) and np.all(np.array(context) == 0)
    assert keras.backend.standardize_dtype(context.dtype) == policy


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("position", [[2, 0], [3, 1], [-1, 2]])
def test_one_position_is_written_alike_on_every_device(monkeypatch, on_gpu, position):
    monkeypatch.setattr(execution_mode, "has_gpu", lambda: on_gpu)
    draw = np.random.default_rng(1)
    cache = empty_cache(2, 3, {"value": (5, 7)}, "float32")
    new = {"value": draw.normal(size=(2, 5, 1, 7)), "mask": np.ones((2, 1), bool)}
    written = write_cache(cache, new, np.array(position))
    values, mask = np.zeros((2, 5, 3, 7), "float32"), np.zeros((2, 3), bool)
    for row, place in enumerate(position):
        if 0 <= place < 3:
            values[row, :, place], mask[row, place] = new["value"][row, :, 0], True
    np.testing.assert_array_equal(written["value"], values)
    np.testing.assert_array_equal(written["mask"], mask)


def test_what_does_not_fit_is_not_written():
    cache = empty_cache(2, 3, {"value": (1, 1)}, "float32")
    new = {"value": np.array([[[[1.0], [2.0]]], [[[3.0], [4.0]]]]), "mask": np.ones((2, 2), bool)}
    cache = write_cache(cache, new, np.array([2, -1]))
    np.testing.assert_array_equal(cache["value"][:, 0, :, 0], [[0, 0, 1], [4, 0, 0]])
    np.testing.assert_array_equal(cache["mask"], [[False, False, True], [True, False, False]])
