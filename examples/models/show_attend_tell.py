"""Show, Attend and Tell, Xu et al. 2015 (https://arxiv.org/abs/1502.03044).

    the annotations of `examples.models.encoders.picture`                section 3.1.1
    the decoder of `keras_attention.ShowAttendTellDecoder`               section 3.1.2
    soft:   + lambda sum_i (1 - sum_t alpha_ti)^2                        equation 14
    hard:   - lambda_r (log p - b) sum_t log alpha_t[s_t] - lambda_e sum_t H[alpha_t]

These terms are means over captions. The paper adds them to the sum over a caption's words, our
training to the mean loss of a word: a lambda of the paper is here that lambda divided by the mean
number of words of a caption, the end mark counted. Its 1 is 0.25 for captions of three digits.

The paper: VGG annotations 14 x 14 x 512, units 1000 or more, lambda 1, for half of the examples
the hard model reads as the soft one does. The authors' code has lambda_r 0.1 on the mean
log-probability of a word.
"""

import keras
from keras import ops

from examples.commands.arguments import fraction, not_negative
from examples.models.encoders import picture
from examples.options import Option
from keras_attention import (
    DoublyStochasticLoss,
    HardAttention,
    ReinforceLoss,
    ShowAttendTellDecoder,
    SoftAttention,
    validation,
)

TITLE = "Show, Attend and Tell: a caption that looks at the picture for each word"
REFERENCE = "Xu et al. 2015, arXiv 1502.03044"
INPUTS = ("image", "target")
GUIDED = False
END = 3
KINDS = ("soft", "hard")
OPTIONS = {
    "attention": Option("soft", "the mean of all locations, or one drawn", str, KINDS),
    "units": Option(128, "size of the decoder's state and of the attention"),
    "embedding_dim": Option(64, "size of the embedding and of the readout"),
    **picture.OPTIONS,
    "gate": Option(True, "let the decoder turn its attention down"),
    "doubly_stochastic": Option(
        0.0,
        "soft: lambda of a caption's penalty, beside the mean loss of a word; the paper's 1, for "
        "196 locations, is beside the sum over a caption's words: here 1 / their mean number",
        not_negative,
    ),
    "reinforce": Option(
        0.1,
        "hard: lambda_r beside the mean loss of a word, 0 is the control without REINFORCE",
        not_negative,
    ),
    "reward": Option(
        "mean", "hard: log-probability of the caption, or of a word", str, ("sum", "mean")
    ),
    "entropy": Option(
        0.002,
        "hard: lambda_e, for looking around; times the entropies summed over a caption, beside the "
        "mean loss of a word",
        not_negative,
    ),
    "expected_rate": Option(0.5, "hard: share that reads as soft does, in training", fraction),
    "inference_mode": Option(
        "argmax", "hard: what is read after training", str, ("argmax", "sample", "expected")
    ),
    "dropout": Option(0.0, "share dropped from embedding and readout", fraction),
}


def build(
    vocabulary_size: int,
    side: int,
    attention: str = "soft",
    units: int = 128,
    embedding_dim: int = 64,
    gate: bool = True,
    doubly_stochastic: float = 0.0,
    reinforce: float = 0.1,
    reward: str = "mean",
    entropy: float = 0.002,
    expected_rate: float = 0.5,
    inference_mode: str = "argmax",
    dropout: float = 0.0,
    seed: int | None = None,
    dtype=None,
    **pictures,
) -> keras.Model:
    """Returns the model as a functional one from `image` and `target` to `logits` and `weights`.

    Args:
        vocabulary_size: Number of ids.
        side: Points on a side of a picture.
        attention: "soft" or "hard".
        units: Size of the decoder's state and of the attention.
        embedding_dim: Size of the embedding and of the readout.
        gate: Whether the decoder turns its attention down.
        doubly_stochastic: Lambda of the soft model's penalty, a mean over captions. Beside the
            mean loss of a word the paper's 1 is 1 / the mean number of words.
        reinforce, reward, entropy: See `keras_attention.ReinforceLoss`; the two lambdas weigh
            means over captions too.
        expected_rate, inference: See `keras_attention.HardAttention`.
        dropout: Share dropped from embedding and readout.
        seed: Seed of drawn locations and of the dropout.
        dtype: Optional dtype policy, such as "mixed_bfloat16".
        **pictures: See `examples.models.encoders.picture.annotations`.

    Returns:
        A model from `{"image": (batch, side, side, 1), "target": (batch, time)}`, the ids
        `[start, y_1 .. y_{T-1}]`, to `{"logits": (batch, time, vocabulary_size), "weights":
        (batch, time, locations)}`, with the children `encoder`, image to `memory`, and `decoder`.

    Raises:
        ValueError: If there is no such attention, or the pictures' arguments are wrong.
    """
    validation.check_one_of("show_attend_tell", "attention", attention, KINDS)
    image = keras.Input([side, side, 1], name="image")
    target = keras.Input([None], dtype="int32", name="target")
    memory, _ = picture.annotations(image, dtype=dtype, **pictures)
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
