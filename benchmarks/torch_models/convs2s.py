"""ConvS2S in PyTorch, the peer of the training benchmark.

    encoder   z <- (GLU(conv_k(z)) + z) sqrt(1/2)        z^u = W_z z        memory: z^u and e
    decoder   y = GLU(causal conv_k(h))       d = (W_d y + g) sqrt(1/2)     a = softmax(d . z^u)
              c = sqrt(m) sum_j a_j (z^u_j + e_j) sqrt(1/2)
              y = (y + W_o c) sqrt(1/2)       h <- (y + h) sqrt(1/2)

It is written as a careful PyTorch user would: `nn.Conv1d` over `(batch, channels, time)`, which
oneDNN runs, weight normalization by `torch.nn.utils.parametrizations`, products of all positions
at once. A test copies weights from the Keras model and compares logits.

Reference: Gehring et al. 2017, https://arxiv.org/abs/1705.03122, section 3.
"""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

HALF = 0.5**0.5


class ScaledGradient(torch.autograd.Function):
    """The identity, with a gradient that is scaled."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.scale, None


class Convolution(nn.Module):
    """A weight-normalized convolution with a gate; causal ones pad on the left alone."""

    def __init__(self, dim: int, kernel: int, causal: bool):
        super().__init__()
        self.padding = (kernel - 1, 0) if causal else ((kernel - 1) // 2,) * 2
        self.conv = weight_norm(nn.Conv1d(dim, 2 * dim, kernel), dim=0)

    def forward(self, x):
        x = functional.pad(x.transpose(1, 2), self.padding)
        return functional.glu(self.conv(x), dim=1).transpose(1, 2)


class Attention(nn.Module):
    """The attention of one decoder layer."""

    def __init__(self, dim: int, embedding_dim: int):
        super().__init__()
        self.query, self.output = linear(dim, embedding_dim), linear(embedding_dim, dim)

    def forward(self, y, embedded, keys, values, mask):
        summary = (self.query(y) + embedded) * HALF
        scores = torch.bmm(summary, keys.mT).masked_fill(~mask[:, None], -1e9)
        context = torch.bmm(torch.softmax(scores, -1), values)
        return (y + self.output(context)) * HALF


class TorchConvS2S(nn.Module):
    """The whole translator: `model(source_ids, target_ids)` returns logits."""

    def __init__(self, vocabulary: int, dim: int, layers: int, kernel: int, length: int = 256):
        super().__init__()
        self.words = nn.ModuleList(nn.Embedding(vocabulary, dim) for _ in range(2))
        self.places = nn.ModuleList(nn.Embedding(length, dim) for _ in range(2))
        for table in (*self.words, *self.places):
            nn.init.normal_(table.weight, std=0.1)
        self.encoder = nn.ModuleList(Convolution(dim, kernel, False) for _ in range(layers))
        self.decoder = nn.ModuleList(Convolution(dim, kernel, True) for _ in range(layers))
        self.attention = nn.ModuleList(Attention(dim, dim) for _ in range(layers))
        self.maps = nn.ModuleList(linear(dim, dim) for _ in range(4))
        self.logits = linear(dim, vocabulary)

    def forward(self, source_ids, target_ids):
        mask = source_ids != 0
        kept = mask[:, :, None]
        source, target = (self.embed(n, ids) for n, ids in enumerate((source_ids, target_ids)))
        source = torch.where(kept, source, 0.0)
        z = self.maps[0](source)
        for block in self.encoder:
            z = (block(torch.where(kept, z, 0.0)) + z) * HALF
        keys = torch.where(kept, self.maps[1](z), 0.0)
        keys = ScaledGradient.apply(keys, 0.5 / len(self.attention))
        scale = mask.sum(1).sqrt()[:, None, None]
        values = (keys + source) * HALF * scale
        h = self.maps[2](target)
        for block, attention in zip(self.decoder, self.attention, strict=True):
            h = (attention(block(h), target, keys, values, mask) + h) * HALF
        return self.logits(self.maps[3](h))

    def embed(self, side, ids):
        """Returns word plus position embeddings."""
        return self.words[side](ids) + self.places[side].weight[: ids.shape[1]]


def linear(inputs: int, outputs: int):
    """Returns a weight-normalized linear map."""
    return weight_norm(nn.Linear(inputs, outputs), dim=0)
