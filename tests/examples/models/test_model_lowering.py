"""Every model's gradient and every search lower for XLA's GPU platform, which needs no GPU.

TensorFlow registers XLA's GPU kernels on every machine. Lowering fails for an operation that XLA
cannot compile there. Weights are arguments, because the device that is not there holds none.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from benchmarks.decode import searcher
from examples.registry import MODELS

pytestmark = pytest.mark.slow

PAIR, WIDE = (23, 19), {"units": 16, "embedding_dim": 12}
#: What the function `build` of each model gets.
BUILDS = {
    "rnnsearch": (PAIR, {**WIDE, "dropout": 0.2}),
    "rnn-encoder-decoder": (PAIR, {**WIDE, "dropout": 0.2}),
    "seq2seq": (PAIR, {**WIDE, "layers": 2, "dropout": 0.2}),
    "luong": (PAIR, {**WIDE, "local_attention": "predictive", "window": 3, "dropout": 0.2}),
    "transformer": (PAIR, {"units": 16, "layers": 2, "heads": 2}),
    "convs2s": (PAIR, {**WIDE, "encoder_layers": 2, "decoder_layers": 2}),
    "key-value": (PAIR, {**WIDE, "dropout": 0.2}),
    "mixed": (PAIR, {**WIDE, "encoder": "lstmn", "decoder": "luong"}),
    "multi-source": (PAIR, {**WIDE, "sentinel": True, "dropout": 0.2}),
    "ntm": ((5, 3), {"units": 16, "memory_size": 11, "word_size": 7}),
    "lstm": ((5, 3), {"units": 16, "layers": 2}),
    "han": ((23, 3), {"units": 8, "embedding_dim": 12}),
    "memory-network": ((23, 7, 11, False), {}),
    "attention-over-attention": ((23,), WIDE),
    "attention-sum": ((23,), WIDE),
    "show-attend-tell": ((23, 24), {**WIDE, "attention": "hard"}),
    "text-guided": ((23, 24), WIDE),
    "lstmn": ((23,), WIDE),
    "lstm-language-model": ((23,), WIDE),
    "ram": ((28, 28), {"glimpses": 2, "units": 16}),
    "draw": ((28, 28), {"steps": 2, "units": 16, "latent_dim": 5}),
}
TRANSLATORS = [name for name, (sizes, _) in BUILDS.items() if sizes == PAIR]
POLICIES = (None, "mixed_bfloat16", "mixed_float16")


def make_inputs(model):
    """Ones in the shape of each input, 5 where it is open."""

    def make(spec):
        shape = [3, *(size or 5 for size in spec.shape[1:])]
        return tf.convert_to_tensor(np.ones(shape, keras.backend.standardize_dtype(spec.dtype)))

    return keras.tree.map_structure(make, model.input)


def lower(model, function, *arguments):
    """Returns the program of `function`, with the model's variables as its arguments."""
    variables = model.variables

    @tf.function(jit_compile=True, autograph=False)
    def program(values, *arguments):
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            return function(dict(zip(map(id, variables), values, strict=True)), *arguments)

    values = [tf.convert_to_tensor(variable.value) for variable in variables]
    lower_stage = program.experimental_get_compiler_ir(values, *arguments)
    return lower_stage(stage="hlo", platform_name="GPU")


def test_every_system_has_a_row():
    assert BUILDS.keys() == MODELS.keys()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", BUILDS)
def test_a_gradient_lowers(name, policy):
    sizes, options = BUILDS[name]
    model = MODELS[name].build(*sizes, **options, dtype=policy)

    def gradient(values, inputs):
        trained = [values[id(variable)] for variable in model.trainable_variables]
        with tf.GradientTape() as tape:
            tape.watch(trained)
            outputs = keras.tree.flatten(model(inputs, training=True))
            floats = [tf.cast(output, "float32") for output in outputs if output.dtype.is_floating]
            loss = tf.add_n([tf.reduce_sum(output**2) for output in floats])
            loss += tf.add_n([0.0, *(tf.cast(each, "float32") for each in model.losses)])
        found = tape.gradient(loss, trained)
        return [tf.convert_to_tensor(each) for each in found if each is not None]

    assert "ENTRY" in lower(model, gradient, make_inputs(model))


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_search_lowers(name, policy, beam):
    sizes, options = BUILDS[name]
    model = MODELS[name].build(*sizes, **options, dtype=policy)
    search = searcher(model, beam, 7)
    assert "ENTRY" in lower(model, lambda _, ids: search(ids), tf.ones((3, 11), tf.int32))
