"""The LSTMN as a language model in PyTorch, the peer of the training benchmark.

    a_i = v . tanh(W_h h_i + W_x x_t + W_t h~_{t-1}),  s = softmax(a)      i < t, h_0 = c_0 = 0
    (h~_t, c~_t) = sum_i s_i (h_i, c_i)
    h_t, c_t = LSTM(x_t, (h~_t, c~_t))                                     logits = W h_t + b

It is written as a careful PyTorch user would: what depends on the inputs alone is projected for
all steps before the loop, the key of a step is projected once, a step attends to no more slots
than there are, logits are one product. The slots are tensors that grow: one of full length,
written in place, has no gradient. Padding stands behind and is never read, so it needs no mask. A
test copies weights from the Keras model and compares logits.

Reference: Cheng et al. 2016, https://arxiv.org/abs/1601.06733, section 3.2.
"""

import torch
from torch import nn

from benchmarks.torch_models.ntm import lstm


class TorchLSTMN(nn.Module):
    """The language model of one layer: `model(ids)` returns logits."""

    def __init__(self, vocabulary: int, units: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, units)
        self.inputs = nn.Linear(units, 4 * units)
        self.queries = nn.Linear(units, units, bias=False)  # W_x
        self.attended = nn.Linear(units, units, bias=False)  # W_t
        self.key = nn.Linear(units, units, bias=False)  # W_h
        self.score = nn.Parameter(torch.empty(units).uniform_(-0.1, 0.1))  # v
        self.recurrent = nn.Linear(units, 4 * units, bias=False)
        self.logits = nn.Linear(units, vocabulary)

    def forward(self, ids):
        """Returns logits `(batch, time, vocabulary)`."""
        words = self.embedding(ids).transpose(0, 1)  # (time, batch, units)
        attended = words.new_zeros(words.shape[1:])
        keys = words.new_zeros(1, *attended.shape)
        values = words.new_zeros(1, len(attended), 2 * attended.shape[-1])  # [h; c]
        outputs = []
        for query, gates in zip(self.queries(words), self.inputs(words), strict=True):
            query = query + self.attended(attended)
            scores = torch.tanh(keys + query) @ self.score
            weights = torch.softmax(scores, 0).t()[:, None]  # (batch, 1, slots)
            context = torch.bmm(weights, values.transpose(0, 1))[:, 0]
            attended, carry = context.chunk(2, -1)
            hidden, carry = lstm(gates + self.recurrent(attended), carry)
            keys = torch.cat([keys, self.key(hidden)[None]])
            values = torch.cat([values, torch.cat([hidden, carry], -1)[None]])
            outputs.append(hidden)
        return self.logits(torch.stack(outputs, 1))
