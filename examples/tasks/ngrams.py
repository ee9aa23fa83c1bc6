"""The dynamic n-grams task, Graves et al. 2014 (https://arxiv.org/abs/1410.5401), section 4.4.

    table[c] ~ Beta(1/2, 1/2)                           a probability for each of 32 contexts
    P(b_t = 1) = table[b_{t-5} .. b_{t-1}]              the first five bits are fair

    step          0      1     2    ...   199
    inputs        0      b_0   b_1        b_198         what was seen so far, a bit a step
    targets       b_0    b_1   b_2        b_199         all due

Every sequence has a table of its own. The best that can be done without it is to count: with
N1 ones and N0 zeros seen after this context,

    P(b_t = 1) = (N1 + 1/2) / (N0 + N1 + 1)                                          equation 10

Nothing is known of the first five bits, so they cost everyone a bit each, the best predictor
included; it is there that 200 bits of guessing stand beside its 133, as in the paper's figure.
"""

import numpy as np

from examples.tasks.base import Example, Task, blank, cost_in_bits, paper_settings

CONTEXT = 5
"""Bits that a probability depends on: a 6-gram is five and the next."""


def draw_bits(generator: np.random.Generator, tables: np.ndarray, length: int) -> np.ndarray:
    """Returns bits `(batch, length)`, int64, each row from its own table.

    Args:
        generator: A `numpy.random.Generator`.
        tables: Probabilities of a 1, `(batch, 32)`; the oldest bit of a context counts most.
        length: Int, the number of bits.
    """
    rows = np.arange(len(tables))
    chance = generator.random((length, len(tables)))
    bits = np.zeros((len(tables), length), np.int64)
    context = np.zeros(len(tables), np.int64)
    for step in range(length):
        one = 0.5 if step < CONTEXT else tables[rows, context]
        bits[:, step] = chance[step] < one
        context = _append_bit(context, bits[:, step])
    return bits


def ngrams_example(bits: np.ndarray) -> Example:
    """Returns the task for the bits `(batch, length)`."""
    example = blank(*bits.shape, 1, 1)
    example.inputs[:, 1:, 0] = bits[:, :-1]
    example.targets[:, :, 0] = bits
    example.due[:] = 1.0
    return example


def optimal_probabilities(example: Example) -> np.ndarray:
    """Returns the best predictions without the table, `(batch, time, 1)`, float64.

    Each is the probability that the target of the step is 1, given those before it.
    """
    bits = example.targets[..., 0].astype(np.int64)
    rows = np.arange(len(bits))
    seen = np.full((len(bits), 2**CONTEXT, 2), 0.5)  # N0 + 1/2 and N1 + 1/2
    context = np.zeros(len(bits), np.int64)
    probabilities = np.full((*bits.shape, 1), 0.5)
    for step in range(bits.shape[1]):
        if step >= CONTEXT:
            counts = seen[rows, context]
            probabilities[:, step, 0] = counts[:, 1] / counts.sum(axis=1)
            seen[rows, context, bits[:, step]] += 1.0
        context = _append_bit(context, bits[:, step])
    return probabilities


def optimal_bits(example: Example) -> np.ndarray:
    """Returns what the best predictor pays for each sequence, `(batch,)`, in bits."""
    return cost_in_bits(optimal_probabilities(example), example)


def _append_bit(context, bit):
    return (2 * context + bit) % 2**CONTEXT


class NGrams(Task):
    """Predict the next bit of a random 6-gram source, by counting what followed what.

    Sizes: `length`, the number of bits, at least 6.

    Example:

    >>> example = NGrams().draw(np.random.default_rng(1), batch_size=2)
    >>> example.inputs.shape, example.targets.shape, optimal_bits(example).shape
    ((2, 200, 1), (2, 200, 1), (2,))
    """

    name = "ngrams"
    title = "Predict the next bit of a random 6-gram source"
    input_dim, output_dim = 1, 1
    sizes = {"length": (200, 200)}
    smallest = {"length": CONTEXT + 1}
    paper = paper_settings(heads=(1, 1), units=((100,), (100,)), learning_rate=3e-5)
    published_parameters = {"feed_forward": 14_656, "lstm": 61_749}
    baseline = {"units": (128,) * 3, "learning_rate": 1e-4, "published_parameters": 331_905}

    optimal_bits = staticmethod(optimal_bits)

    def time(self, length):
        return length

    def generate(self, generator, batch_size, length):
        tables = generator.beta(0.5, 0.5, (batch_size, 2**CONTEXT))
        return ngrams_example(draw_bits(generator, tables, length))
