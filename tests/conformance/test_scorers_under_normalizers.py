"""Every scorer under every normalizer inside `Attention`: one meaning of masks for all pairs."""

import numpy as np
import pytest
from backends import outputs_and_gradients, policies
from layer_rows import Mask, Row, arrays

import keras_attention as ka

SCORERS = {
    "AdditiveScorer": lambda **o: ka.AdditiveScorer(5, **o),
    "BilinearScorer": lambda **o: ka.BilinearScorer(**o),
    "ConcatScorer": lambda **o: ka.ConcatScorer(5, **o),
    "CosineScorer": lambda **o: ka.CosineScorer(**o),
    "CoverageScorer": lambda **o: ka.CoverageScorer(5, **o),
    "DotScorer": lambda **o: ka.DotScorer(**o),
    "DynamicConvolutionScorer": lambda **o: ka.DynamicConvolutionScorer(5, 2, 2, 3, **o),
    "GeneralScorer": lambda **o: ka.GeneralScorer(**o),
    "LocationScorer": lambda **o: ka.LocationScorer(7, **o),
    "LocationSensitiveScorer": lambda **o: ka.LocationSensitiveScorer(5, 2, 3, **o),
    "LowRankBilinearScorer": lambda **o: ka.LowRankBilinearScorer(2, **o),
    "MLPScorer": lambda **o: ka.MLPScorer([5], **o),
    "ScaledDotScorer": lambda **o: ka.ScaledDotScorer(**o),
    "UniformScorer": lambda **o: ka.UniformScorer(**o),
}
NORMALIZERS = {
    "ArgmaxNormalizer": lambda **o: ka.ArgmaxNormalizer(**o),
    "EntmaxNormalizer": lambda **o: ka.EntmaxNormalizer(**o),
    "ForwardNormalizer": lambda **o: ka.ForwardNormalizer(**o),
    "GumbelSoftmaxNormalizer": lambda **o: ka.GumbelSoftmaxNormalizer(seed=1, **o),
    "MonotonicNormalizer": lambda **o: ka.MonotonicNormalizer(**o),
    "SampleNormalizer": lambda **o: ka.SampleNormalizer(seed=1, **o),
    "SoftmaxNormalizer": lambda **o: ka.SoftmaxNormalizer(**o),
    "SparsemaxNormalizer": lambda **o: ka.SparsemaxNormalizer(**o),
}
#: Their weights may sum to less than 1: what is left over is read from no position.
LESS_THAN_ONE = {"MonotonicNormalizer"}

MASK = {"value_mask": Mask(("batch", "key"), "value")}
READ = {"query": ("batch", "query", 3), "value": ("batch", "key", 3)}


def _public(base):
    named = {name: getattr(ka, name) for name in ka.__all__}
    layers = {n: c for n, c in named.items() if isinstance(c, type) and issubclass(c, base)}
    return set(layers) - {base.__name__}


def test_every_scorer_and_every_normalizer_is_in_the_matrix():
    assert _public(ka.Scorer) == set(SCORERS)
    assert _public(ka.Normalizer) == set(NORMALIZERS)


def _row(scorer, normalizer):
    def make(**options):
        pieces = {"scorer": SCORERS[scorer], "normalizer": NORMALIZERS[normalizer]}
        pieces = {name: piece(**options) for name, piece in pieces.items()}
        return ka.Attention(**pieces, **options)

    return Row(ka.Attention, make, READ, MASK, {"return_attention_scores": True})


@pytest.mark.thorough
@pytest.mark.parametrize("policy", policies("float32", "mixed_float16"))
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("scorer", SCORERS)
def test_a_pair_reads_what_is_kept_and_nothing_else(scorer, normalizer, policy):
    row = _row(scorer, normalizer)
    layer, data = row.built(dtype=policy), row.data(masks=True)
    kept = data["value_mask"]
    (context, weights), *gradients = outputs_and_gradients(row, layer, data)
    assert all(np.isfinite(g).all() for group in gradients for g in group)
    assert np.all(weights >= 0)
    assert np.all(weights[np.broadcast_to(~kept[:, None], weights.shape)] == 0)
    sums, full = weights.sum(-1), np.broadcast_to(kept.any(-1)[:, None], weights.shape[:2])
    tolerance = 1e-5 if policy == "float32" else 4e-3
    assert np.all(sums <= full + tolerance)
    if normalizer not in LESS_THAN_ONE:
        np.testing.assert_allclose(sums, full, atol=tolerance)
    expected = np.einsum("bqk,bkd->bqd", weights, data["value"])
    np.testing.assert_allclose(context, expected, atol=tolerance * 4)
    junk = np.where(kept[..., None], data["value"], np.float32(np.nan))
    again = arrays(row.call(layer, data | {"value": junk}))
    np.testing.assert_array_equal(again[0], context)
