"""What the cloze readers share: embeddings with slots for candidates, and two encoders.

Names are most of the answers, and the names of a new book were never seen. So a word that is a
candidate is embedded as the slot it has in the list, wherever it stands (as Hermann et al. 2015,
https://arxiv.org/abs/1506.03340, mark entities), or as a word like any other, as in Cui et al.
"""

from typing import Annotated, Literal

import keras
from keras import ops

from examples.commands.arguments import int_at_least
from examples.commands.options import Fraction, NonNegativeFloat
from keras_attention import AttentionOverAttention, AttentionSum, BahdanauGRU, CounterDropout

SIDES = ("document", "query")
UNKNOWN_ID = 1


def build(
    name: str,
    over_attention: bool,
    vocabulary_size: int,
    units: int = 128,
    embedding_dim: int = 128,
    names: Literal["slots", "words"] = "slots",
    slots: int = 10,
    common_word_dim: Annotated[int, int_at_least(0)] = 0,
    shared_encoder: bool = False,
    dropout: Fraction = 0.1,
    annotation_dropout: Fraction = 0.0,
    embedding_l2: NonNegativeFloat = 1e-4,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns a functional model from document, query and candidates to their probabilities.

    Args:
        name: Name of the model.
        over_attention: Whether every query word attends to the document and a second attention
            weights them; otherwise the query is one vector, its encoder's last states.
        vocabulary_size: Number of ids; ids beyond are words of which only the identity is known.
        units: Size of each direction of the encoders; the paper has 256.
        embedding_dim: Size of the embedding; the paper has 384.
        names: What a candidate is read as: its place in the list, or a word.
        slots: Most candidates that are told apart by their slots.
        common_word_dim: Size of the embedding of whether a word stands in the other text too (the
            common words of Li et al. 2016, https://arxiv.org/abs/1607.06275); 0 for none.
        shared_encoder: Read the document and the query with one encoder, so that equal
            surroundings look alike from the beginning; the papers have two.
        dropout: Fraction dropped from the embedding.
        annotation_dropout: Fraction dropped from what the encoders give.
        embedding_l2: Weight of the squared embeddings in the loss.
        seed: Seed of the dropout.
        dtype: Optional dtype policy.

    Returns:
        A model from `{"document": (batch, document), "query": (batch, query), "candidates":
        (batch, candidates)}` ids to `{"probabilities": (batch, candidates), "weights": (batch,
        document), "query_weights": (batch, query)}`; the last with `over_attention` only.
    """
    ids = {key: keras.Input([None], dtype="int32", name=key) for key in (*SIDES, "candidates")}
    table = keras.layers.Embedding(
        vocabulary_size + slots,
        embedding_dim,
        embeddings_initializer=keras.initializers.RandomUniform(-0.05, 0.05, seed=seed),
        embeddings_regularizer=keras.regularizers.L2(embedding_l2) if embedding_l2 else None,
        dtype=dtype,
        name="embedding",
    )
    masks, vectors = {}, {}
    for number, side in enumerate(SIDES):
        masks[side] = ops.not_equal(ids[side], 0)
        read = map_to_embedding_rows(
            ids[side], ids["candidates"], vocabulary_size, slots if names == "slots" else 0
        )
        side_seed = None if seed is None else seed + number
        vectors[side] = CounterDropout(dropout, seed=side_seed, dtype=dtype, name=f"{side}_words")(
            table(read)
        )
    if common_word_dim:
        marks = keras.layers.Embedding(2, common_word_dim, dtype=dtype, name="common_words")
        for side, other in zip(SIDES, reversed(SIDES), strict=True):
            found = find_common_words(ids[side], ids[other])
            vectors[side] = ops.concatenate([vectors[side], marks(found)], axis=-1)
    encoders = _make_encoders(units, shared_encoder, dtype)
    encoded = {side: encoders[side](vectors[side], mask=masks[side]) for side in SIDES}
    annotations = {side: encoded[side][0] for side in SIDES}
    if not over_attention:  # one vector: each direction's state at its end
        ends = ops.concatenate(encoded["query"][1:], axis=1)
        annotations["query"] = ops.expand_dims(ends, 1)
        masks["query"] = ops.any(masks["query"], axis=1, keepdims=True)
    for number, side in enumerate(SIDES, 2):
        side_seed = None if seed is None else seed + number
        annotations[side] = CounterDropout(
            annotation_dropout, seed=side_seed, dtype=dtype, name=f"{side}_annotations"
        )(annotations[side])
    weights, _, query_weights = AttentionOverAttention(dtype=dtype, name="attention")(
        annotations["document"],
        annotations["query"],
        document_mask=masks["document"],
        query_mask=masks["query"],
        return_attention_scores=True,
    )
    probabilities = AttentionSum(dtype=dtype, name="mentions")(
        weights, ids["document"], ids["candidates"]
    )
    # A missing candidate, 0, is no mention of the padding, whose weight is 0.
    outputs = {"probabilities": probabilities, "weights": weights}
    if over_attention:
        outputs["query_weights"] = query_weights
    return keras.Model(ids, outputs, name=name)


def _make_encoders(units, shared, dtype):
    """Returns the encoder of each side."""

    def make(name):
        gru = BahdanauGRU(units, return_sequences=True, return_state=True, dtype=dtype)
        return keras.layers.Bidirectional(gru, dtype=dtype, name=name)

    if shared:
        return dict.fromkeys(SIDES, make("encoder"))
    return {side: make(f"{side}_encoder") for side in SIDES}


def find_common_words(ids, others):
    """Returns whether each word stands in another text too, `(batch, words)`, 1 or 0.

    Args:
        ids: Int tensor `(batch, words)`, 0 where there is none.
        others: The same of the other text.

    Example:

    >>> find_common_words(ops.array([[5, 8, 5, 0]]), ops.array([[5, 7, 0, 0]])).numpy().tolist()
    [[1, 0, 1, 0]]
    """
    return ops.cast(ops.any(_match(ids, others), axis=2), "int32")


def map_to_embedding_rows(ids, candidates, vocabulary_size: int, slots: int):
    """Returns the rows of the embedding: of candidates their slots, of unknown words id 1.

    Args:
        ids: Int tensor `(batch, words)`.
        candidates: Int tensor `(batch, candidates)`.
        vocabulary_size: The first slot.
        slots: Number of slots, 0 for none.
    """
    known = ops.where(ids < vocabulary_size, ids, UNKNOWN_ID)
    if not slots:
        return known
    same = _match(ids, candidates)
    slot = vocabulary_size + ops.minimum(ops.argmax(ops.cast(same, "int32"), axis=2), slots - 1)
    return ops.where(ops.any(same, axis=2), ops.cast(slot, ids.dtype), known)


def _match(ids, others):
    """Returns which words are equal, `(batch, words, others)`; padding equals nothing."""
    others = others[:, None, :]
    return ops.logical_and(ops.equal(ids[:, :, None], others), ops.not_equal(others, 0))
