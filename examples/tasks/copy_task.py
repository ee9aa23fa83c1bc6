"""The copy task, Graves et al. 2014 (https://arxiv.org/abs/1410.5401), section 4.1.

    step          0 .. length - 1    length    length + 1 .. 2 length
    inputs        the bits           a flag    blank
    targets due                                the same bits

Channels: bits on 0 to 7, the flag on 8.
"""

import numpy as np

from examples.tasks.base import Example, Task, blank, paper_settings

BITS = 8


def copy_example(vectors: np.ndarray) -> Example:
    """Returns the task for the bits `(batch, length, bits)`."""
    batch_size, length, bits = vectors.shape
    example = blank(batch_size, 2 * length + 1, bits + 1, bits)
    example.inputs[:, :length, :bits] = vectors
    example.inputs[:, length, bits] = 1.0
    example.targets[:, length + 1 :] = vectors
    example.due[:, length + 1 :] = 1.0
    return example


class Copy(Task):
    """Write down a sequence of random bits, then read it out.

    Sizes: `length`, the number of vectors.

    Example:

    >>> example = Copy().draw(np.random.default_rng(1), batch_size=2, length=5)
    >>> example.inputs.shape, example.targets.shape, example.due[0].tolist()
    ((2, 11, 9), (2, 11, 8), [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    """

    name = "copy"
    title = "Copy a sequence of 8-bit vectors"
    input_dim, output_dim = BITS + 1, BITS
    sizes = {"length": (1, 20)}
    paper = paper_settings(heads=(1, 1), units=((100,), (100,)), learning_rate=1e-4)
    published_parameters = {"feed_forward": 17_162, "lstm": 67_561}
    baseline = {"units": (256,) * 3, "learning_rate": 3e-5, "published_parameters": 1_352_969}

    def time(self, length):
        return 2 * length + 1

    def generate(self, generator, batch_size, length):
        return copy_example(generator.integers(0, 2, (batch_size, length, BITS)))
