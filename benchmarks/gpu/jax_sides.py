"""The sides that run on JAX: this library, Keras' own layers, plain loops.

Every factory returns a `Program`. Weights are arguments of its function, so that XLA does not fold
them into the program.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import keras
import numpy as np

from keras_attention.kernels import execution_mode


@dataclasses.dataclass
class Program:
    """A function to compile.

    Attributes:
        function: Callable of `arguments`.
        arguments: Its arguments, on the device.
        carries: Whether it returns `(first argument of the next call, result)`.
        turns: Turns of a loop whose end depends on data.
    """

    function: Callable
    arguments: tuple
    carries: bool = False
    turns: int = 1


SIDES = ("source", "target")


def draw(*shape, dtype="float32", seed=1):
    """Returns standard normal numbers on the device."""
    return jax.random.normal(jax.random.key(seed), shape, "float32").astype(dtype)


def copy(megabytes):
    """A copy from the device to the device: it reads and writes this many bytes."""
    # Negation, as XLA would return an input that is only copied.
    return Program(lambda x: -x, (draw(megabytes * 2**20 // 4),))


def product(size, dtype, precision=None):
    """A square matrix product."""
    left, right = (draw(size, size, dtype=dtype, seed=seed) for seed in (1, 2))
    return Program(lambda a, b: jnp.matmul(a, b, precision=precision), (left, right))


def tangents(count, times):
    """Hyperbolic tangents of tangents, in one kernel."""

    def run(x):
        for _ in range(times):
            x = jnp.tanh(x)
        return x

    return Program(run, (draw(count),))


def layer_program(layer, inputs, gradient, spread=tuple, **options):
    """Returns a call of a layer, or the gradients of the sum of its squared outputs.

    Args:
        spread: Callable of the tuple of inputs that returns the positional arguments of the layer.
    """
    if not layer.built:
        sizes = [(1, *[min(2, size) for size in x.shape[1:-1]], x.shape[-1]) for x in inputs]
        layer(*spread(tuple(map(jnp.zeros, sizes, [x.dtype for x in inputs]))))
    weights = [variable.value for variable in layer.trainable_variables]
    fixed = [variable.value for variable in layer.non_trainable_variables]

    def call(weights, fixed, inputs):
        return layer.stateless_call(weights, fixed, *spread(inputs), **options)[0]

    def loss(weights, fixed, inputs):
        output = call(weights, fixed, inputs)
        return jnp.sum(output.astype("float32") ** 2), jnp.ravel(output)[:1024]

    def call_and_differentiate(weights, fixed, inputs):
        gradients, output = jax.grad(loss, (0, 2), has_aux=True)(weights, fixed, inputs)
        return output, gradients

    return Program(call_and_differentiate if gradient else call, (weights, fixed, inputs))


def as_list(inputs):
    """Returns the arguments of Keras' layers that take a list."""
    return ([*inputs],)


def heads(owner, batch, length, width, heads, dtype, causal, gradient):
    """Multi-head self-attention with four projections without biases."""
    from keras_attention import MultiHeadAttention

    keras.utils.set_random_seed(1)
    kind = MultiHeadAttention if owner == "ours" else keras.layers.MultiHeadAttention
    layer = kind(heads, width // heads, use_bias=False, dtype=dtype)
    x = draw(batch, length, width, dtype=dtype)
    layer.build(x.shape, x.shape)
    return layer_program(layer, (x,), gradient, lambda x: x * 2, use_causal_mask=causal)


def dot(owner, batch, queries, keys, width, dtype, gradient):
    """Scaled dot-product attention of one head, without projections."""
    from keras_attention import Attention

    query = draw(batch, queries, width, dtype=dtype)
    value = draw(batch, keys, width, dtype=dtype, seed=2)
    if owner == "ours":
        return layer_program(Attention("scaled_dot", dtype=dtype), (query, value), gradient)
    layer = keras.layers.Attention(dtype=dtype)
    inputs = (query * width**-0.5, value)  # Keras' learned scale is no part of the comparison
    return layer_program(layer, inputs, gradient, spread=as_list)


def additive(owner, batch, queries, keys, width, gradient, blockwise="auto", dtype="float32"):
    """Additive attention; ours projects query and key, Keras' does not."""
    from keras_attention import BahdanauAttention

    keras.utils.set_random_seed(1)
    query = draw(batch, queries, width, dtype=dtype)
    value = draw(batch, keys, width, dtype=dtype, seed=2)
    if owner == "Keras":
        layer = keras.layers.AdditiveAttention(dtype=dtype)
        return layer_program(layer, (query, value), gradient, spread=as_list)
    layer = BahdanauAttention(width, blockwise=blockwise, dtype=dtype)
    return layer_program(layer, (query, value), gradient)


def normalizer(kind, shape, gradient):
    """A normalizer alone, on random scores."""
    from keras_attention import normalizers

    layer = {
        "softmax": lambda: normalizers.SoftmaxNormalizer(),
        "sparsemax": lambda: normalizers.SparsemaxNormalizer(),
        "entmax": lambda: normalizers.EntmaxNormalizer(1.5),
        "monotonic": lambda: normalizers.MonotonicNormalizer(),
        "recursive": lambda: normalizers.MonotonicNormalizer(mode="recursive"),
    }[kind]()
    return layer_program(layer, (draw(*shape),), gradient)


def translator(system, width, layers, vocabulary, policy, heads=4):
    """Returns RNNsearch or a Transformer of `layers` and `layers` layers.

    They are those of `examples.models`, which need TensorFlow to be imported, as its parts.
    """
    from examples.models.encoders import bidirectional_gru, transformer
    from keras_attention import BahdanauAttention, BahdanauDecoder, TransformerDecoder

    keras.utils.set_random_seed(1)
    if system == "transformer":
        common = {"dropout": 0.0, "dtype": policy}
        sizes = (vocabulary, width, layers, heads, 4 * width)
        encoder = transformer.build(*sizes, **common)
        decoder = TransformerDecoder(*sizes, **common, name="decoder")
    else:
        encoder = bidirectional_gru.build(vocabulary, width, width, dtype=policy)
        attention = BahdanauAttention(width, dtype=policy, name="attention")
        decoder = BahdanauDecoder(
            vocabulary, width, width, width, attention=attention, dtype=policy, name="decoder"
        )
    source, target = (keras.Input([None], dtype="int32", name=name) for name in SIDES)
    encoded = dict(encoder(source))
    logits = decoder(target, encoded.pop("memory"), **encoded)
    return keras.Model({"source": source, "target": target}, logits)


def make_training_step(system, batch, length, width, layers, vocabulary, dtype):
    """Forward, backward, clipping by global norm and Adam on full sentences."""
    from benchmarks.train import CLIP_NORM, LEARNING_RATE
    from benchmarks.training_systems import example_batch

    policy = dtype if dtype == "float32" else f"mixed_{dtype}"
    model = translator(system, width, layers, vocabulary, policy)
    source, target, labels = map(jnp.asarray, example_batch(batch, length, length, vocabulary))
    optimizer = keras.optimizers.Adam(LEARNING_RATE, global_clipnorm=CLIP_NORM)
    optimizer.build(model.trainable_variables)
    fixed = [variable.value for variable in model.non_trainable_variables]

    def loss(weights, fixed, inputs, labels):
        logits, _ = model.stateless_call(weights, fixed, inputs, training=True)
        log_probs = jax.nn.log_softmax(logits.astype("float32"))
        return -jnp.mean(jnp.take_along_axis(log_probs, labels[..., None], -1))

    def step(state, fixed, inputs, labels):
        weights, slots = state
        value, gradients = jax.value_and_grad(loss)(weights, fixed, inputs, labels)
        return optimizer.stateless_apply(slots, gradients, weights)[:2], value

    state = [
        [variable.value for variable in group]
        for group in (model.trainable_variables, optimizer.variables)
    ]
    state = jax.tree_util.tree_map(jnp.copy, state)  # they are donated
    inputs = {"source": source, "target": target}
    return Program(step, (tuple(state), fixed, inputs, labels), carries=True)


def search(system, batch, beam, source_length, length, width, layers, vocabulary, dtype):
    """Greedy or beam search, encoder included, with the EOS token forbidden; weights in `dtype`."""
    from benchmarks.decode import example_sources, searcher

    model = translator(system, width, layers, vocabulary, dtype)
    find = searcher(model, beam, length)
    values = [variable.value for variable in model.variables]

    def run(values, ids):
        pairs = list(zip(model.variables, values, strict=True))
        with keras.StatelessScope(state_mapping=pairs):
            ids, log_probs = find(ids)
        return log_probs, ids

    ids = jnp.asarray(example_sources(batch, source_length, vocabulary))
    return Program(run, (values, ids), turns=length)


def naive_search(batch, beam, source_length, length, width, layers, vocabulary, dtype):
    """The least a Transformer decoder's search can be: see `benchmarks.gpu.naive_loop`."""
    from benchmarks.gpu import naive_loop

    weights = naive_loop.make_weights(width, layers, vocabulary, dtype)
    memory = draw(batch, source_length, width, dtype=dtype)

    def run(weights, memory):
        return naive_loop.decode(weights, memory, beam, length)

    return Program(run, (weights, memory), turns=length)


def ntm(batch, length, memory_size, word_size, units):
    """The loss of a batch of copy tasks and its gradients."""
    from benchmarks.ntm import build_model, example_batch

    keras.utils.set_random_seed(1)
    model = build_model(length, memory_size, word_size, units)
    inputs, targets = map(jnp.asarray, example_batch(batch, length))
    fixed = [variable.value for variable in model.non_trainable_variables]

    def loss(weights, fixed, inputs, targets):
        logits = model.stateless_call(weights, fixed, inputs, training=True)[0][:, -length:]
        losses = keras.ops.binary_crossentropy(targets, logits, from_logits=True)
        return keras.ops.mean(losses)

    weights = [variable.value for variable in model.trainable_variables]
    return Program(jax.value_and_grad(loss), (weights, fixed, inputs, targets))


def describe():
    """Returns what computes: the device, versions, and whether the library sees a GPU."""
    device = jax.devices()[0]
    return {
        "device": f"{device.platform}: {device.device_kind}",
        "jax": jax.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        "library sees a GPU": execution_mode.has_gpu(),
        "default matmul precision": str(jax.config.jax_default_matmul_precision),
    }
