import pathlib

import keras
import numpy as np
import tensorflow as tf

from examples.recipes.language import Language
from examples.training.fitting import evaluate


def test_the_loss_is_a_mean_over_tokens_and_leaves_padding_out():
    logits = np.random.default_rng(1).normal(size=(2, 3, 5)).astype("float32")
    target = np.array([[4, 1, 3], [3, 0, 0]])
    recipe = Language(text=pathlib.Path("x"), validation_text=pathlib.Path("x"))
    inputs = {"logits": keras.Input([None, 5], name="logits")}
    model = keras.Model(inputs, {**inputs, "weights": 2 * inputs["logits"]})
    batch = {"logits": logits}, {"logits": target}
    found = evaluate(
        model, tf.data.Dataset.from_tensors(batch), recipe.make_loss(), recipe.make_metrics()
    )
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    kept = [log_probs[row, step, target[row, step]] for row, step in np.argwhere(target)]
    assert len(kept) == 4
    np.testing.assert_allclose(found["loss"], -np.mean(kept), rtol=1e-5)
    np.testing.assert_allclose(found["perplexity"], np.exp(-np.mean(kept)), rtol=1e-5)
