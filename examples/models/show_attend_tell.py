"""Show, Attend and Tell, Xu et al. 2015 (https://arxiv.org/abs/1502.03044).

    the annotations of `examples.models.encoders.image_encoder`                section 3.1.1
    the decoder of `keras_attention.ShowAttendTellDecoder`               section 3.1.2
    soft:   + lambda sum_i (1 - sum_t alpha_ti)^2                        equation 14
    hard:   - lambda_r (log p - b) sum_t log alpha_t[s_t] - lambda_e sum_t H[alpha_t]

These terms are means over captions. The paper adds them to the sum over a caption's words, our
training to the mean loss of a word: a lambda of the paper is here that lambda divided by the mean
number of words of a caption, the EOS token counted. Its 1 is 0.25 for captions of three digits.

The paper: VGG annotations 14 x 14 x 512, units 1000 or more, lambda 1, for half of the examples
the hard model reads as the soft one does. The authors' code has lambda_r 0.1 on the mean
log-probability of a word.
"""

from typing import Literal

import keras
from keras import ops

from examples.commands.options import Fraction, NonNegativeFloat
from examples.models.encoders import image_encoder
from examples.models.encoders.image_encoder import BACKBONE_SIZE, CONVOLUTIONS, Convolutions
from keras_attention import (
    DoublyStochasticLoss,
    HardAttention,
    ReinforceLoss,
    ShowAttendTellDecoder,
    SoftAttention,
    validation,
)

TITLE = "Show, Attend and Tell: a caption that looks at the image for each word"
REFERENCE = "Xu et al. 2015, arXiv 1502.03044"
HARD = ("reinforce", "reward", "entropy", "expected_rate", "inference_mode")
BELONGS_TO = {
    "doubly_stochastic": ("attention", ("soft",)),
    **dict.fromkeys(HARD, ("attention", ("hard",))),
}
END = 3


def build(
    vocabulary_size: int,
    side: int,
    attention: Literal["soft", "hard"] = "soft",
    units: int = 128,
    embedding_dim: int = 64,
    annotation_dim: int = 96,
    backbone: str | None = None,
    backbone_weights: str | None = None,
    backbone_size: int = BACKBONE_SIZE,
    train_backbone: bool = False,
    convolutions: Convolutions = CONVOLUTIONS,
    gate: bool = True,
    doubly_stochastic: NonNegativeFloat = 0.0,
    reinforce: NonNegativeFloat = 0.1,
    reward: Literal["sum", "mean"] = "mean",
    entropy: NonNegativeFloat = 0.002,
    expected_rate: Fraction = 0.5,
    inference_mode: Literal["argmax", "sample", "expected"] = "argmax",
    dropout: Fraction = 0.0,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns the model as a functional one from `image` and `target` to `logits` and `weights`.

    Args:
        vocabulary_size: Number of ids.
        side: Points on a side of an image.
        attention: The mean of all locations, or one drawn.
        units: Size of the decoder's state and of the attention.
        embedding_dim: Size of the embedding and of the readout.
        annotation_dim: Size of an annotation, the vector of a location.
        backbone: Network of keras.applications by its name, such as VGG16; a small network,
            trained along, by default.
        backbone_weights: File of your weights for it, made with include_top=False; random by
            default.
        backbone_size: Side that images are scaled to for it.
        train_backbone: Train it along.
        convolutions: Those of the small network, of which three halve the image: a location sees 33
            points with 4, 45 with 6, 73 with 9; what sees all need not look.
        gate: Let the decoder turn its attention down.
        doubly_stochastic: Soft: lambda of a caption's penalty, beside the mean loss of a word; the
            paper's 1, for 196 locations, is beside the sum over a caption's words: here 1 / their
            mean number.
        reinforce: Hard: lambda_r beside the mean loss of a word, 0 is the control without
            REINFORCE; see `keras_attention.ReinforceLoss`.
        reward: Hard: log-probability of the caption, or of a word.
        entropy: Hard: lambda_e, for looking around; times the entropies summed over a caption,
            beside the mean loss of a word.
        expected_rate: Hard: fraction that reads as soft does, in training; see
            `keras_attention.HardAttention`.
        inference_mode: Hard: what is read after training.
        dropout: Fraction dropped from embedding and readout.
        seed: Seed of drawn locations and of the dropout.
        dtype: Optional dtype policy, such as "mixed_bfloat16".

    Returns:
        A model from `{"image": (batch, side, side, 1), "target": (batch, time)}`, the ids
        `[start, y_1 .. y_{T-1}]`, to `{"logits": (batch, time, vocabulary_size), "weights":
        (batch, time, locations)}`, with the children `encoder`, image to `memory`, and `decoder`.

    Raises:
        ValueError: If there is no such attention, or the images' arguments are wrong.
    """
    validation.check_one_of("show_attend_tell", "attention", attention, ("soft", "hard"))
    image = keras.Input([side, side, 1], name="image")
    target = keras.Input([None], dtype="int32", name="target")
    memory, _ = image_encoder.annotations(
        image,
        annotation_dim,
        backbone,
        backbone_weights,
        backbone_size,
        train_backbone,
        convolutions,
        dtype=dtype,
    )
    encoder = keras.Model(image, {"memory": memory}, name="encoder")
    options = {"use_gate": gate, "seed": seed, "dtype": dtype, "name": "attention"}
    is_hard = attention == "hard"
    mechanism = (
        HardAttention(units, expected_rate=expected_rate, inference_mode=inference_mode, **options)
        if is_hard
        else SoftAttention(units, **options)
    )
    decoder = ShowAttendTellDecoder(
        vocabulary_size,
        embedding_dim,
        units,
        mechanism,
        dropout=dropout,
        seed=None if seed is None else seed + 10,
        dtype=dtype,
        name="decoder",
    )
    logits, weights, auxiliary_outputs = decoder(
        target,
        encoder(image)["memory"],
        return_attention_scores=True,
        return_auxiliary_outputs=True,
    )
    real = ops.not_equal(target, 0)
    if is_hard:
        loss = ReinforceLoss(reinforce, entropy, reward=reward, dtype=dtype, name="reinforce")
        logits = loss(logits, said_next(target), **auxiliary_outputs, mask=real)
    elif doubly_stochastic:
        loss = DoublyStochasticLoss(doubly_stochastic, dtype=dtype, name="doubly_stochastic")
        logits = loss(logits, weights, mask=real)
    inputs = {"image": image, "target": target}
    return keras.Model(inputs, {"logits": logits, "weights": weights}, name="show_attend_tell")


def said_next(target):
    """Returns `[y_1 .. y_T]` of `[start, y_1 .. y_{T-1}]`: the next id, the end after the last.

    Example:

    >>> ops.convert_to_numpy(said_next(ops.array([[2, 7, 5], [2, 9, 0]]))).tolist()
    [[7, 5, 3], [9, 3, 0]]
    """
    behind = ops.pad(target[:, 1:], [[0, 0], [0, 1]])
    is_last = ops.logical_and(ops.not_equal(target, 0), ops.equal(behind, 0))
    return ops.where(is_last, END, behind)
