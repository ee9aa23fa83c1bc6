"""The types of texts, of functions of graphs, and of the options of a search."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypedDict

import numpy as np
import tensorflow as tf

from keras_attention.search.penalties import CoveragePenaltyFunction, LengthPenalty

#: Texts `(batch,)`, as a tensor or as Python's or NumPy's strings.
Texts: TypeAlias = tf.Tensor | np.ndarray | Sequence[str | bytes]
#: What the JSON of a run or a model card holds.
JSONValue: TypeAlias = str | int | float | Sequence["JSONValue"] | Mapping[str, "JSONValue"] | None
#: `(ids, length) -> dict` of tensors over the rows.
TextFunction: TypeAlias = Callable[[tf.Tensor, tf.Tensor], dict[str, tf.Tensor]]


class SearchOptions(TypedDict, total=False):
    """The options of a translator's searches, as `export_translator` takes them."""

    beam_width: int
    max_length: int
    max_source_length: int | str | None
    length_penalty: LengthPenalty | None
    coverage_penalty: CoveragePenaltyFunction | None
    min_length: int
    suppress_ids: Sequence[int]
    no_repeat_ngram_size: int | None
