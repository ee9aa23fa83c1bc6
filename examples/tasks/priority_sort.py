"""The priority sort task, Graves et al. 2014 (https://arxiv.org/abs/1410.5401), section 4.5.

    step          0 .. length - 1              length .. length + outputs - 1
    inputs        bits and their priority      blank
    targets due                                the bits of highest priority, the highest first

Channels: bits on 0 to 7, the priority, uniform on [-1, 1], on 8. The paper's figure shows no
delimiter and none is needed: `length` does not vary, and a blank step tells itself from a vector,
whose priority is never exactly 0.
"""

import numpy as np

from examples.tasks.base import Example, Task, blank, paper_settings

BITS = 8


def sort_example(vectors: np.ndarray, priorities: np.ndarray, outputs: int) -> Example:
    """Returns the task for the bits `(batch, length, bits)`.

    Args:
        vectors: The bits.
        priorities: Floats `(batch, length)`.
        outputs: Int, how many of the vectors are due.
    """
    batch_size, length, bits = vectors.shape
    example = blank(batch_size, length + outputs, bits + 1, bits)
    example.inputs[:, :length, :bits] = vectors
    example.inputs[:, :length, bits] = priorities
    order = np.argsort(-example.inputs[:, :length, bits], axis=1, kind="stable")[:, :outputs]
    example.targets[:, length:] = np.take_along_axis(vectors, order[:, :, None], axis=1)
    example.due[:, length:] = 1.0
    return example


class PrioritySort(Task):
    """See vectors with a priority each, then give those of highest priority in order.

    Sizes: `length`, the number of vectors, and `outputs`, how many of them are due; of ranges, at
    most all that there are.

    Example:

    >>> example = PrioritySort().draw(np.random.default_rng(1), batch_size=2)
    >>> example.inputs.shape, example.targets.shape, int(example.due[0].sum())
    ((2, 36, 9), (2, 36, 8), 16)
    """

    name = "priority-sort"
    title = "Sort 8-bit vectors by a priority and give the first ones"
    input_dim, output_dim = BITS + 1, BITS
    sizes = {"length": (20, 20), "outputs": (16, 16)}
    at_most = {"outputs": "length"}
    paper = paper_settings(heads=(8, 5), units=((512,), (100, 100)), learning_rate=3e-5)
    published_parameters = {"feed_forward": 508_305, "lstm": 269_038}
    baseline = {"units": (128,) * 3, "learning_rate": 3e-5, "published_parameters": 384_424}

    def time(self, length, outputs):
        return length + outputs

    def generate(self, generator, batch_size, length, outputs):
        vectors = generator.integers(0, 2, (batch_size, length, BITS))
        return sort_example(vectors, generator.uniform(-1.0, 1.0, (batch_size, length)), outputs)
