"""How far the positions that local attention predicts are from the largest weights of an alignment.

    distance = mean of |p_t - argmax_s a_t(s)| over target tokens, the EOS token left out

p_t: the position predicted for target token t (`LocalAttention`, mode "predictive"), a_t: its
weights over the source, of the same model or, better, of one that is free to attend everywhere.
"""

import pathlib

import keras
import tensorflow as tf

from examples.commands.arguments import UsageError
from examples.data.encoding import END_ID
from examples.recipes.same_tokens import check_same_tokens
from keras_attention.export.runs import SIDES, Run, read_run

NEAR = 1.0  # of the source's positions, "within one"


def predicts_positions(model: keras.Model) -> bool:
    """Returns whether the decoder of a translator has an attention that predicts positions."""
    decoder = model.get_layer("decoder")
    decoder = getattr(decoder, "decoder", decoder)  # scheduled sampling holds one
    return "position" in getattr(getattr(decoder, "attention", None), "auxiliary_outputs", ())


def load_aligned_by(run: Run, directory: pathlib.Path | None) -> keras.Model | None:
    """Returns the model whose alignment predicted positions are compared with.

    Args:
        run: The run of a translator.
        directory: The run of that model; None for the model itself.

    Returns:
        The model, or None if the translator predicts no positions.

    Raises:
        UsageError: If a directory is given, and it predicts none.
        ValueError: If the tokens of the two are not the same.
    """
    if not predicts_positions(run.model):
        if directory is not None:
            raise UsageError(
                "--aligned-by is for attention that predicts positions, which that of "
                f"{run.directory} does not. Leave it out."
            )
        return None
    if directory is None:
        return run.model
    other = read_run(directory)
    for side in SIDES:
        folders = [one.directory / f"{side}.tokenizer" for one in (run, other)]
        check_same_tokens(*folders, "a run can only be aligned by one on the same tokens")
    return other.model


def measure_predicted_positions(
    model: keras.Model, batches, aligned_by: keras.Model
) -> dict[str, float]:
    """Returns the mean distance and the fraction of tokens whose position is within one.

    Args:
        model: A translator whose attention predicts positions.
        batches: Iterable of `(inputs, labels, ...)`; the references are fed.
        aligned_by: The translator, of the same tokenizers, whose largest weights are where a
            token is aligned to.
    """
    distance = near = count = 0.0
    for inputs, labels, *_ in batches:
        predicted = _decode(model, inputs, return_auxiliary_outputs=True)[-1]["position"]
        alignment = _decode(aligned_by, inputs, return_attention_scores=True)[-1]
        aligned = tf.cast(tf.argmax(alignment, axis=-1), "float32")
        apart = tf.boolean_mask(tf.abs(predicted - aligned), (labels != 0) & (labels != END_ID))
        distance += float(tf.reduce_sum(apart))
        near += float(tf.reduce_sum(tf.cast(apart <= NEAR, "float32")))
        count += float(tf.size(apart))
    return {"position_distance": distance / count, "position_within_one": near / count}


def _decode(model, inputs, **wanted):
    encoded = model.get_layer("encoder")(inputs["source"], training=False)
    return model.get_layer("decoder")(
        inputs["target"],
        encoded["memory"],
        initial_state=encoded.get("initial_state"),
        memory_mask=inputs["source"] != 0,
        training=False,
        **wanted,
    )
