"""The weights of the additive scorers: saved files depend on their names and order."""

import pytest

import keras_attention as ka

UNITS, QUERY, KEY = 7, (2, 3, 5), (2, 11, 13)
MAKE = {
    "additive": (ka.AdditiveScorer, {}, []),
    "coverage": (ka.CoverageScorer, {}, ["coverage_vector"]),
    "location": (
        ka.LocationSensitiveScorer,
        {"filters": 2, "kernel_size": 3},
        ["filter_kernel", "location_kernel"],
    ),
}


@pytest.mark.parametrize(("make", "options", "features"), MAKE.values(), ids=MAKE)
@pytest.mark.parametrize("use_bias", [True, False])
def test_weights_have_their_names_and_order(make, options, features, use_bias):
    scorer = make(UNITS, use_bias=use_bias, **options)
    scorer.build(QUERY, KEY)
    last = ["vector", "bias"] if use_bias else ["vector"]
    names = [weight.name for weight in scorer.weights]
    assert names == ["query_kernel", "key_kernel", *features, *last]
