"""A small translator that keeps the decoder protocol, for the tests of export.

The encoder embeds and sums up its source; the decoder attends to it by dot product. Weights
are drawn at random: what it says means nothing, but every step of it matters.
"""

import keras
import numpy as np
from keras import ops

from keras_attention import BahdanauDecoder, BahdanauGRU, SplitSources


@keras.saving.register_keras_serializable(package="export_tests")
class ToyDecoder(keras.layers.Layer):
    """`state' = tanh(E[id] + state W + context C)`, `logits = state' V`."""

    def __init__(self, vocabulary_size, units, **kwargs):
        super().__init__(**kwargs)
        self.vocabulary_size, self.units = vocabulary_size, units

    def build(self, target_ids_shape, encoder_outputs_shape, initial_state_shape=None):
        size, units = self.vocabulary_size, self.units

        def weight(name, shape):
            return self.add_weight(
                name=name, shape=shape, initializer=keras.initializers.RandomNormal(stddev=0.7)
            )

        self.embedding = weight("embedding", (size, units))
        self.recurrent = weight("recurrent", (units, units))
        self.context = weight("context", (encoder_outputs_shape[-1], units))
        self.readout = weight("readout", (units, size))
        self.key = weight("key", (encoder_outputs_shape[-1], units))

    def prepare(self, encoder_outputs, memory_mask=None):
        if memory_mask is None:
            memory_mask = ops.ones(ops.shape(encoder_outputs)[:2], dtype="bool")
        keys = ops.einsum("bsd,du->bsu", encoder_outputs, ops.convert_to_tensor(self.key))
        return {"value": encoder_outputs, "key": keys, "mask": memory_mask}

    def start(self, memory, initial_state=None, max_length=None):
        batch = ops.shape(memory["value"])[0]
        if initial_state is None:
            initial_state = ops.zeros((batch, self.units))
        return {"hidden": initial_state, "position": ops.zeros((batch,), dtype="int32")}

    def step(self, ids, state, memory):
        value, key, mask = memory["value"], memory["key"], memory["mask"]
        batch, source = ops.shape(value)[0], ops.shape(value)[1]
        rows = ops.shape(ids)[0]
        hidden = ops.reshape(state["hidden"], (batch, rows // batch, self.units))
        scores = ops.einsum("bku,bsu->bks", hidden, key)
        scores = ops.where(mask[:, None, :], scores, -1e9)
        weights = ops.softmax(scores, axis=-1)
        context = ops.einsum("bks,bsd->bkd", weights, value)
        context = ops.reshape(context, (rows, value.shape[-1]))
        hidden = ops.tanh(
            ops.take(ops.convert_to_tensor(self.embedding), ids, axis=0)
            + ops.matmul(state["hidden"], self.recurrent)
            + ops.matmul(context, self.context)
        )
        logits = ops.matmul(hidden, self.readout)
        state = {"hidden": hidden, "position": state["position"] + 1}
        return logits, state, ops.reshape(weights, (rows, source))

    def call(self, target_ids, encoder_outputs, initial_state=None):
        # Only for building and shapes: the tests decode step by step.
        return ops.take(ops.convert_to_tensor(self.embedding), target_ids, axis=0) @ self.readout

    def compute_output_shape(self, target_ids_shape, *other, **others):
        return (*target_ids_shape, self.vocabulary_size)

    def get_config(self):
        return super().get_config() | {
            "vocabulary_size": self.vocabulary_size,
            "units": self.units,
        }


def toy_translator(source_size, target_size, units=7, dim=5, seed=11, decoder=None, num_sources=1):
    """Returns a translator model with random weights."""
    keras.utils.set_random_seed(seed)
    normal = keras.initializers.RandomNormal(stddev=1.0)
    source = keras.Input((None,), dtype="int32", name="source")

    def embed(ids):
        return keras.layers.Embedding(
            source_size, dim, mask_zero=True, embeddings_initializer=normal
        )(ids)

    if num_sources == 1:
        embedded = embed(source)
    else:
        parts = SplitSources(num_sources)(source)
        embedded = keras.layers.Add()([embed(part) for part in parts])
    recurrent = keras.layers.RNN(keras.layers.GRUCell(dim), return_sequences=True)
    memory = recurrent(embedded)
    initial = keras.layers.Dense(units, activation="tanh")(
        keras.layers.GlobalAveragePooling1D()(memory)
    )
    outputs = {"memory": memory, "initial_state": initial}
    encoder = keras.Model(source, outputs, name="encoder")
    decoder = decoder or ToyDecoder(target_size, units, name="decoder")
    target = keras.Input((None,), dtype="int32", name="target")
    encoded = encoder(source)
    logits = decoder(target, encoded["memory"], initial_state=encoded["initial_state"])
    return keras.Model({"source": source, "target": target}, logits, name="toy")


def bahdanau_translator(source_size, target_size, units=29, dim=23, seed=13):
    """Returns a translator of library layers with weights large enough to have opinions."""
    keras.utils.set_random_seed(seed)
    source = keras.Input((None,), dtype="int32", name="source")
    embedded = keras.layers.Embedding(source_size, dim, mask_zero=True)(source)
    recurrent = BahdanauGRU(units, return_sequences=True, return_state=True)
    annotations, _, backward = keras.layers.Bidirectional(recurrent)(embedded)
    initial = keras.layers.Dense(units, activation="tanh")(backward)
    outputs = {"memory": annotations, "initial_state": initial}
    encoder = keras.Model(source, outputs, name="encoder")
    decoder = BahdanauDecoder(target_size, dim, units, name="decoder")
    target = keras.Input((None,), dtype="int32", name="target")
    encoded = encoder(source)
    logits = decoder(target, encoded["memory"], initial_state=encoded["initial_state"])
    model = keras.Model({"source": source, "target": target}, logits, name="bahdanau")
    generator = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        variable.assign(generator.normal(scale=0.3, size=variable.shape))
    return model
