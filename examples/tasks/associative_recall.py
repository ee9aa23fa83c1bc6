"""The associative recall task, Graves et al. 2014 (https://arxiv.org/abs/1410.5401), section 4.3.

    step          0    1 .. 3    4    5 .. 7    ...    4n     4n + 1 .. 4n + 3    4n + 4    3 steps
    inputs        D    item 1    D    item 2    ...    Q      one of the items    Q         blank
    targets due                                                                             the next

with n items of three 6-bit vectors. Channels: bits on 0 to 5, the delimiter D of items on 6, the
delimiter Q of the query, before and after it, on 7. The last item is never requested: there is
none after it.
"""

import numpy as np

from examples.tasks.base import Example, Task, blank, paper_settings

BITS, VECTORS = 6, 3


def recall_example(items: np.ndarray, query: np.ndarray) -> Example:
    """Returns the task for items `(batch, items, vectors, bits)`.

    Args:
        items: The bits of all items.
        query: Ints `(batch,)`, the item that is shown again, counted from 0.
    """
    batch_size, count, vectors, bits = items.shape
    rows, width = np.arange(batch_size), vectors + 1
    example = blank(batch_size, count * width + 2 * width, bits + 2, bits)
    shown = np.zeros((batch_size, count, width, bits + 2))  # the items, each with its delimiter
    shown[:, :, 0, bits] = 1.0
    shown[:, :, 1:, :bits] = items
    example.inputs[:, : count * width] = shown.reshape(batch_size, count * width, bits + 2)
    opening = count * width
    example.inputs[:, [opening, opening + width], bits + 1] = 1.0
    example.inputs[:, opening + 1 : opening + width, :bits] = items[rows, query]
    example.targets[:, -vectors:] = items[rows, query + 1]
    example.due[:, -vectors:] = 1.0
    return example


class AssociativeRecall(Task):
    """See a list of items, then one of them again: say which came after it.

    Sizes: `items`, at least 2.

    Example:

    >>> example = AssociativeRecall().draw(np.random.default_rng(1), batch_size=2, items=5)
    >>> example.inputs.shape, example.targets.shape, int(example.due[0].sum())
    ((2, 28, 8), (2, 28, 6), 3)
    """

    name = "associative-recall"
    title = "Say which item came after the one shown again"
    input_dim, output_dim = BITS + 2, BITS
    sizes = {"items": (2, 6)}
    smallest = {"items": 2}
    paper = paper_settings(heads=(4, 1), units=((256,), (100,)), learning_rate=1e-4)
    published_parameters = {"feed_forward": 146_845, "lstm": 70_330}
    baseline = {"units": (256,) * 3, "learning_rate": 1e-4, "published_parameters": 1_344_518}

    def time(self, items):
        return (items + 2) * (VECTORS + 1)

    def generate(self, generator, batch_size, items):
        drawn = generator.integers(0, 2, (batch_size, items, VECTORS, BITS))
        return recall_example(drawn, generator.integers(0, items - 1, batch_size))
