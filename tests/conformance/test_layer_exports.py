"""Every layer in a SavedModel, reloaded and served at other sizes."""

import numpy as np
import pytest
from backends import tensorflow_only, tensors
from layer_rows import SIZES, arrays, flat_data
from layer_table import TABLE
from tf_or_skip import tf


@pytest.mark.thorough
@tensorflow_only
@pytest.mark.parametrize("row", TABLE, ids=str)
def test_a_saved_model_serves_other_batch_sizes_and_lengths(row, tmp_path):
    model = row.model(row.built())
    model.export(tmp_path / "model", verbose=False)
    served = tf.saved_model.load(tmp_path / "model")
    for sizes in SIZES[:2]:
        data = tensors(flat_data(row.data(sizes, masks=True)))
        for one, other in zip(arrays(served.serve(data)), arrays(model(data)), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
