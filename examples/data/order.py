"""The random order of an epoch, which a resumed run takes up again, and examples to show."""

import numpy as np


def frozen_draw(*numbers: int) -> np.random.RandomState:
    """Returns random numbers that depend on `numbers` alone, such as the seed and the epoch.

    A `RandomState` and not a `Generator`: its streams are frozen, so that a run resumes in the
    same order under another NumPy version.

    Example:

    >>> frozen_draw(1, 2).permutation(5).tolist() == frozen_draw(1, 2).permutation(5).tolist()
    True
    """
    return np.random.RandomState(np.array(numbers, np.uint64).view(np.uint32))


def pick_evenly(items: list, count: int) -> list:
    """Returns `count` items, spread over the list, or all if there are fewer.

    Example:

    >>> pick_evenly(["a", "b", "c", "d", "e"], 2)
    ['a', 'c']
    """
    count = min(count, len(items))
    return [items[place * len(items) // count] for place in range(count)]
