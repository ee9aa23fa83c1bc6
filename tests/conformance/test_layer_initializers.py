"""No two weights of a layer start with the same numbers, whatever initializer it is given.

The initializer is the same object for every argument of one kind. Where Keras' own layer would
draw the same numbers twice, for two arguments that are given one seeded object, so do ours.
"""

import functools
import inspect
import itertools

import keras
import numpy as np
import pytest

import keras_attention as ka

MADE = {
    "AdditiveScorer": (lambda **i: ka.AdditiveScorer(5, **i), "pairs"),
    "AttentionPooling": (lambda **i: ka.AttentionPooling(5, **i), "sequence"),
    "BahdanauAttention": (lambda **i: ka.BahdanauAttention(5, **i), "pairs"),
    "BahdanauDecoder": (lambda **i: ka.BahdanauDecoder(7, 5, 4, **i), "decoder"),
    "BahdanauGRU": (lambda **i: ka.BahdanauGRU(5, **i), "sequence"),
    "BahdanauGRUCell": (lambda **i: ka.BahdanauGRUCell(5, **i), "cell"),
    "BilinearScorer": (lambda **i: ka.BilinearScorer(**i), "pairs"),
    "ChoGRUCell": (lambda **i: ka.ChoGRUCell(5, **i), "cell"),
    "ConcatScorer": (lambda **i: ka.ConcatScorer(5, **i), "pairs"),
    "ContextAddCell": (lambda **i: ka.ContextAddCell(**i), None),
    "AttentionalVectorCell": (lambda **i: ka.AttentionalVectorCell(5, **i), None),
    "CoverageScorer": (lambda **i: ka.CoverageScorer(5, **i), "pairs"),
    "DynamicConvolutionScorer": (lambda **i: ka.DynamicConvolutionScorer(5, 5, 5, 5, **i), "pairs"),
    "ForwardAttention": (
        lambda **i: ka.ForwardAttention(ka.GeneralScorer(**i), 5, **i),
        None,  # two owners of one object
    ),
    "GMMAttention": (lambda **i: ka.GMMAttention(3, units=5, **i), "pairs"),
    "GaussianGlimpse": (lambda **i: ka.GaussianGlimpse(3, **i), None),
    "GaussianWriter": (lambda **i: ka.GaussianWriter(7, 5, **i), None),
    "GeneralScorer": (lambda **i: ka.GeneralScorer(**i), "pairs"),
    "HardAttention": (lambda **i: ka.HardAttention(5, **i), "pairs"),
    "LSTMN": (lambda **i: ka.LSTMN(5, 5, **i), "sequence"),
    "LearnedPositionalEmbedding": (lambda **i: ka.LearnedPositionalEmbedding(7, **i), "sequence"),
    "LearnedQueries": (lambda **i: ka.LearnedQueries(3, 5, **i), "sequence"),
    "LocalAttention": (
        lambda **i: ka.LocalAttention(5, "predictive", ka.GeneralScorer(**i), **i),
        None,  # two owners of one object
    ),
    "LocationScorer": (lambda **i: ka.LocationScorer(9, **i), "pairs"),
    "LocationSensitiveScorer": (lambda **i: ka.LocationSensitiveScorer(5, 5, 5, **i), "pairs"),
    "LowRankBilinearScorer": (lambda **i: ka.LowRankBilinearScorer(5, **i), "pairs"),
    "MLPScorer": (lambda **i: ka.MLPScorer([5, 5], **i), "pairs"),
    "RelativePositionBias": (lambda **i: ka.RelativePositionBias(3, 8, 5, **i), "pairs"),
    "RelativePositionEmbedding": (lambda **i: ka.RelativePositionEmbedding(5, **i), "pairs"),
    "MemoryHops": (lambda **i: ka.MemoryHops(7, 5, **i), "story"),
    "MultiHeadAttention": (lambda **i: ka.MultiHeadAttention(2, 3, **i), "pairs"),
    "MultiSourceAttention": (
        lambda **i: ka.MultiSourceAttention(11, 2, "hierarchical", True, 11, **i),
        "pairs",
    ),
    "MultiStepAttention": (lambda **i: ka.MultiStepAttention(**i), "steps"),
    "NTMCell": (lambda **i: ka.NTMCell(5, 7, 5, **i), "cell"),
    "SelfAttention": (lambda **i: ka.SelfAttention(5, **i), "sequence"),
    "SoftAttention": (lambda **i: ka.SoftAttention(5, **i), "pairs"),
    "ChoDecoder": (lambda **i: ka.ChoDecoder(7, 5, 4, **i), "decoder"),
    "WeightNormalizedDense": (lambda **i: ka.WeightNormalizedDense(5, **i), "sequence"),
}
ROW = (3, 11)
SHAPES = {
    "pairs": [(3, 5, 11), (3, 7, 11)],
    "sequence": [(3, 7, 11)],
    "cell": [ROW],
    "decoder": [(3, 5), (3, 7, 11)],
    "steps": [(3, 5, 11)] * 4,
    "story": [(3, 5, 7), (3, 5)],
}
MADE |= {
    "heads-additive": (
        lambda **i: ka.MultiHeadAttention(3, 5, scorer=ka.AdditiveScorer(5, **i)),
        "pairs",
    ),
    "heads-general": (
        lambda **i: ka.MultiHeadAttention(3, 5, scorer=ka.GeneralScorer(**i)),
        "pairs",
    ),
    "heads-low-rank": (
        lambda **i: ka.MultiHeadAttention(3, 5, scorer=ka.LowRankBilinearScorer(2, **i)),
        "pairs",
    ),
    "heads-concat": (
        lambda **i: ka.MultiHeadAttention(3, 5, scorer=ka.ConcatScorer(5, **i)),
        "pairs",
    ),
    "heads-mlp": (
        lambda **i: ka.MultiHeadAttention(3, 5, scorer=ka.MLPScorer([5, 5], abs, **i)),
        "pairs",
    ),
    "num_hops": (lambda **i: ka.MemoryHops(7, 5, weight_tying="layer_wise", **i), "story"),
    "deep-fusion": (lambda **i: ka.ChoDecoder(7, 5, 4, output_rank=3, **i), "decoder"),
}


def normal(shape, dtype=None):
    """An initializer that is a function, and is registered nowhere."""
    return keras.random.normal(shape, dtype=dtype)


class Scaled(keras.initializers.Initializer):
    """An initializer that nobody can copy: it has an argument and no config."""

    def __init__(self, stddev):
        self.stddev = stddev

    def __call__(self, shape, dtype=None):
        return self.stddev * keras.random.normal(shape, dtype=dtype)


KINDS = {
    "int": lambda: keras.initializers.RandomNormal(seed=3),
    "none": keras.initializers.RandomNormal,
    "generator": lambda: keras.initializers.RandomNormal(seed=keras.random.SeedGenerator(3)),
    "function": lambda: normal,
    "partial": lambda: functools.partial(keras.random.normal, stddev=0.1),
    "no config": lambda: Scaled(0.1),
}


def _list_initializers(make):
    """Returns the arguments of a layer that take an initializer of kernels or embeddings."""
    layer = make()
    if isinstance(layer, ka.MultiHeadAttention) and layer.scorer.name != "scaled_dot_scorer":
        layer = layer.scorer
    names = inspect.signature(type(layer)).parameters
    kinds = ("kernel_initializer", "embeddings_initializer", "initializer")
    return [name for name in names if name in kinds]


def _starts(layer):
    """Returns the first numbers of each weight that was drawn."""
    values = {weight.path: np.array(weight).ravel()[:5] for weight in layer.trainable_weights}
    return {path: first for path, first in values.items() if len(set(first.tolist())) > 1}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[] if kind in ("int", "no config") else pytest.mark.thorough)
        for kind in KINDS
    ],
)
@pytest.mark.parametrize("name", [name for name, (_, shapes) in MADE.items() if shapes])
def test_no_two_weights_start_alike(name, kind):
    make, shapes = MADE[name]
    keras.utils.set_random_seed(1)
    layer = make(**dict.fromkeys(_list_initializers(make), KINDS[kind]()))
    layer.build(*SHAPES[shapes])
    starts = _starts(layer)
    assert starts
    for (one, first), (other, second) in itertools.combinations(starts.items(), 2):
        size = min(len(first), len(second))
        assert not np.array_equal(first[:size], second[:size]), (one, other)


def test_every_layer_with_an_initializer_is_tested():
    layers = {name: getattr(ka, name) for name in ka.__all__}
    takes = {
        name
        for name, layer in layers.items()
        if inspect.isclass(layer)
        and issubclass(layer, keras.layers.Layer)
        and any("initializer" in argument for argument in inspect.signature(layer).parameters)
    }
    assert takes <= set(MADE)


def test_blocks_of_a_kernel_differ_with_a_generator():
    seed = keras.random.SeedGenerator(3)
    cell = ka.BahdanauGRUCell(5, kernel_initializer=keras.initializers.RandomNormal(seed=seed))
    cell.build(ROW)
    update, reset, candidate = np.split(np.array(cell.kernel), 3, axis=1)
    assert not np.array_equal(update, reset) and not np.array_equal(update, candidate)


@pytest.mark.parametrize("kind", ["int", "generator"])
def test_the_config_keeps_the_initializer_of_the_user(kind):
    layer = ka.BahdanauAttention(5, kernel_initializer=KINDS[kind]())
    layer.build((3, 5, 11), (3, 7, 11))
    again = ka.BahdanauAttention.from_config(layer.get_config())
    again.build((3, 5, 11), (3, 7, 11))
    kernels = [np.array(one.scorer.query_kernel) for one in (layer, again)]
    np.testing.assert_array_equal(*kernels)


def test_heads_copy_a_scorer_whose_functions_cannot_be_serialized():
    leaky = functools.partial(keras.ops.leaky_relu, negative_slope=0.3)
    scorer = ka.MLPScorer([5], activation=leaky)
    layer = ka.MultiHeadAttention(2, 3, scorer=scorer)
    layer.build(*SHAPES["pairs"])
    (other,) = layer.other_head_scorers
    assert scorer.activation is leaky and other.activation is leaky


def test_kernels_of_one_argument_differ_under_one_seed_in_scorer_and_heads():
    """As in Keras, another argument that is given the same object draws the same numbers."""
    seeded = keras.initializers.RandomUniform(seed=7)
    scorer = ka.AdditiveScorer(6, kernel_initializer=seeded, vector_initializer=seeded)
    heads = ka.MultiHeadAttention(3, 6, scorer=scorer, kernel_initializer=seeded)
    heads.build(*SHAPES["pairs"])
    scorers = [scorer, *heads.other_head_scorers]
    for kernels in (
        [heads.query_dense.kernel, heads.key_dense.kernel, heads.value_dense.kernel],
        [one.query_kernel for one in scorers] + [one.key_kernel for one in scorers],
        [one.vector for one in scorers],
    ):
        starts = {np.array(kernel).ravel()[:5].tobytes() for kernel in kernels}
        assert len(starts) == len(kernels)
    theirs = keras.layers.LSTM(3, kernel_initializer=seeded, bias_initializer=seeded)
    theirs.build((2, 5, 1))
    assert np.array_equal(theirs.cell.kernel[0, :3], theirs.cell.bias[:3])
