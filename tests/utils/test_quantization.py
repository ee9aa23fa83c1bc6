"""Attributes of layers whose weights may be quantized."""

import pytest

import keras_attention as ka


class Halves(ka.GeneralScorer):
    @property
    def half(self):
        return self.scale / 2  # a scorer has no scale


@pytest.mark.parametrize("is_quantized", [False, True])
def test_an_error_inside_a_property_names_the_attribute_that_is_missing(is_quantized):
    scorer = Halves()
    scorer.build((None, None, 3), (None, None, 2))
    if is_quantized:
        scorer.quantize("int8")
    with pytest.raises(AttributeError, match="'Halves' object has no attribute 'scale'"):
        scorer.half  # noqa: B018
    with pytest.raises(AttributeError, match="'Halves' object has no attribute 'kernels'"):
        scorer.kernels  # noqa: B018
