"""The hierarchical attention network in PyTorch, the peer of the training benchmark.

    s_i = sum_t a_it h_it      h_it = BiGRU(E w_it)        words into sentences
    v   = sum_i a_i h_i        h_i  = BiGRU(s_i)           sentences into the document
    a   = softmax(u . tanh(W h + b))                       logits = W_c v + b_c

It is written as a careful PyTorch user would: all sentences of all documents are one batch of the
word encoder, the encoders are `nn.GRU`, packed where there is padding, which their backward
direction would read otherwise. Keras' GRU with its second bias is this one, gates in another order.
A test copies weights from the Keras model and compares logits.

Reference: Yang et al. 2016, https://aclanthology.org/N16-1174, section 2.2.
"""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Level(nn.Module):
    """One level: `level(x, mask)` returns a vector for each sequence; padding stands behind."""

    def __init__(self, dim: int, units: int, attention_units: int):
        super().__init__()
        self.encoder = nn.GRU(dim, units, batch_first=True, bidirectional=True)
        self.hidden = nn.Linear(2 * units, attention_units)
        self.score = nn.Parameter(torch.empty(attention_units).uniform_(-0.1, 0.1))

    def forward(self, x, mask):
        states = self.encode(x, mask)
        scores = torch.tanh(self.hidden(states)) @ self.score
        weights = torch.softmax(scores.masked_fill(~mask, -1e9), -1)
        return torch.bmm(weights[:, None], states)[:, 0]

    def encode(self, x, mask):
        """Returns the states of both directions `(batch, time, 2 * units)`."""
        if mask.all():
            return self.encoder(x)[0]
        lengths = mask.sum(1).clamp(min=1).cpu()  # an empty sequence cannot be packed
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        packed, _ = self.encoder(packed)
        return pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])[0]


class TorchHAN(nn.Module):
    """The whole classifier: `model(ids)` returns logits `(batch, classes)`."""

    def __init__(
        self, vocabulary: int, classes: int, embedding_dim: int, units: int, attention_units: int
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding_dim)
        self.words = Level(embedding_dim, units, attention_units)
        self.sentences = Level(2 * units, units, attention_units)
        self.logits = nn.Linear(2 * units, classes)

    def forward(self, ids):
        """Returns logits for ids `(batch, sentences, words)`, padded with 0."""
        mask = ids != 0
        sentences = self.words(self.embedding(ids).flatten(0, 1), mask.flatten(0, 1))
        sentences = sentences.unflatten(0, ids.shape[:2])
        return self.logits(self.sentences(sentences, mask.any(-1)))
