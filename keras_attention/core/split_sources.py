"""The sources of one sequence of ids, `1 2 <sep> 3 4`, each at its own positions."""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer
from keras_attention._utils.tensor_types import Config, LayerOptions, Tensor


@keras.saving.register_keras_serializable(package="keras_attention")
class SplitSources(Layer):
    """Splits ids of several sources, with separators between them, into the ids of each source.

    Use it as the first layer of an encoder of several sources; `ConcatenateSources` with
    `shared_positions` is the last one. A separator ends the source before it. A source that a
    sequence does not have is all padding, and everything behind the last separator that is expected
    belongs to the last source. The export of a translator whose encoder has this layer takes a text
    for each source too.

    Args:
        num_sources: Number of sources, an int of at least 2.
        separator_id: The id between two sources. 4 is the first id of a tokenizer behind the
            special ids, so that of a single symbol.

    Call arguments:
        ids: Int tensor `(batch, length)`, padded with 0.

    Returns:
        List of the ids `(batch, length)` of each source: 0 at the positions of the others.

    Raises:
        ValueError: If `num_sources` is less than 2, `separator_id` is not a positive int, or `ids`
            has another rank.

    Masking: reads no mask and passes none on; the ids that are not 0 are valid.

    Example:

    >>> sources = SplitSources(num_sources=2)(keras.ops.array([[7, 8, 4, 9]]))
    >>> [keras.ops.convert_to_numpy(ids).tolist() for ids in sources]
    [[[7, 8, 4, 0]], [[0, 0, 0, 9]]]
    """

    def __init__(
        self, num_sources: int, separator_id: int = 4, **kwargs: Unpack[LayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        owner = "SplitSources"
        self.num_sources: int = validation.check_int_at_least(owner, "num_sources", num_sources, 2)
        self.separator_id: int = validation.check_positive_int(owner, "separator_id", separator_id)

    def call(self, ids: Tensor) -> list[Tensor]:
        validation.check_axes("SplitSources", "ids", ids.shape, "(batch, length)", "", False)
        separators = ops.cast(ops.equal(ids, self.separator_id), "int32")
        number = ops.minimum(ops.cumsum(separators, axis=1) - separators, self.num_sources - 1)
        return [ops.where(ops.equal(number, n), ids, 0) for n in range(self.num_sources)]

    def get_config(self) -> Config:
        own = {"num_sources": self.num_sources, "separator_id": self.separator_id}
        return {**super().get_config(), **own}
