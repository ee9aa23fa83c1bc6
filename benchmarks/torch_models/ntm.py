"""The Neural Turing Machine in PyTorch, the peers of the `ntm` benchmark: plain and tuned.

    h_t  = LSTM([x_t; r_{t-1}], h_{t-1})
    k, beta, g, gamma, s, e, a = W_head h_t + b_head              clipped to [-20, 20] first
    wc   = softmax(beta cosine(k, M_{t-1}))     wg = g wc + (1 - g) w_{t-1}
    w~   = s(-1), s(0), s(1) roll wg            w_t = w~^gamma / sum w~^gamma
    M_t  = M_{t-1} * (1 - w_t e) + w_t a        r_t = sum_i w_t(i) M_t(i)
    y_t  = W_out [h_t; r_t] + b_out             logits

`PlainNTM` is the equations as they stand, with the functions that PyTorch has for them: an
`nn.LSTMCell`, `cosine_similarity`, a power and a quotient; both heads are addressed together.
`TorchNTM` is what a careful user makes of it: what depends on the inputs alone is projected for
all steps before the loop, every product of the same input is one, kinds of numbers that pass the
same function stand side by side, and of two forms of a line the faster one stands here
(`cosine_similarity` makes a tensor of all slots for every head). A test copies weights from our
layer to both and compares logits.

Reference: Graves et al. 2014, https://arxiv.org/abs/1410.5401, section 3.
"""

import torch
from torch import nn
from torch.nn import functional

LIMIT, CONSTANT, LOG_EPSILON, NORM_EPSILON = 20.0, 1e-6, 1e-12, 1e-12
HEADS, SHIFTS = 2, 3  # the read head first


class TorchNTM(nn.Module):
    """One read and one write head, an LSTM controller; `model(inputs)` returns logits.

    The columns of `heads` are: keys, addition; strengths, sharpenings; gates, erase; shifts.
    """

    def __init__(
        self, input_dim: int, output_dim: int, units: int, memory_size: int, word_size: int
    ):
        super().__init__()
        self.sizes = [HEADS * word_size + word_size, 2 * HEADS, HEADS + word_size, HEADS * SHIFTS]
        self.shape = (memory_size, word_size)
        self.inputs = nn.Linear(input_dim, 4 * units)
        self.fed = nn.Linear(word_size + units, 4 * units, bias=False)  # [reads; h]
        self.heads = nn.Linear(units, sum(self.sizes))
        self.outputs = nn.Linear(units + word_size, output_dim)
        self.initial_reads = nn.Parameter(torch.empty(word_size).uniform_(-0.1, 0.1))
        self.initial_weights = nn.Parameter(torch.empty(HEADS, memory_size).uniform_(-0.1, 0.1))

    def forward(self, inputs):
        """Returns logits `(batch, time, output_dim)` for inputs `(batch, time, input_dim)`."""
        batch, units = len(inputs), self.heads.in_features
        memory = inputs.new_full((batch, *self.shape), CONSTANT)
        reads = torch.tanh(self.initial_reads).expand(batch, -1)
        weights = torch.softmax(self.initial_weights, -1).expand(batch, -1, -1)
        hidden = carry = inputs.new_zeros(batch, units)
        state, read_out = (hidden, reads, carry, weights, memory), []
        for projected in self.inputs(inputs).unbind(1):
            state = self.step(projected, *state)
            read_out.append(torch.cat(state[:2], -1))  # [h; r]
        return self.outputs(torch.stack(read_out, 1))

    def step(self, projected, hidden, reads, carry, weights, memory):
        """Returns the new state: hidden, reads, carry, weights, memory."""
        word_size = self.shape[1]
        gates = torch.addmm(projected, torch.cat([reads, hidden], -1), self.fed.weight.t())
        hidden, carry = lstm(gates, carry)
        row = self.heads(hidden).clamp(-LIMIT, LIMIT)
        vectors, positive, shares, shift = row.split(self.sizes, -1)
        vectors, positive = torch.tanh(vectors), functional.softplus(positive)
        shares = torch.sigmoid(shares)
        shift = torch.softmax(shift.view(-1, HEADS, SHIFTS), -1)
        keys = vectors[:, : HEADS * word_size].view(-1, HEADS, word_size)
        addition, erase = vectors[:, None, HEADS * word_size :], shares[:, None, HEADS:]
        strength, sharpening = positive[:, :HEADS, None], 1 + positive[:, HEADS:, None]
        content = torch.softmax(strength * cosine(keys, memory), -1)
        weights = torch.lerp(weights, content, shares[:, :HEADS, None])
        weights = (
            shift[..., :1] * torch.roll(weights, -1, -1)
            + shift[..., 1:2] * weights
            + shift[..., 2:] * torch.roll(weights, 1, -1)
        )
        weights = torch.softmax(sharpening * torch.log(weights + LOG_EPSILON), -1)
        memory = memory + weights[:, 1, :, None] * (addition - erase * memory)
        reads = torch.bmm(weights[:, :1], memory)[:, 0]
        return hidden, reads, carry, weights, memory


class PlainNTM(nn.Module):
    """The same machine, written down without a thought of speed.

    The columns of `heads` are: keys, strengths, gates, sharpenings, shifts, erase, addition.
    """

    def __init__(
        self, input_dim: int, output_dim: int, units: int, memory_size: int, word_size: int
    ):
        super().__init__()
        self.sizes = [HEADS * word_size, HEADS, HEADS, HEADS, HEADS * SHIFTS, word_size, word_size]
        self.shape = (memory_size, word_size)
        self.cell = nn.LSTMCell(input_dim + word_size, units)
        self.heads = nn.Linear(units, sum(self.sizes))
        self.outputs = nn.Linear(units + word_size, output_dim)
        self.initial_reads = nn.Parameter(torch.empty(word_size).uniform_(-0.1, 0.1))
        self.initial_weights = nn.Parameter(torch.empty(HEADS, memory_size).uniform_(-0.1, 0.1))

    def forward(self, inputs):
        """Returns logits `(batch, time, output_dim)` for inputs `(batch, time, input_dim)`."""
        batch, units = len(inputs), self.heads.in_features
        memory = inputs.new_full((batch, *self.shape), CONSTANT)
        reads = torch.tanh(self.initial_reads).expand(batch, -1)
        weights = torch.softmax(self.initial_weights, -1).expand(batch, -1, -1)
        hidden = carry = inputs.new_zeros(batch, units)
        outputs = []
        for step in inputs.unbind(1):
            hidden, carry = self.cell(torch.cat([step, reads], -1), (hidden, carry))
            reads, weights, memory = self.access(hidden, weights, memory)
            outputs.append(self.outputs(torch.cat([hidden, reads], -1)))
        return torch.stack(outputs, 1)

    def access(self, hidden, weights, memory):
        """Returns what is read, the new weights of both heads and the new memory."""
        row = self.heads(hidden).clamp(-LIMIT, LIMIT)
        key, strength, gate, sharpening, shift, erase, addition = row.split(self.sizes, -1)
        key = torch.tanh(key).view(-1, HEADS, 1, self.shape[1])
        strength, gate = functional.softplus(strength)[..., None], torch.sigmoid(gate)[..., None]
        sharpening = 1 + functional.softplus(sharpening)[..., None]
        shift = torch.softmax(shift.view(-1, HEADS, SHIFTS), -1)
        erase, addition = torch.sigmoid(erase)[:, None], torch.tanh(addition)[:, None]
        similarity = functional.cosine_similarity(key, memory[:, None], dim=-1, eps=1e-8)
        content = torch.softmax(strength * similarity, -1)
        gated = gate * content + (1 - gate) * weights
        shifted = sum(
            shift[..., index : index + 1] * torch.roll(gated, index - 1, -1)
            for index in range(SHIFTS)
        )
        power = (shifted + LOG_EPSILON) ** sharpening
        weights = power / power.sum(-1, keepdim=True)
        write = weights[:, 1, :, None]
        memory = memory * (1 - write * erase) + write * addition
        reads = (weights[:, 0, :, None] * memory).sum(1)
        return reads, weights, memory


def lstm(gates, carry):
    """Returns the hidden state and the carry from pre-activations in the order i, f, o, g."""
    units = carry.shape[-1]
    entry, forget, leave = torch.sigmoid(gates[:, : 3 * units]).chunk(3, -1)
    carry = torch.addcmul(forget * carry, entry, torch.tanh(gates[:, 3 * units :]))
    return leave * torch.tanh(carry), carry


def cosine(keys, memory):
    """Returns the cosine of every key and every slot, `(batch, heads, memory_size)`."""
    key_scale = torch.rsqrt(keys.square().sum(-1, keepdim=True) + NORM_EPSILON)
    memory_scale = torch.rsqrt(memory.square().sum(-1)[:, None] + NORM_EPSILON)
    return torch.bmm(keys, memory.mT) * key_scale * memory_scale


def train_step(model, optimizer, inputs, targets, clip: float = 10.0) -> float:
    """Makes one step (forward, backward, clip, update) and returns the mean loss of a bit.

    Args:
        targets: `(batch, due, output_dim)`, what the last `due` steps should give.
    """
    optimizer.zero_grad(set_to_none=True)
    logits = model(inputs)[:, -targets.shape[1] :]
    loss = functional.binary_cross_entropy_with_logits(logits, targets)
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), clip)
    optimizer.step()
    return loss.item()
