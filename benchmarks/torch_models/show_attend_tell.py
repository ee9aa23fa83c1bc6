"""Show, Attend and Tell with soft attention in PyTorch, the peer of the training benchmark.

    a = reshape(CNN(image)) + P[location]
    h_0 = tanh(f_h(mean_i a_i))   c_0 = tanh(f_c(mean_i a_i))
    e_ti = w . tanh(W_a a_i + W_h h_{t-1} + b)    alpha_t = softmax_i(e_ti)
    z_t = sigmoid(w_b . h_{t-1} + b_b) sum_i alpha_ti a_i
    h_t, c_t = LSTM([E y_{t-1}; z_t], h_{t-1}, c_{t-1})
    logits = L_o tanh(E y_{t-1} + L [h_t; z_t])

It is written as a careful PyTorch user would: convolutions in `channels_last`, which oneDNN runs
and from which annotations are a view; what depends on the words or on the image alone is projected
before the loop, products of the same input are one product, the readout sees all positions at
once. A test copies weights from the Keras model and compares logits.

Reference: Xu et al. 2015, https://arxiv.org/abs/1502.03044, section 3.1.
"""

import torch
from torch import nn

from benchmarks.torch_models.ntm import lstm

START_ID = 2


class ImageEncoder(nn.Module):
    """Four convolutions, three of which halve the image; `encoder(image)` returns annotations.

    The third pads above and on the left, so that a location stays in the middle of what it sees.
    """

    def __init__(self, side: int, dim: int):
        super().__init__()
        blocks, inputs = [], 1
        for number, (outputs, kernel, stride) in enumerate(
            [(max(1, dim // 4), 5, 2), (max(1, dim // 2), 3, 2), (dim, 3, 2), (dim, 3, 1)]
        ):
            before, after = (1, 0) if number == 2 else same_padding(side, kernel, stride)
            blocks += [
                nn.ZeroPad2d((before, after, before, after)),
                nn.Conv2d(inputs, outputs, kernel, stride, bias=False),
                nn.BatchNorm2d(outputs, eps=1e-3),
                nn.ReLU(),
            ]
            side, inputs = (side + before + after - kernel) // stride + 1, outputs
        self.blocks = nn.Sequential(*blocks).to(memory_format=torch.channels_last)
        self.positions = nn.Parameter(torch.empty(side**2, dim).uniform_(-0.05, 0.05))

    def forward(self, image):
        """Returns annotations `(batch, locations, dim)` of images `(batch, side, side, 1)`."""
        annotations = self.blocks(image.permute(0, 3, 1, 2) / 255)
        return annotations.permute(0, 2, 3, 1).flatten(1, 2) + self.positions


class CaptionDecoder(nn.Module):
    """An LSTM that attends to the annotations with its last state."""

    def __init__(self, vocabulary: int, embedding_dim: int, units: int, dim: int):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding_dim)
        self.begin = nn.Linear(dim, 2 * units)  # f_h, f_c
        self.key = nn.Linear(dim, units)  # W_a
        self.query = nn.Linear(units, units, bias=False)  # W_h
        self.score = nn.Parameter(torch.empty(units).uniform_(-0.1, 0.1))  # w
        self.gate = nn.Linear(units, 1)  # w_b
        self.words = nn.Linear(embedding_dim, 4 * units)
        self.fed = nn.Linear(dim + units, 4 * units, bias=False)  # [z_t; h_{t-1}]
        self.readout = nn.Linear(units + dim, embedding_dim)
        self.logits = nn.Linear(embedding_dim, vocabulary)

    def forward(self, ids, annotations):
        """Returns logits `(batch, target, vocabulary)` for the inputs `[start, y_1, ...]`."""
        keys = self.key(annotations)
        words = self.embedding(ids).masked_fill((ids == START_ID)[..., None], 0.0)
        hidden, carry = torch.tanh(self.begin(annotations.mean(1))).chunk(2, -1)
        read_out = []
        for word in self.words(words).unbind(1):
            scores = torch.tanh(self.query(hidden)[:, None] + keys) @ self.score
            weights = torch.softmax(scores, -1)
            context = torch.bmm(weights[:, None], annotations)[:, 0]
            context = torch.sigmoid(self.gate(hidden)) * context
            hidden, carry = lstm(word + self.fed(torch.cat([context, hidden], -1)), carry)
            read_out.append(torch.cat([hidden, context], -1))
        return self.logits(torch.tanh(words + self.readout(torch.stack(read_out, 1))))


class TorchShowAttendTell(nn.Module):
    """The whole captioner: `model(image, target_ids)` returns logits."""

    def __init__(
        self, vocabulary: int, side: int, units: int, embedding_dim: int, annotation_dim: int
    ):
        super().__init__()
        self.encoder = ImageEncoder(side, annotation_dim)
        self.decoder = CaptionDecoder(vocabulary, embedding_dim, units, annotation_dim)

    def forward(self, image, target_ids):
        return self.decoder(target_ids, self.encoder(image))


def same_padding(side: int, kernel: int, stride: int) -> tuple[int, int]:
    """Returns the zeros before and after with which the side is `ceil(side / stride)`."""
    total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
    return total // 2, total - total // 2
