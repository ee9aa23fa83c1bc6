"""The batch with which the PyTorch peers of translators are held to ours."""

import torch

from benchmarks.training_systems import example_batch


def make_padded_batch(vocabulary):
    """Returns source, target and labels of five rows of different lengths."""
    source, target, labels = example_batch(5, 13, 7, vocabulary)
    for row, (source_length, target_length) in enumerate(
        [(13, 7), (1, 3), (11, 1), (2, 7), (5, 2)]
    ):
        source[row, source_length:] = 0
        target[row, target_length:] = labels[row, target_length:] = 0
    return source, target, labels


def as_torch(*arrays):
    return [torch.from_numpy(array.astype("int64")) for array in arrays]
