"""The line of a long error message that says what happened."""

import pytest
import tensorflow as tf

from keras_attention.export._exception_summary import summarize_error

NODE = "Detected at node 'a/MatMul' defined at (most recent call last):\n  File \"a.py\", line 2"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("short"), "short"),
        (ValueError("\nfirst \nsecond"), "first"),
        (ValueError(), "ValueError"),
        (ValueError("Graph execution error:"), "Graph execution error:"),
        (
            tf.errors.InvalidArgumentError(
                None, None, f"Graph execution error:\n\n{NODE}\nNode: 'a/MatMul'\nNo OpKernel."
            ),
            "No OpKernel.",
        ),
    ],
)
def test_headings_and_places_are_passed_over(error, line):
    assert summarize_error(error) == line
