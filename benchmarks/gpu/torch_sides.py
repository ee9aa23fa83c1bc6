"""The sides that run on PyTorch: a callable each, which starts one unit of work.

Products of float32 may use TF32, as JAX's do by default.
"""

import torch
from torch import nn
from torch.nn import functional

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def draw(*shape, dtype="float32", seed=1):
    """Returns standard normal numbers on the device."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randn(*shape, generator=generator, device=DEVICE).to(getattr(torch, dtype))


def copy(megabytes):
    """A copy from the device to the device."""
    source = draw(megabytes * 2**20 // 4)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)[:1024]


def product(size, dtype, precision=None):
    """A square matrix product; "highest" forbids TF32."""
    left, right = (draw(size, size, dtype=dtype, seed=seed) for seed in (1, 2))

    def call():
        torch.backends.cuda.matmul.allow_tf32 = precision != "highest"
        result = left @ right
        torch.backends.cuda.matmul.allow_tf32 = True
        return result

    return call


def differentiate(module, inputs, gradient, compiled=False):
    """Returns a call of the module, or a call and the gradient of the squared outputs' sum."""
    function = torch.compile(module, dynamic=False) if compiled else module
    if not gradient:

        @torch.no_grad()
        def call():
            return function(*inputs)

        return call
    sources = [tensor.requires_grad_() for tensor in (*inputs, *module.parameters())]

    def call_and_differentiate():
        for tensor in sources:
            tensor.grad = None
        output = function(*inputs)
        output.float().square().sum().backward()
        return output.flatten()[:1024]

    return call_and_differentiate


class Heads(nn.Module):
    """Multi-head self-attention without biases, by PyTorch's fused kernels."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.inputs = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x):
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.inputs(x).chunk(3, -1)
        )
        context = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        return self.output(context.transpose(1, 2).flatten(2))


def heads(batch, length, width, heads, dtype, causal, gradient, compiled=False):
    """Multi-head self-attention with four projections."""
    torch.manual_seed(1)
    module = Heads(width, heads, causal).to(DEVICE, getattr(torch, dtype))
    return differentiate(module, (draw(batch, length, width, dtype=dtype),), gradient, compiled)


class Dot(nn.Module):
    """Scaled dot-product attention of one head."""

    def forward(self, query, value):
        query, value = query[:, None], value[:, None]
        return functional.scaled_dot_product_attention(query, value, value)[:, 0]


def dot(batch, queries, keys, width, dtype, gradient, compiled=False):
    """Scaled dot-product attention without projections."""
    inputs = [draw(batch, size, width, dtype=dtype) for size in (queries, keys)]
    return differentiate(Dot(), inputs, gradient, compiled)


class Additive(nn.Module):
    """Additive attention with projections of query and key, as the equations stand."""

    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width)
        self.vector = nn.Parameter(torch.randn(width) * width**-0.5)

    def forward(self, query, value):
        hidden = torch.tanh(self.query(query)[:, :, None] + self.key(value)[:, None])
        return torch.softmax(hidden @ self.vector, -1) @ value


def additive(batch, queries, keys, width, gradient, compiled=False):
    """Additive attention."""
    torch.manual_seed(1)
    inputs = [draw(batch, size, width) for size in (queries, keys)]
    return differentiate(Additive(width).to(DEVICE), inputs, gradient, compiled)


def make_training_step(system, batch, length, width, layers, vocabulary, dtype, compiled=False):
    """A training step of a twin; bfloat16 by autocast."""
    from benchmarks.torch_models.rnnsearch import TorchRNNsearch
    from benchmarks.torch_models.training import adam
    from benchmarks.torch_models.transformer import TorchTransformer
    from benchmarks.train import CLIP_NORM, LEARNING_RATE
    from benchmarks.training_systems import example_batch

    torch.manual_seed(1)
    if system == "rnnsearch":
        model = TorchRNNsearch(vocabulary, width)
    else:
        model = TorchTransformer(vocabulary, width, heads=4, hidden=4 * width, layers=layers)
    model = model.to(DEVICE)
    optimizer = adam(model, LEARNING_RATE)
    function = torch.compile(model, dynamic=False) if compiled else model
    batch = example_batch(batch, length, length, vocabulary)
    source, target, labels = (torch.from_numpy(ids.astype("int64")).to(DEVICE) for ids in batch)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
            logits = function(source, target)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        return loss

    return step


def search(batch, beam, source_length, length, width, vocabulary):
    """RNNsearch's greedy or beam search, eager."""
    from benchmarks.decode import example_sources
    from benchmarks.torch_models.decoding import beam_search
    from benchmarks.torch_models.rnnsearch import TorchRNNsearch

    torch.manual_seed(1)
    model = TorchRNNsearch(vocabulary, width).eval().to(DEVICE)
    ids = torch.from_numpy(example_sources(batch, source_length, vocabulary)).long().to(DEVICE)
    return lambda: beam_search(model, ids, beam, length)[1]


def ntm(batch, length, memory_size, word_size, units, tuned):
    """The loss of a batch of copy tasks and its gradients, eager."""
    from benchmarks.ntm import BITS, example_batch
    from benchmarks.torch_models.ntm import PlainNTM, TorchNTM

    torch.manual_seed(1)
    kind = TorchNTM if tuned else PlainNTM
    model = kind(BITS + 1, BITS, units, memory_size, word_size).to(DEVICE)
    inputs, targets = (torch.from_numpy(array).to(DEVICE) for array in example_batch(batch, length))

    def call():
        for parameter in model.parameters():
            parameter.grad = None
        logits = model(inputs)[:, -length:]
        loss = functional.binary_cross_entropy_with_logits(logits, targets)
        loss.backward()
        return loss

    return call


def describe():
    """Returns what computes: the device and versions."""
    name = torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu"
    return {"device": name, "torch": torch.__version__, "float32 products": "TF32 allowed"}
