"""Argument checks of the layers, searches and exports, for your own layers and functions too.

They raise `ValueError` before any tensor is used, so that a wrong argument never surfaces as a
shape error of the backend. Messages state the expected and the received value and the remedy.
`owner` is the name of the class or function that the user called.

>>> check_positive_int("MyScorer", "units", 0)
Traceback (most recent call last):
    ...
ValueError: MyScorer expects `units` to be a positive int. Received: units=0
"""

from keras_attention.validation.argument_checks import (
    check_axes,
    check_built_dims,
    check_ids_in_vocabulary,
    check_inputs,
    check_int_at_least,
    check_number_in_range,
    check_one_of,
    check_positive_int,
    check_previous_weights,
    check_rank,
    check_ready,
    check_same_size,
    convert_mask,
    describe_value,
    fit_mask,
    refuse_arguments,
    resolve_mask,
    static_shape,
)
from keras_attention.validation.optional_packages import missing_package_error

__all__ = [
    "check_axes",
    "check_built_dims",
    "check_ids_in_vocabulary",
    "check_inputs",
    "check_int_at_least",
    "check_number_in_range",
    "check_one_of",
    "check_positive_int",
    "check_previous_weights",
    "check_rank",
    "check_ready",
    "check_same_size",
    "convert_mask",
    "describe_value",
    "fit_mask",
    "missing_package_error",
    "refuse_arguments",
    "resolve_mask",
    "static_shape",
]
