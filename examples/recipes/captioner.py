"""A trained captioner as a model that writes: image in, words, score and looks out."""

import keras
import tensorflow as tf
from keras import ops

from examples.label_lookup import LabelLookup
from keras_attention.export.tokenizers import WordTokenizer
from keras_attention.export.tokenizers.base import EOS_ID
from keras_attention.search import beam_search


class CaptionSearch(keras.layers.Layer):
    """Searches the best caption with the decoder of a trained model.

    It is made for evaluation and export, and never stored in a `.keras` file.

    Args:
        decoder: A built decoder.
        max_length: Positive int, ids of the longest caption, the EOS token counted.
        beam_width: Positive int; 1 takes the most probable word each time.

    Call arguments:
        memory: Float tensor `(batch, locations, dim)`.

    Returns:
        A dict of `ids` `(batch, max_length)`, the EOS token among them and 0 behind it, `length`
        `(batch,)`, words without the EOS token, `score` `(batch,)`, the log-probability, and
        `weights` `(batch, max_length, locations)`.
    """

    def __init__(self, decoder, max_length, beam_width=1, **kwargs):
        super().__init__(dtype=decoder.dtype_policy, **kwargs)
        self.decoder, self.max_length, self.beam_width = decoder, max_length, beam_width
        self.built = True

    def call(self, memory):
        prepared = self.decoder.prepare(memory)
        state = self.decoder.start(prepared, max_length=self.max_length)
        found = beam_search(
            self.decoder.step,
            state,
            prepared,
            beam_width=self.beam_width,
            max_length=self.max_length,
        )
        ids = found["ids"][:, 0]
        return {
            "ids": ids,
            "length": ops.sum(ops.cast((ids != 0) & (ids != EOS_ID), "int32"), axis=1),
            "score": found["log_probs"][:, 0],
            "weights": found["alignments"][:, 0],
        }

    def compute_output_spec(self, memory):
        batch, locations = memory.shape[:2]
        return {
            "ids": keras.KerasTensor((batch, self.max_length), "int32"),
            "length": keras.KerasTensor((batch,), "int32"),
            "score": keras.KerasTensor((batch,), "float32"),
            "weights": keras.KerasTensor((batch, self.max_length, locations), "float32"),
        }


def captioner(model: keras.Model, max_length: int, beam_width: int = 1) -> keras.Model:
    """Returns the model that writes captions, with the weights of a trained one.

    Args:
        model: A captioner of `examples.models`, with the children `encoder` and `decoder`.
        max_length: Ids of the longest caption, the EOS token counted.
        beam_width: Hypotheses that are kept.

    Returns:
        A functional model from `image`, and `guide` where the model reads one, to the dict of
        `CaptionSearch`; where the encoder chooses where to look, `weights` are
        `(batch, 1, locations)`.
    """
    encoder = model.get_layer("encoder")
    inputs = {
        name: keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name)
        for name, tensor in model.input.items()
        if name != "target"
    }
    encoded = encoder(inputs if isinstance(encoder.input, dict) else inputs["image"])
    search = CaptionSearch(model.get_layer("decoder"), max_length, beam_width, name="search")
    found = search(encoded["memory"])
    if "weights" in encoded:
        found = {**found, "weights": encoded["weights"]}
    return keras.Model(inputs, found, name=model.name)


class Spelling(keras.layers.Layer):
    """Turns ids into text and words, in an exported graph.

    Args:
        tokenizer: A `WordTokenizer`.
    """

    def __init__(self, tokenizer: WordTokenizer, **kwargs):
        super().__init__(**kwargs)
        tokens = tokenizer.ids_to_tokens([range(tokenizer.vocabulary_size)]).numpy()[0]
        words = [token.decode() for token in tokens]
        self._name, self._end = LabelLookup(words, name="words"), words[EOS_ID]
        self.built = True

    def call(self, ids):
        words = self._name(ids)
        spoken = tf.where(words == self._end, "", words)
        return {
            "caption": tf.strings.strip(tf.strings.reduce_join(spoken, axis=1, separator=" ")),
            "words": words,
        }

    def compute_output_spec(self, ids):
        return {
            "caption": keras.KerasTensor(ids.shape[:1], "string"),
            "words": keras.KerasTensor(ids.shape, "string"),
        }
