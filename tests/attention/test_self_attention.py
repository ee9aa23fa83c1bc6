"""Self-attention: the equations written out, the window, masks, projections, bad input."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

import keras_attention as ka
from keras_attention import SelfAttention

B, T, D = 3, 53, 7
LENGTHS = np.array([[53], [17], [0]])
MASK = np.arange(T) < LENGTHS
INPUTS = np.random.RandomState(1).randn(B, T, D)


def _built(dtype="float64", **options):
    set_seed(1)
    layer = SelfAttention(dtype=dtype, **options)
    layer.build(INPUTS.shape)
    return layer


def _vaswani(layer, inputs, length, causal):
    """Equation 1 for one sequence, position by position, restricted to the window."""
    query, key, value = inputs, inputs, inputs
    if layer.units:
        arrays = [np.array(weight) for weight in layer.trainable_variables]
        kernels, biases = (arrays[::2], arrays[1::2]) if layer.use_bias else (arrays, [0, 0, 0])
        query, key, value = (inputs @ k + b for k, b in zip(kernels, biases, strict=True))
    reach = len(inputs) if layer.window is None else layer.window // 2
    weights = np.zeros((len(inputs), len(inputs)))
    for i in range(length):
        last = i if causal else length - 1
        read = [j for j in range(i - reach, i + reach + 1) if 0 <= j <= min(last, length - 1)]
        exponentials = np.exp([query[i] @ key[j] / np.sqrt(key.shape[-1]) for j in read])
        weights[i, read] = exponentials / exponentials.sum()
    return weights @ value, weights


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"window": 5},
        {"units": 5, "value_units": 3},
        {"units": 5, "window": 9, "use_bias": True, "bias_initializer": "normal"},
    ],
    ids=["plain", "window", "projected", "both"],
)
def test_it_computes_the_equations_of_the_paper(options, causal):
    layer = _built(**options)
    context, weights = layer(
        INPUTS, mask=MASK, return_attention_scores=True, use_causal_mask=causal
    )
    for b in range(B):
        expected = _vaswani(layer, INPUTS[b], LENGTHS[b, 0], causal)
        np.testing.assert_allclose(np.array(context)[b], expected[0], atol=1e-12)
        np.testing.assert_allclose(np.array(weights)[b], expected[1], atol=1e-12)


@pytest.mark.parametrize("window", [2 * T - 1, 2 * T + 1])
def test_a_window_over_the_whole_sequence_equals_full_attention(window):
    restricted, full = _built(units=5, window=window), _built(units=5)
    full.set_weights(restricted.get_weights())
    flags = {"mask": MASK, "return_attention_scores": True}
    for one, other in zip(restricted(INPUTS, **flags), full(INPUTS, **flags), strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-5)])
def test_the_window_equals_a_mask_of_its_shape(dtype, tolerance):
    near = np.abs(np.arange(T)[:, None] - np.arange(T)) <= 4
    holes = np.random.RandomState(2).rand(B, T) > 0.3

    def run(layer, **flags):
        inputs = tf.constant(INPUTS, dtype)
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            results = layer(inputs, mask=MASK & holes, return_attention_scores=True, **flags)
            total = tf.add_n([tf.reduce_sum(tf.sin(5 * result)) for result in results])
        return [*results, *tape.gradient(total, [inputs, *layer.trainable_variables])]

    restricted, full = _built(dtype, units=5, window=9), _built(dtype, units=5)
    full.set_weights(restricted.get_weights())
    results = run(full, attention_mask=np.broadcast_to(near, (B, T, T)))
    for one, other in zip(run(restricted), results, strict=True):
        bound = tolerance * np.abs(other).max()
        np.testing.assert_allclose(one, other, rtol=0, atol=bound)


def test_without_projections_it_compares_the_inputs_as_they_are():
    attention = ka.Attention("scaled_dot", dtype="float64")
    np.testing.assert_allclose(
        _built()(INPUTS, mask=MASK),
        attention(INPUTS, INPUTS, query_mask=MASK, value_mask=MASK),
        atol=1e-12,
    )
    assert not _built().weights


@pytest.mark.parametrize("window", [None, 5])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "mixed_float16"])
def test_padding_may_hold_anything_and_reads_nothing(window, dtype):
    layer = _built(dtype, units=5, window=window, use_bias=True, bias_initializer="ones")

    def run(inputs):
        with tf.GradientTape() as tape:
            context = layer(tf.constant(inputs), mask=MASK)
            total = tf.reduce_sum(tf.cast(context, "float32") ** 2)
        gradients = tape.gradient(total, layer.trainable_variables)
        return [np.array(tf.cast(x, "float32")) for x in (context, *gradients)]

    results = run(INPUTS)
    assert np.all(results[0][~MASK] == 0) and np.all(results[0][MASK].any(-1))
    for one, other in zip(results, run(np.where(MASK[..., None], INPUTS, np.inf)), strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_array_equal(one, other)


def test_the_three_kernels_start_apart():
    kernels = [
        np.array(weight)
        for weight in _built(
            units=D, kernel_initializer=keras.initializers.GlorotUniform(3)
        ).weights
    ]
    assert len(kernels) == 3
    assert all(not np.array_equal(kernels[i], kernels[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_a_scorer_and_a_normalizer_may_be_objects():
    layer = _built(scorer=ka.AdditiveScorer(3, dtype="float64"), normalizer="softmax", window=3)
    again = SelfAttention.from_config(layer.get_config())
    assert (again.scorer.units, again.window) == (3, 3)
    _, weights = layer(INPUTS, return_attention_scores=True)
    np.testing.assert_allclose(np.array(weights).sum(-1), 1, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": 64}, "Use 63 or 65.*window=64"),
        ({"window": 0}, "`window` to be a positive int"),
        ({"units": 0}, "`units` to be a positive int"),
        ({"units": 3, "value_units": -1}, "`value_units` to be a positive int"),
        ({"value_units": 3}, "no projections if `units` is None.*value_units=3"),
        ({"dropout": 1.0}, "`dropout` to be a number"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SelfAttention(**arguments)


def test_inputs_of_another_rank_are_refused():
    with pytest.raises(ValueError, match="`inputs` of shape .batch, time, dim.*shape=.3, 7"):
        SelfAttention()(INPUTS[:, 0])
