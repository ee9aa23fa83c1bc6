"""The types of arguments and results.

Shapes and dtypes are given in docstrings. Functions take a `TensorLike` and return a `Tensor`.
Hooks that a subclass overrides take a `Tensor` and may return any `TensorLike`.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from types import EllipsisType
from typing import Protocol, TypeAlias, TypedDict

import keras
import numpy as np


class Tensor(Protocol):
    """What tensors of every backend can do: what hooks are given, and what functions return."""

    @property
    def shape(self) -> Sequence[int | None]: ...
    @property
    def dtype(self) -> Hashable: ...
    def __array__(self) -> np.ndarray: ...
    def __getitem__(self, key: "Index", /) -> "Tensor": ...
    def __neg__(self) -> "Tensor": ...
    def __add__(self, other: "TensorLike | float", /) -> "Tensor": ...
    def __radd__(self, other: "TensorLike | float", /) -> "Tensor": ...
    def __sub__(self, other: "TensorLike | float", /) -> "Tensor": ...
    def __rsub__(self, other: "TensorLike | float", /) -> "Tensor": ...
    def __mul__(self, other: "TensorLike | float", /) -> "Tensor": ...
    def __rmul__(self, other: "TensorLike | float", /) -> "Tensor": ...
    def __truediv__(self, other: "TensorLike | float", /) -> "Tensor": ...
    def __rtruediv__(self, other: "TensorLike | float", /) -> "Tensor": ...
    def __matmul__(self, other: "TensorLike", /) -> "Tensor": ...
    def __pow__(self, other: "TensorLike | float", /) -> "Tensor": ...


class BackendTensor(Protocol):
    """A tensor as a type checker sees it: Keras annotates the results of `keras.ops` vaguely."""

    @property
    def shape(self) -> Iterable[int | None] | None: ...
    @property
    def dtype(self) -> Hashable: ...


#: What a Keras layer takes as a tensor: symbolic, NumPy's, or a backend's.
TensorLike: TypeAlias = Tensor | keras.KerasTensor | np.ndarray | BackendTensor
Index: TypeAlias = (
    int | slice | None | TensorLike | EllipsisType | tuple["int | slice | None | TensorLike", ...]
)
#: An int, or a scalar int tensor where a size is not known while tracing.
Size: TypeAlias = int | TensorLike
Sizes: TypeAlias = Sequence[Size]
#: A static shape; None is a size that is not known.
Shape: TypeAlias = Sequence[int | None]
OutputShape: TypeAlias = tuple[int | None, ...]
#: A tensor, or dicts, lists and tuples of tensors: states, memories, prepared sources.
Structure: TypeAlias = TensorLike | Sequence["Structure"] | Mapping[str, "Structure"] | None
TensorDict: TypeAlias = dict[str, Structure]
#: What a call returns: one tensor, or a tuple where more was requested.
Outputs: TypeAlias = TensorLike | tuple[Structure, ...]
#: What `compute_output_spec` returns.
Spec: TypeAlias = keras.KerasTensor | tuple["Spec", ...] | list["Spec"] | dict[str, "Spec"] | None
Mask: TypeAlias = TensorLike | Sequence[TensorLike | None] | None

#: A word alignment: the `(source, target)` positions of the words that are linked.
Links: TypeAlias = Collection[tuple[int, int]]

#: What a config holds, as JSON does.
ConfigValue: TypeAlias = (
    str | int | float | Sequence["ConfigValue"] | Mapping[str, "ConfigValue"] | None
)
Config: TypeAlias = dict[str, ConfigValue]
DType: TypeAlias = str
DTypePolicy: TypeAlias = str | keras.DTypePolicy | Config
#: The results may be None because Keras annotates many functions of `keras.ops` as possibly
#: returning None, and such functions are valid initializers and activations.
Initializer: TypeAlias = (
    str | keras.initializers.Initializer | Callable[..., TensorLike | None] | Config
)
Activation: TypeAlias = str | Callable[[Tensor], TensorLike | None] | Config | None
#: What `keras.initializers.get` and `keras.activations.get` return.
InitializerFunction: TypeAlias = Callable[..., TensorLike]
ActivationFunction: TypeAlias = Callable[[Tensor], TensorLike] | None
#: A layer, or the config of one.
LayerOrConfig: TypeAlias = keras.layers.Layer | Config
#: A Keras cell, its config, or a list of cells to stack.
Cell: TypeAlias = LayerOrConfig | Sequence[keras.layers.Layer]

#: `(ids, state, memory) -> (logits, state, alignment)`, a step of a search.
StepResult: TypeAlias = tuple[TensorLike, Structure, TensorLike | None]
Step: TypeAlias = Callable[[Tensor, Structure, Structure], StepResult]
#: `(state, parents) -> state`, what a search calls where beams grow from others.
ReorderCache: TypeAlias = Callable[[Structure, Tensor], Structure]
#: `(logits, ids, num_tokens) -> logits`, what a search calls before the softmax.
LogitsProcessor: TypeAlias = Callable[[Tensor, Tensor, Tensor], TensorLike]


class LayerOptions(TypedDict, total=False):
    """The options of every Keras layer, passed on by `**kwargs`."""

    name: str | None
    dtype: DTypePolicy | None
    trainable: bool
    autocast: bool
    activity_regularizer: str | Callable[[Tensor], TensorLike] | Config | None


class DenseOptions(LayerOptions, total=False):
    """The options of a linear map, beside its width."""

    use_bias: bool
    kernel_initializer: Initializer
    bias_initializer: Initializer
