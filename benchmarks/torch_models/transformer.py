"""The Transformer in PyTorch, the peer of the training benchmark.

    encoder layer   x = LN(x + MHA(x, x, x));  x = LN(x + FFN(x))
    decoder layer   x = LN(x + MHA_causal(x, x, x));  x = LN(x + MHA(x, enc, enc));
                    x = LN(x + FFN(x))
    FFN(x) = max(0, x W1 + b1) W2 + b2        input = sqrt(d) E[token] + PE        logits = x E^T

It is written as a careful PyTorch user would: queries, keys and values of one input are one
product, attention is `scaled_dot_product_attention`, which is fused, normalization `nn.LayerNorm`.
`nn.Transformer` is not used: its multi-head attention has biases and a separate output path. A
test copies weights from the Keras model and compares logits.

Reference: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, section 3.
"""

import math

import torch
from torch import nn
from torch.nn import functional


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.projection = nn.Linear(dim, 3 * dim, bias=False)  # queries, keys, values
        self.output = nn.Linear(dim, dim, bias=False)

    def forward(self, x, mask=None, causal=False):
        query, key, value = (split(part, self.heads) for part in self.projection(x).chunk(3, -1))
        return self.output(merge_heads(attend(query, key, value, mask, causal)))


class CrossAttention(nn.Module):
    """Multi-head attention of a sequence to another."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim, bias=False)
        self.source = nn.Linear(dim, 2 * dim, bias=False)  # keys, values
        self.output = nn.Linear(dim, dim, bias=False)

    def forward(self, x, memory, mask=None):
        key, value = (split(part, self.heads) for part in self.source(memory).chunk(2, -1))
        query = split(self.query(x), self.heads)
        return self.output(merge_heads(attend(query, key, value, mask)))


class FeedForward(nn.Sequential):
    """Two linear maps with a rectifier between them."""

    def __init__(self, dim: int, hidden: int):
        super().__init__(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward network, each normalized after its sum."""

    def __init__(self, dim: int, heads: int, hidden: int):
        super().__init__()
        self.attention, self.network = SelfAttention(dim, heads), FeedForward(dim, hidden)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))

    def forward(self, x, mask):
        x = self.norms[0](x + self.attention(x, mask))
        return self.norms[1](x + self.network(x))


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the source, a feed-forward network."""

    def __init__(self, dim: int, heads: int, hidden: int):
        super().__init__()
        self.attention, self.cross = SelfAttention(dim, heads), CrossAttention(dim, heads)
        self.network = FeedForward(dim, hidden)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(3))

    def forward(self, x, memory, mask):
        x = self.norms[0](x + self.attention(x, causal=True))
        x = self.norms[1](x + self.cross(x, memory, mask))
        return self.norms[2](x + self.network(x))


class TorchTransformer(nn.Module):
    """The whole translator: `model(source_ids, target_ids)` returns logits."""

    def __init__(self, vocabulary: int, dim: int, heads: int, hidden: int, layers: int):
        super().__init__()
        self.dim = dim
        self.source = nn.Embedding(vocabulary, dim)
        self.target = nn.Embedding(vocabulary, dim)
        for embedding in (self.source, self.target):
            nn.init.normal_(embedding.weight, std=dim**-0.5)
        self.encoder = nn.ModuleList(EncoderLayer(dim, heads, hidden) for _ in range(layers))
        self.decoder = nn.ModuleList(DecoderLayer(dim, heads, hidden) for _ in range(layers))
        self.register_buffer("positions", sinusoids(512, dim), persistent=False)

    def forward(self, source_ids, target_ids):
        mask = (source_ids != 0)[:, None, None, :]
        memory = self.embed(self.source, source_ids)
        for layer in self.encoder:
            memory = layer(memory, mask)
        x = self.embed(self.target, target_ids)
        for layer in self.decoder:
            x = layer(x, memory, mask)
        return functional.linear(x, self.target.weight)

    def embed(self, embedding, ids):
        """Returns scaled embeddings plus positions."""
        return embedding(ids) * math.sqrt(self.dim) + self.positions[: ids.shape[1]]


def attend(query, key, value, mask=None, causal=False):
    """Returns contexts `(batch, heads, query, dim)`."""
    return functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=causal
    )


def split(x, heads):
    """`(batch, time, heads * dim)` -> `(batch, heads, time, dim)`."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge_heads(x):
    """`(batch, heads, time, dim)` -> `(batch, time, heads * dim)`."""
    return x.transpose(1, 2).flatten(2)


def sinusoids(length: int, dim: int):
    """Returns the table of positions, sines and cosines in turn."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    angles = position * 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1).float()
