"""One training step of a translator in PyTorch."""

import contextlib

import torch
from torch import nn
from torch.nn import functional


def adam(model, learning_rate: float):
    """Returns the fused Adam with the epsilon of Keras."""
    return torch.optim.Adam(model.parameters(), learning_rate, eps=1e-7, fused=True)


def make_step(model, optimizer, clip_norm: float = 1.0, bfloat16: bool = False):
    """Returns `step(source, target, labels)`, which trains once and returns the mean loss.

    Args:
        model: Module of `(source_ids, target_ids)` that returns logits.
        optimizer: A PyTorch optimizer.
        clip_norm: Largest norm of the gradient.
        bfloat16: Whether products run in bfloat16, by autocast, as PyTorch recommends.
    """

    def precision():
        if bfloat16:
            return torch.autocast("cpu", dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def step(source, target, labels):
        optimizer.zero_grad(set_to_none=True)
        with precision():
            logits = model(source, target)
        loss = functional.cross_entropy(
            logits.float().flatten(0, 1), labels.flatten(), ignore_index=0
        )
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        return loss.item()

    return step
