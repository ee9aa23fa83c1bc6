"""RNNsearch in eager PyTorch, the peer of the training benchmark and of its decoding.

    e_ij  = va . tanh(Wa s_{i-1} + Ua h_j)        a_i = softmax_j(e_i)      c_i = sum_j a_ij h_j
    z_i   = sig(Wz E y_{i-1} + Uz s_{i-1} + Cz c_i)                         r_i likewise
    s~_i  = tanh(W E y_{i-1} + U (r_i * s_{i-1}) + C c_i)
    s_i   = (1 - z_i) * s_{i-1} + z_i * s~_i
    t~_i  = Uo s_i + Vo E y_{i-1} + Co c_i        t_i = max over neighboring pairs
    p(y_i) = softmax(Wo t_i)

It is written as a careful PyTorch user would: source keys and everything that depends on the
words alone are projected for all positions before the loops, products of the same input are
one product, the two directions of the encoder share their steps, the readout sees all target
positions at once, Adam is the fused one. `torch.nn.GRU` cannot stand in for the cell: it puts the
reset gate after the product. A test copies weights from the Keras model and compares logits.

Reference: Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, A.1 and A.2.
"""

import torch
from torch import nn


class BidirectionalEncoder(nn.Module):
    """Annotations of a source sentence by two GRUs of Bahdanau's blend.

    Both directions take each step together, as a batch of two products: the kernels have shapes
    `(2, embedding_dim, 3 * units)`, `(2, units, 2 * units)` and `(2, units, units)`, gates in
    the order update, reset, candidate.
    """

    def __init__(self, vocabulary_size: int, embedding_dim: int, units: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, embedding_dim)
        self.kernel = _uniform(2, embedding_dim, 3 * units)
        self.bias = nn.Parameter(torch.zeros(2, 1, 3 * units))
        self.gates_kernel = _uniform(2, units, 2 * units)
        self.candidate_kernel = _uniform(2, units, units)
        self.initial_state = nn.Linear(units, units)

    def forward(self, ids):
        """Returns annotations `(batch, source, 2 * units)`, state `(batch, units)` and mask."""
        batch, length = ids.shape
        units = self.candidate_kernel.shape[-1]
        mask = ids != 0
        inputs = self.embedding(ids).transpose(0, 1)  # (source, batch, embedding_dim)
        inputs = torch.stack([inputs, inputs.flip(0)]).flatten(1, 2)
        inputs = torch.baddbmm(self.bias, inputs, self.kernel).view(2, length, batch, -1)
        keep = torch.stack([mask.t(), mask.t().flip(0)])[..., None]  # (2, source, batch, 1)
        gates_in, candidates_in = inputs.split([2 * units, units], dim=-1)
        gates_in, candidates_in = gates_in.unbind(1), candidates_in.unbind(1)
        state = inputs.new_zeros(2, batch, units)
        states = []
        for gate_in, candidate_in, kept in zip(
            gates_in, candidates_in, keep.unbind(1), strict=True
        ):
            gates = torch.sigmoid(torch.baddbmm(gate_in, state, self.gates_kernel))
            update, reset = gates.chunk(2, dim=-1)
            candidate = torch.tanh(
                torch.baddbmm(candidate_in, reset * state, self.candidate_kernel)
            )
            state = torch.where(kept, torch.lerp(state, candidate, update), state)
            states.append(state)
        forward, backward = torch.stack(states, dim=2).unbind(0)  # (batch, source, units)
        annotations = torch.cat([forward, backward.flip(1)], dim=-1)
        first_word = state[1]  # the backward GRU's last step, at the first word
        return annotations, torch.tanh(self.initial_state(first_word)), mask


class AttentionDecoder(nn.Module):
    """Bahdanau's decoder with maxout readout; it reads the current state out."""

    def __init__(
        self,
        vocabulary_size: int,
        embedding_dim: int,
        units: int,
        attention_units: int,
        maxout_units: int,
        memory_dim: int,
    ):
        super().__init__()
        self.sizes = [attention_units, 2 * units]
        self.embedding = nn.Embedding(vocabulary_size, embedding_dim)
        self.key = nn.Linear(memory_dim, attention_units)  # Ua
        self.score = nn.Parameter(torch.empty(attention_units).uniform_(-0.1, 0.1))  # va
        self.words = nn.Linear(embedding_dim, 3 * units)  # Wz Wr W
        self.state = nn.Linear(units, attention_units + 2 * units, bias=False)  # Wa | Uz Ur
        self.candidate = nn.Linear(units, units, bias=False)  # U
        self.context = nn.Linear(memory_dim, 3 * units, bias=False)  # Cz Cr C
        readout_dim = units + embedding_dim + memory_dim
        self.readout = nn.Linear(readout_dim, 2 * maxout_units)  # Uo | Vo | Co
        self.logits = nn.Linear(maxout_units, vocabulary_size)  # Wo

    def forward(self, ids, annotations, state, mask):
        """Returns logits `(batch, target, vocabulary)` for the inputs `[start, y_1, ...]`."""
        memory = self.prepare(annotations, mask)
        words = self.embedding(ids)
        # y_0 embeds to zero, as in the article.
        words = torch.cat([torch.zeros_like(words[:, :1]), words[:, 1:]], dim=1)
        inputs = self.words(words)[:, :, None].unbind(1)
        state, states, contexts = state[:, None], [], []
        for word in inputs:
            state, context = self.recur(word, state, memory)
            states.append(state)
            contexts.append(context)
        return self.read(torch.cat(states, dim=1), words, torch.cat(contexts, dim=1))

    def prepare(self, annotations, mask):
        """Returns what every step reads of the source: keys, annotations and their padding."""
        return self.key(annotations)[:, None], annotations, ~mask[:, None]

    def recur(self, word, state, memory):
        """Returns the next state and the context of a step.

        Args:
            word: What depends on the last word alone, `(batch, beams, 3 * units)`.
            state: `(batch, beams, units)`.
            memory: What `prepare` returned; all beams of a row share it.
        """
        keys, annotations, padding = memory
        gates_dim = self.sizes[1]
        query, gates_in = self.state(state).split(self.sizes, dim=-1)
        scores = torch.tanh(query[:, :, None] + keys) @ self.score  # (batch, beams, source)
        weights = torch.softmax(scores.masked_fill(padding, -1e9), dim=-1)
        context = torch.bmm(weights, annotations)
        word = word + self.context(context)
        gates = torch.sigmoid(word[..., :gates_dim] + gates_in)
        update, reset = gates.chunk(2, dim=-1)
        candidate = torch.tanh(word[..., gates_dim:] + self.candidate(reset * state))
        return torch.lerp(state, candidate, update), context

    def read(self, states, words, contexts):
        """Returns the logits after states, `(batch, any, vocabulary)`."""
        read = torch.cat([states, words, contexts], dim=-1)
        pairs = self.readout(read).unflatten(-1, (-1, 2))
        return self.logits(pairs.amax(dim=-1))


class TorchRNNsearch(nn.Module):
    """The whole translator: `model(source_ids, target_ids)` returns logits."""

    def __init__(self, vocabulary_size: int, width: int):
        super().__init__()
        self.encoder = BidirectionalEncoder(vocabulary_size, width, width)
        self.decoder = AttentionDecoder(
            vocabulary_size, width, width, width, width, memory_dim=2 * width
        )

    def forward(self, source_ids, target_ids):
        annotations, state, mask = self.encoder(source_ids)
        return self.decoder(target_ids, annotations, state, mask)


def _uniform(*shape):
    bound = shape[-2] ** -0.5
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))
