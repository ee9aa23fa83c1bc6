"""Joins the texts of several sources to the one text that a translator of several sources reads."""

import re

import tensorflow as tf

from keras_attention import SplitSources
from keras_attention.export.tokenizers import Tokenizer


def make_source_joiner(encoder, tokenizer) -> "SourceJoiner | None":
    """Returns the `SourceJoiner` of an encoder with a layer `SplitSources`, else None.

    Raises:
        ValueError: If no symbol of the source tokenizer has the id of the separator, or the
            encoders of an ensemble split sources in different ways.
    """
    layers = [one for one in encoder._flatten_layers() if isinstance(one, SplitSources)]
    ways = {(layer.num_sources, layer.separator_id) for layer in layers}
    if len(ways) > 1:
        raise ValueError(
            "The encoders of an ensemble are expected to split the same number of sources at the "
            f"same separator. Received: (num_sources, separator_id) of {sorted(ways)}"
        )
    return SourceJoiner(tokenizer, *ways.pop()) if ways else None


class SourceJoiner:
    """Joins a text of each source, as `ein hund <sep> un chien`.

    Args:
        tokenizer: Tokenizer of the source side; a symbol of it is the separator.
        num_sources: Number of sources.
        separator_id: Id of the separator.

    Attributes:
        separator: The separator.
        inputs: A `tf.TensorSpec` for each source: `text`, `text_2`, ...

    Raises:
        ValueError: If no symbol of the tokenizer has the id.
    """

    def __init__(self, tokenizer: Tokenizer, num_sources: int, separator_id: int):
        self.separator = tokenizer.ids_to_tokens([separator_id]).numpy()[0].decode()
        if self.separator not in tokenizer.symbols:
            raise ValueError(
                f"The encoder separates sources by the id {separator_id}, so the source tokenizer "
                'is expected to have a symbol with this id. Train it with `symbols=["<sep>"]`. '
                f"Received: id {separator_id} is {self.separator!r}, symbols={tokenizer.symbols}"
            )
        self._normalize = tokenizer.normalize
        names = ["text", *(f"text_{number}" for number in range(2, num_sources + 1))]
        self.inputs = tuple(tf.TensorSpec([None], tf.string, name=name) for name in names)

    def join(self, *texts: tf.Tensor) -> tf.Tensor:
        """Returns the text `(batch,)` of the texts `(batch,)` of all sources.

        Separators inside of a text are removed. If all texts are empty, so is the result.
        """
        # Replace a separator with a space: without it the text around might form a new separator.
        pattern = re.escape(self.separator)
        texts = [tf.strings.regex_replace(self._normalize(text), pattern, " ") for text in texts]
        texts = [tf.strings.strip(text) for text in texts]
        joined = tf.strings.strip(tf.strings.join(texts, f" {self.separator} "))
        is_empty = tf.reduce_all(tf.stack(texts) == "", axis=0)
        return tf.where(is_empty, "", joined)
