"""The loop under every recurrent layer, where Keras' own handling of masks needs help."""

import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention._utils.loop import run_loop

B, T, D = 3, 5, 2
LENGTHS = np.array([5, 2, 0])
MASK = np.arange(T) < LENGTHS[:, None]


@pytest.mark.parametrize("graph", [False, True])
def test_a_mask_leaves_a_state_of_rank_one_as_it_is(graph):
    """Keras applies a mask as a column: a counter `(batch,)` became `(batch, batch)`."""

    def step(inputs, states):
        counted = states[0]["position"] + 1
        return inputs + tf.cast(counted, "float32")[:, None], [{"position": counted}]

    def run(inputs, mask):
        start = [{"position": tf.zeros(tf.shape(inputs)[:1], "int32")}]
        return run_loop(step, inputs, start, mask=mask)

    if graph:
        specs = [tf.TensorSpec([None, None, D]), tf.TensorSpec([None, None], "bool")]
        run = tf.function(run, input_signature=specs)
    outputs, states = run(tf.zeros((B, T, D)), tf.constant(MASK))
    np.testing.assert_array_equal(states[0]["position"], LENGTHS)
    expected = np.where(MASK, np.arange(1, T + 1), 0)
    np.testing.assert_array_equal(np.array(outputs)[..., 0], expected)
