"""The end-to-end memory network, Sukhbaatar et al. 2015 (https://arxiv.org/abs/1503.08895).

    p_i = softmax_i(u . m_i)     u' = u + sum_i p_i c_i     answer = softmax(W (o^K + u^K))

The hops are `keras_attention.MemoryHops`. With adjacent tying its last table is the answer
matrix
too; with layer-wise tying the answer has a matrix of its own. The position encoding is by default
that of the authors' code, with which the published numbers were made.
"""

import keras

from examples.commands.arguments import fraction
from examples.options import Option
from keras_attention import MemoryHops

TITLE = "End-to-end memory network: several readings of a story answer a question"
REFERENCE = "Sukhbaatar et al. 2015, arXiv 1503.08895"
TYINGS = {"adjacent": "adjacent", "layer-wise": "layer_wise"}
OPTIONS = {
    "units": Option(20, "size of a memory; the paper has 50 for all tasks together"),
    "num_hops": Option(3, "how often the story is read"),
    "weight_tying": Option("adjacent", "which tables the hops share", str, tuple(TYINGS)),
    "encoding": Option(
        "centered",
        "how words make a sentence: a bag, or by position as in the paper or its authors' code",
        str,
        ("bag", "paper", "centered"),
    ),
    "max_memories": Option(50, "sentences that are read, the most recent ones"),
    "empty_memory_rate": Option(
        0.1, "share of empty memories drawn while training, 0 for none", fraction
    ),
}


def build(
    vocabulary_size: int,
    words: int,
    units: int = 20,
    num_hops: int = 3,
    weight_tying: str = "adjacent",
    encoding: str = "centered",
    max_memories: int = 50,
    empty_memory_rate: float = 0.1,
    linear_start: bool = False,
    seed: int | None = None,
    dtype=None,
) -> keras.Model:
    """Returns a functional model from `story` and `question` to `logits` and `weights`.

    Args:
        vocabulary_size: Number of ids.
        words: Ids of a sentence, padding included.
        units: Size of a memory.
        num_hops: How often the story is read.
        tying: "adjacent" or "layer-wise".
        encoding: "bag", "paper" or "centered", see `keras_attention.MemoryHops`.
        max_memories: Sentences that are read, the most recent ones.
        empty_memory_rate: Share of empty memories drawn while training.
        linear_start: Whether the model begins without the softmax over memories.
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
        TYINGS[weight_tying],
        encoding,
        max_memories,
        empty_memory_rate,
        linear_start,
        seed=seed,
        dtype=dtype,
        name="reader",
    )
    adjacent = weight_tying == "adjacent"
    state, *logits, weights = reader(
        story, question, return_logits=adjacent, return_attention_scores=True
    )
    if not adjacent:
        start = keras.initializers.RandomNormal(stddev=0.1, seed=seed)
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
