"""Several sources as one memory, for attention to several sources.

    x_j^(k) = [0; h_j^(k); 0; 1_k]

Source k has the vectors h_j^(k) of width D_k, 1_k is row k of the identity matrix. The positions of
all sources follow one another. A matrix U applied to the vectors without 1_k is one U^(k) for each
source: its rows are those of U^(1), U^(2), ...
"""

import functools
from collections.abc import Sequence
from typing import Unpack

import keras
import numpy as np
from keras import ops

from keras_attention import validation
from keras_attention._utils.recomputation import Recomputable
from keras_attention._utils.shapes import broadcast_mask
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Mask,
    OutputShape,
    Shape,
    Tensor,
    TensorLike,
)

OWNER = "ConcatenateSources"


def split_memory(memory: TensorLike, num_sources: int) -> tuple[Tensor, Tensor]:
    """Returns the vectors without 1_k, and 1_k of each position, boolean `(batch, key, sources)`.

    Example:

    >>> memory = ConcatenateSources()([ops.ones((1, 2, 3)), ops.ones((1, 1, 2))])
    >>> vectors, is_source = split_memory(memory, num_sources=2)
    >>> [[int(number) for number in row] for row in vectors[0]]
    [[1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [0, 0, 0, 1, 1]]
    >>> [bool(one) for one in is_source[0, :, 1]]
    [False, False, True]
    """
    return memory[..., :-num_sources], memory[..., -num_sources:] > 0.5


@keras.saving.register_keras_serializable(package="keras_attention")
class ConcatenateSources(Recomputable, keras.layers.Layer):
    """Makes one memory of several encoders' outputs, for a decoder with `MultiSourceAttention`.

    Use it if a decoder attends to several sources, such as a sentence in two languages, or a text
    and an image. Decoders, searches and exports then have one memory with one mask. The
    sources may differ in length and width.

    Args:
        shared_positions: Whether the sources are parts of one sequence: all are as long as the
            sequence, and a position belongs to the source whose mask is True there. By default
            the positions of all sources follow one another.

    Call arguments:
        sources: List of at least two float tensors `(batch, length, dim)`.
        mask: Optional list of a boolean `(batch, length)` or None for each source; required with
            `shared_positions`.

    Returns:
        The memory `(batch, sum of the lengths, sum of the widths + number of sources)`. Attention
        weights over it are those of source 0, source 1, ... side by side; to split them, call
        `keras.ops.split(weights, [length_0, ...], axis=-1)`, with the padded lengths. With
        `shared_positions`, the length and the weights are those of the sequence.

    Raises:
        ValueError: If there are fewer than two sources, they differ in batch size, or a source
            that shares positions has a different length or no mask.

    Masking: concatenates the masks of its sources; a source without one is all True. With
    `shared_positions`, a position is True if it belongs to a source.

    Example:

    >>> german, french = keras.ops.ones((2, 5, 3)), keras.ops.ones((2, 7, 4))
    >>> tuple(ConcatenateSources()([german, french]).shape)
    (2, 12, 9)

    Reference: Libovický and Helcl 2017, https://arxiv.org/abs/1704.06567, section 3.
    """

    def __init__(self, shared_positions: bool = False, **kwargs: Unpack[LayerOptions]) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.shared_positions: bool = bool(shared_positions)

    def build(self, sources_shape: Sequence[Shape]) -> None:
        self._check_shapes(sources_shape)
        self.built = True

    def call(
        self, sources: Sequence[Tensor], mask: Sequence[Tensor | None] | None = None
    ) -> Tensor:
        self._check_shapes([source.shape for source in sources])
        masks = self._convert_masks(sources, mask)
        widths = [source.shape[-1] for source in sources]
        total, rows = sum(widths), []
        for index, source in enumerate(sources):
            before = sum(widths[:index])
            after = total - before - widths[index] + len(widths)
            one_hot = np.eye(1, total + len(widths), total + index)
            row = ops.pad(source, [[0, 0], [0, 0], [before, after]])
            rows.append(row + ops.cast(one_hot, source.dtype))
        if not self.shared_positions:
            return ops.concatenate(rows, axis=1)
        own = (ops.where(valid[:, :, None], row, 0) for row, valid in zip(rows, masks, strict=True))
        return functools.reduce(ops.add, own)

    def _check_shapes(self, shapes):
        if len(shapes) < 2 or not all(hasattr(shape, "__len__") for shape in shapes):
            raise ValueError(
                f"{OWNER} expects a list of at least two sources, `layer([first, second])`. "
                f"Received: shapes {tuple(shapes)}"
            )
        named = {f"sources[{index}]": shape for index, shape in enumerate(shapes)}
        for name, shape in named.items():
            validation.check_axes(OWNER, name, shape, "(batch, length, dim)")
        hint = "Each example needs all sources; one that is missing is a fully masked row."
        validation.check_same_size(OWNER, 0, hint, **named)
        if self.shared_positions:
            validation.check_same_size(OWNER, 1, "They share their positions.", **named)

    def _convert_masks(self, sources, mask):
        """Returns the mask of each source, boolean or None, after checking them."""
        mask = [None] * len(sources) if mask is None else mask
        if len(mask) != len(sources):
            raise ValueError(
                f"{OWNER} expects `mask` to have a mask or None for each source. Received: "
                f"{len(mask)} masks of {len(sources)} sources"
            )
        missing = [index for index, one in enumerate(mask) if one is None]
        if self.shared_positions and missing:
            raise ValueError(
                f"{OWNER} with `shared_positions` needs a mask of each source, which selects its "
                f"positions. Received: mask[{missing[0]}]=None"
            )
        checked = []
        for index, (source, one) in enumerate(zip(sources, mask, strict=True)):
            name, shape = f"mask[{index}]", tuple(source.shape[:2])
            one = validation.convert_mask(OWNER, name, one, shape, "(batch, length)")
            checked.append(broadcast_mask(one, source))
        return checked

    def compute_mask(
        self, sources: Sequence[Tensor], mask: Sequence[Tensor | None] | None = None
    ) -> Mask:
        masks = self._convert_masks(sources, mask)
        if all(one is None for one in masks):
            return None
        if self.shared_positions:
            return functools.reduce(ops.logical_or, masks)
        masks = [
            ops.ones_like(source[:, :, 0], dtype="bool") if one is None else one
            for source, one in zip(sources, masks, strict=True)
        ]
        return ops.concatenate(masks, axis=1)

    def compute_output_shape(self, sources_shape: Sequence[Shape]) -> OutputShape:
        self._check_shapes(sources_shape)
        batches, lengths, widths = zip(*sources_shape, strict=True)
        batch, shared = (
            next((size for size in sizes if size is not None), None) for sizes in (batches, lengths)
        )
        length = None if None in lengths else sum(lengths)
        length = shared if self.shared_positions else length
        return (batch, length, sum(widths) + len(widths))

    def get_config(self) -> Config:
        return {**super().get_config(), "shared_positions": self.shared_positions}
