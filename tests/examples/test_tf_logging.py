"""TensorFlow's remarks are left out, and nothing else is."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from examples.tf_logging import import_tensorflow

import_tensorflow()
import tensorflow as tf

tf.function(lambda ids: tf.transpose(ids))(tf.ones((3, 5), "int32"))  # as a search ends
squared = tf.function(lambda batch: batch**2)
for size in range(2, 13):  # a trace each, as buckets of several lengths make
    squared(tf.ones((size, 7)))
tf.get_logger().warning("a warning")
print("an error", file=sys.stderr)
"""


@pytest.mark.thorough
def test_only_errors_and_warnings_are_written_after_the_import():
    """oneDNN's line on DT_INT32 came from the first transpose of ids in a graph."""
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "WARNING:tensorflow:a warning\nan error\n")
