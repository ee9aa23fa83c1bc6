"""The types of texts and of functions of graphs."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf

#: Texts `(batch,)`, as a tensor or as Python's or NumPy's strings.
Texts: TypeAlias = tf.Tensor | np.ndarray | Sequence[str | bytes]
#: A value in the JSON of a run or a model card.
JSONValue: TypeAlias = str | int | float | Sequence["JSONValue"] | Mapping[str, "JSONValue"] | None
#: `(ids, length) -> dict` of tensors over the rows.
TextFunction: TypeAlias = Callable[[tf.Tensor, tf.Tensor], dict[str, tf.Tensor]]
