"""The hierarchical attention network, Yang et al. 2016 (https://aclanthology.org/N16-1174).

    s_i = sum_t a_it h_it      h_it = BiGRU(E w_it)        words into sentences
    v   = sum_i a_i h_i        h_i  = BiGRU(s_i)           sentences into the document
    p   = softmax(W_c v + b_c)

The two levels are `keras_attention.HierarchicalAttention`. The encoders are Keras' GRU: the
paper's unit with the update gate the other way round and a second bias. What the paper does not
have is dropout, without which some hundred documents are learned by heart: of whole words, of
the numbers of words' vectors, and of those of the document's.
"""

import keras

from examples.commands.options import Fraction
from keras_attention import CounterDropout, HierarchicalAttention

TITLE = "HAN: words into sentences, sentences into a class, attention at both levels"
REFERENCE = "Yang et al. 2016, aclanthology.org/N16-1174"


def build(
    vocabulary_size: int,
    num_classes: int,
    embedding_dim: int = 200,
    units: int = 50,
    attention_units: int = 100,
    dropout: Fraction = 0.3,
    word_dropout: Fraction = 0.1,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns a functional model from documents to logits and both levels' weights.

    Args:
        vocabulary_size: Number of ids; 0 is padding.
        num_classes: Number of classes.
        embedding_dim: Size of a word's vector.
        units: Size of one direction of the encoders.
        attention_units: Size of the hidden layers that the weights are read from.
        dropout: Fraction dropped of the words' vectors and of the document's.
        word_dropout: Fraction of the words whose whole vector is dropped.
        seed: Optional int, the seed of the dropout.
        dtype: Optional dtype policy, such as "mixed_bfloat16".

    Returns:
        A model from `{"sentences": ids}`, `(batch, sentences, words)`, to a dict of `logits`
        `(batch, classes)`, `word_weights` `(batch, sentences, words)` and `sentence_weights`
        `(batch, sentences)`.
    """
    seeds = [None if seed is None else seed + place for place in range(3)]
    sentences = keras.Input((None, None), dtype="int32", name="sentences")
    kept = CounterDropout(word_dropout, seed=seeds[0], dtype="float32", name="kept_words")(
        keras.ops.ones_like(sentences, dtype="float32")[..., None]
    )
    embedding = keras.layers.Embedding(vocabulary_size, embedding_dim, dtype=dtype, name="words")
    vectors = keras.layers.Multiply(dtype=dtype, name="read_words")([embedding(sentences), kept])
    vectors = CounterDropout(dropout, seed=seeds[1], dtype=dtype, name="vectors")(vectors)
    attention = HierarchicalAttention(
        attention_units,
        _encoder(units, dtype, "word_encoder"),
        _encoder(units, dtype, "sentence_encoder"),
        dtype=dtype,
        name="attention",
    )
    document, word_weights, sentence_weights = attention(
        vectors, mask=keras.ops.not_equal(sentences, 0), return_attention_scores=True
    )
    document = CounterDropout(dropout, seed=seeds[2], dtype=dtype, name="document")(document)
    logits = keras.layers.Dense(num_classes, dtype=dtype, name="logits")(document)
    outputs = {
        "logits": logits,
        "word_weights": word_weights,
        "sentence_weights": sentence_weights,
    }
    return keras.Model({"sentences": sentences}, outputs, name="han")


def _encoder(units, dtype, name):
    rnn = keras.layers.RNN(
        keras.layers.GRUCell(units, dtype=dtype), return_sequences=True, dtype=dtype
    )
    return keras.layers.Bidirectional(rnn, dtype=dtype, name=name)
