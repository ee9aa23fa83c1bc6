"""Text-guided attention, Mun et al. 2017 (https://arxiv.org/abs/1612.03557).

    g     = last state of a GRU over the guiding sentence
    e_i   = w . tanh(W_a a_i + b_a + W_g g) + b     alpha = softmax(e)     x = sum_i alpha_i a_i
    the decoder of `keras_attention.ShowTellDecoder` reads relu(W_e x + b_e), then the words

The paper: skip-thought vectors of 2400 numbers for g, embedding and LSTM 512, dropout 0.5, an
entropy bonus of 0.002, Adam at 4e-4. Here the sentence's GRU, a skip-thought encoder's, is trained
along, and the matrices of the words that are read and written are two.
"""

from typing import Literal

import keras

from examples.commands.options import Fraction, NonNegativeFloat
from examples.models.encoders import image_encoder
from examples.models.encoders.image_encoder import BACKBONE_SIZE, CONVOLUTIONS, Convolutions
from keras_attention import (
    Attention,
    LearnedPositionalEmbedding,
    ShowTellDecoder,
    TextGuidedAttention,
    validation,
)

TITLE = "Text-guided attention: a sentence says where to look before a caption is written"
REFERENCE = "Mun et al. 2017, arXiv 1612.03557"


def build(
    vocabulary_size: int,
    side: int,
    units: int = 128,
    embedding_dim: int = 64,
    sentence_encoder: Literal["gru", "bag"] | keras.layers.Layer = "gru",
    sentence_dim: int = 64,
    annotation_dim: int = 96,
    backbone: str | None = None,
    backbone_weights: str | None = None,
    backbone_size: int = BACKBONE_SIZE,
    train_backbone: bool = False,
    convolutions: Convolutions = CONVOLUTIONS,
    entropy: NonNegativeFloat = 0.002,
    dropout: Fraction = 0.0,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns a functional model from `image`, `guide` and `target` to `logits` and `weights`.

    Args:
        vocabulary_size: Number of ids.
        side: Points on a side of an image.
        units: Size of the decoder's state and of the attention.
        embedding_dim: Size of the embeddings.
        sentence_encoder: What makes a vector of the sentence: its last state, or a bag, the mean of
            the words through one layer.
        sentence_dim: Size of that vector.
        annotation_dim: Size of an annotation, the vector of a location.
        backbone: Network of keras.applications by its name, such as VGG16; a small network,
            trained along, by default.
        backbone_weights: File of your weights for it, made with include_top=False; random by
            default.
        backbone_size: Side that images are scaled to for it.
        train_backbone: Train it along.
        convolutions: Those of the small network, of which three halve the image: a location sees 33
            points with 4, 45 with 6, 73 with 9; what sees all need not look.
        entropy: Bonus for looking around, times the entropy of a caption's one look, beside the
            mean loss of a word; the number is the paper's.
        dropout: Fraction dropped from embedding and output.
        seed: Seed of the dropout.
        dtype: Optional dtype policy, such as "mixed_bfloat16".

    `sentence_encoder` may also be a layer or model of yours from ids `(batch, words)`, int32,
    padded with 0, to a vector `(batch, dim)` of its own size. It brings its own embedding, masks
    padding itself and is trained along unless frozen. Its vector is normalized as the others are.

    Returns:
        A model from `{"image": (batch, side, side, 1), "guide": (batch, words), "target":
        (batch, time)}` to `{"logits": (batch, time, vocabulary_size), "weights": (batch, 1,
        locations)}`, with the children `encoder`, image and guide to `memory` `(batch, 1, dim)`
        and `weights`, and `decoder`.

    Raises:
        ValueError: If there is no such sentence encoder, if one of yours gives no vector, or the
            images' arguments are wrong.
    """
    image = keras.Input([side, side, 1], name="image")
    guide = keras.Input([None], dtype="int32", name="guide")
    target = keras.Input([None], dtype="int32", name="target")
    found, _ = image_encoder.annotations(
        image,
        annotation_dim,
        backbone,
        backbone_weights,
        backbone_size,
        train_backbone,
        convolutions,
        dtype=dtype,
    )
    # Not normalized: were an empty place as large as a digit, the weights would go to what is
    # empty, and a digit be told by the one place that is left out. Places are nearly as large as
    # what is seen there, for they are what a caption tells.
    places = LearnedPositionalEmbedding(
        found.shape[1],
        initializer=keras.initializers.RandomNormal(stddev=0.5),
        dtype=dtype,
        name="places",
    )
    found = places(found)
    sentence = _sentence(
        guide, vocabulary_size, embedding_dim, sentence_encoder, sentence_dim, dtype
    )
    attention = TextGuidedAttention(units, entropy, dtype=dtype, name="attention")
    read, weights = attention(sentence, found, return_attention_scores=True)
    one = keras.layers.Reshape((1, read.shape[-1]), dtype=dtype, name="one_position")
    seen = keras.layers.Reshape((1, weights.shape[-1]), dtype="float32", name="one_look")
    asked = {"image": image, "guide": guide}
    told = {"memory": one(read), "weights": seen(weights)}
    encoder = keras.Model(asked, told, name="encoder")
    decoder = ShowTellDecoder(
        vocabulary_size,
        embedding_dim,
        units,
        dropout=dropout,
        seed=seed,
        dtype=dtype,
        name="decoder",
    )
    encoded = encoder(asked)
    logits = decoder(target, encoded["memory"])
    outputs = {"logits": logits, "weights": encoded["weights"]}
    return keras.Model({**asked, "target": target}, outputs, name="text_guided")


def _sentence(guide, vocabulary_size, embedding_dim, kind, units, dtype):
    """The vector of a sentence; padding is masked."""
    # A small vector leaves the tanh of the scores linear, and then no sentence changes which
    # location has the largest score: words differ much from the beginning, and the vector is large.
    normalization = keras.layers.LayerNormalization(
        gamma_initializer=keras.initializers.Constant(3.0),
        dtype=dtype,
        name="sentence_normalization",
    )
    if isinstance(kind, keras.layers.Layer):
        sentence = kind(guide)
        validation.check_rank("text_guided", "sentence_encoder", sentence, (2,), "(batch, dim)")
        return normalization(sentence)
    hint = "Or give a layer from ids (batch, words) to a vector (batch, dim)."
    validation.check_one_of("text_guided", "sentence_encoder", kind, ("gru", "bag"), hint)
    embedding = keras.layers.Embedding(
        vocabulary_size,
        embedding_dim,
        embeddings_initializer=keras.initializers.RandomNormal(stddev=1.0),
        mask_zero=True,
        dtype=dtype,
        name="guide_embedding",
    )
    if kind == "gru":
        cell = keras.layers.GRUCell(units, reset_after=False, dtype=dtype, name="cell")
        sentence = keras.layers.RNN(cell, dtype=dtype, name="sentence")(embedding(guide))
    else:
        words = embedding(guide)  # a mean that is 0 where there is no word
        bag = Attention("uniform", dtype=dtype, name="bag")(words[:, 0], words)
        sentence = keras.layers.Dense(units, "tanh", dtype=dtype, name="sentence")(bag)
    return normalization(sentence)
