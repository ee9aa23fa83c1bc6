"""The repeat copy task, Graves et al. 2014 (https://arxiv.org/abs/1410.5401), section 4.2.

    step          0 .. length - 1    length    length + 1     length * repeats steps    last
    inputs        the bits           a flag    the repeats    blank                     blank
    targets due                                               the bits, over and over   an EOS token

Channels of the inputs: bits on 0 to 7, the flag on 8, the repeats on 9. Of the targets: bits on
0 to 7, the EOS token on 8. The repeats are told as `(repeats - MEAN) / DEVIATION`, normalized over
the numbers 1 to 10 of the training; larger numbers are told on the same scale, which is what
makes them a generalization.
"""

import numpy as np

from examples.tasks.base import Example, Task, blank, paper_settings

BITS = 8
REPEATS = (1, 10)
MEAN = (REPEATS[0] + REPEATS[1]) / 2  # 5.5
DEVIATION = (((REPEATS[1] - REPEATS[0] + 1) ** 2 - 1) / 12) ** 0.5  # 2.872, uniform over ints


def repeat_copy_example(vectors: np.ndarray, repeats: int) -> Example:
    """Returns the task for the bits `(batch, length, bits)`."""
    batch_size, length, bits = vectors.shape
    first = length + 2  # the step of the first target
    example = blank(batch_size, first + length * repeats + 1, bits + 2, bits + 1)
    example.inputs[:, :length, :bits] = vectors
    example.inputs[:, length, bits] = 1.0
    example.inputs[:, length + 1, bits + 1] = (repeats - MEAN) / DEVIATION
    example.targets[:, first:-1, :bits] = np.tile(vectors, (1, repeats, 1))
    example.targets[:, -1, bits] = 1.0
    example.due[:, first:] = 1.0
    return example


class RepeatCopy(Task):
    """Write down a sequence of random bits, read it out as often as asked, and say when done.

    Sizes: `length`, the number of vectors, and `repeats`.

    Example:

    >>> example = RepeatCopy().draw(np.random.default_rng(1), 2, length=5, repeats=3)
    >>> example.inputs.shape, example.targets.shape, int(example.due[0].sum())
    ((2, 23, 10), (2, 23, 9), 16)
    """

    name = "repeat-copy"
    title = "Copy a sequence of 8-bit vectors several times and mark the end"
    input_dim, output_dim = BITS + 2, BITS + 1
    sizes = {"length": (1, 10), "repeats": REPEATS}
    paper = paper_settings(heads=(1, 1), units=((100,), (100,)), learning_rate=1e-4)
    published_parameters = {"feed_forward": 16_712, "lstm": 66_111}
    baseline = {"units": (512,) * 3, "learning_rate": 3e-5, "published_parameters": 5_312_007}

    def time(self, length, repeats):
        return length + 2 + length * repeats + 1

    def generate(self, generator, batch_size, length, repeats):
        return repeat_copy_example(generator.integers(0, 2, (batch_size, length, BITS)), repeats)
