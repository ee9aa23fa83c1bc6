"""The end-to-end memory network, Sukhbaatar et al. 2015 (https://arxiv.org/abs/1503.08895).

    p_i = softmax_i(u . m_i)     u' = u + sum_i p_i c_i     answer = softmax(W (o^K + u^K))

The hops are `keras_attention.MemoryHops`. With adjacent tying its last table is the answer matrix
too; with layer-wise tying the answer has a matrix of its own. The position encoding is by default
that of the authors' code, with which the published numbers were made.
"""

from typing import Literal

import keras

from examples.commands.options import Fraction
from keras_attention import MemoryHops

TITLE = "End-to-end memory network: several readings of a story answer a question"
REFERENCE = "Sukhbaatar et al. 2015, arXiv 1503.08895"


def build(
    vocabulary_size: int,
    words: int,
    max_memories: int,
    linear_start: bool,
    units: int = 20,
    num_hops: int = 3,
    weight_tying: Literal["adjacent", "layer-wise"] = "adjacent",
    encoding: Literal["bag", "paper", "centered"] = "centered",
    empty_memory_rate: Fraction = 0.1,
    pad_to_max_memories: bool = True,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns a functional model from `story` and `question` to `logits` and `weights`.

    Args:
        vocabulary_size: Number of ids.
        words: Ids of a sentence, padding included.
        max_memories: Sentences that are read, the most recent ones.
        linear_start: Whether the model begins without the softmax over memories.
        units: Size of a memory; the paper has 50 for all tasks together.
        num_hops: How often the story is read.
        weight_tying: Which tables the hops share.
        encoding: How words make a sentence: a bag, or by position as in the paper or its authors'
            code (centered).
        empty_memory_rate: Fraction of empty memories drawn while training, 0 for none.
        pad_to_max_memories: Whether every story is filled up to the most sentences with empty
            memories, as in the authors' code, so that a question can read nothing.
        seed: Seed of the weights and of the noise.
        dtype: Optional dtype policy, such as "mixed_bfloat16".

    Returns:
        A model from `{"story": (batch, memories, words), "question": (batch, words)}` to
        `{"logits": (batch, vocabulary_size), "weights": (batch, num_hops, memories)}`.
    """
    story = keras.Input([None, words], dtype="int32", name="story")
    question = keras.Input([words], dtype="int32", name="question")
    reader = MemoryHops(
        vocabulary_size,
        units,
        num_hops,
        weight_tying.replace("-", "_"),
        encoding,
        max_memories,
        empty_memory_rate,
        linear_start,
        seed=seed,
        pad_to_max_memories=pad_to_max_memories,
        dtype=dtype,
        name="reader",
    )
    adjacent = weight_tying == "adjacent"
    state, *logits, weights = reader(
        story, question, return_logits=adjacent, return_attention_scores=True
    )
    if not adjacent:
        other_seed = None if seed is None else seed + 100  # the tables have `seed` and the next
        start = keras.initializers.RandomNormal(stddev=0.1, seed=other_seed)
        answer = keras.layers.Dense(
            vocabulary_size,
            use_bias=False,
            kernel_initializer=start,
            dtype=dtype,
            name="answer",
        )
        logits = [answer(state)]
    logits = keras.layers.Activation("linear", dtype="float32", name="logits")(logits[0])
    inputs = {"story": story, "question": question}
    return keras.Model(inputs, {"logits": logits, "weights": weights}, name="memory_network")
