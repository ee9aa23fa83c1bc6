"""One training step in PyTorch."""

import contextlib

import torch
from torch import nn
from torch.nn import functional


def adam(model, learning_rate: float):
    """Returns the fused Adam with the epsilon of Keras."""
    return torch.optim.Adam(model.parameters(), learning_rate, eps=1e-7, fused=True)


def as_tensors(inputs, labels):
    """Returns the tensors of a batch as `step` takes them; ids become int64."""
    arrays = (*inputs.values(), labels)
    return [torch.from_numpy(a.astype("int64") if a.dtype.kind == "i" else a) for a in arrays]


def make_step(model, optimizer, clip_norm: float = 1.0, bfloat16=False, ignore_class: int = 0):
    """Returns `step(*inputs, labels)`, which trains once and returns the mean loss.

    Args:
        model: Module of the inputs that returns logits.
        optimizer: A PyTorch optimizer.
        clip_norm: Largest norm of the gradient.
        bfloat16: Whether products run in bfloat16, by autocast, as PyTorch recommends.
        ignore_class: The label that has no loss; 0 is padding.
    """

    def precision():
        if bfloat16:
            return torch.autocast("cpu", dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def step(*batch):
        *inputs, labels = batch
        optimizer.zero_grad(set_to_none=True)
        with precision():
            logits = model(*inputs)
        loss = functional.cross_entropy(
            logits.float().flatten(0, -2), labels.flatten(), ignore_index=ignore_class
        )
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        return loss.item()

    return step
