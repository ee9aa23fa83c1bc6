"""Small decoders that copy, of both kinds, with inputs of prime sizes and padding."""

import numpy as np
from seeds import set_seed

from keras_attention import (
    BahdanauDecoder,
    ConvDecoder,
    CopyNetDecoder,
    LuongDecoder,
    PointerGeneratorDecoder,
    TransformerDecoder,
)

B, T, S, M, V, K, U = 3, 5, 7, 11, 13, 3, 4
IDS = np.array([[2, 5, 14, 7, 12], [2, 6, 1, 0, 0], [2, 13, 3, 15, 0]])
MASK = np.arange(S) < np.array([[7], [3], [0]])
COPY_IDS = np.where(MASK, [[13, 4, 13, 14, 9, 15, 3], [13, 6, 3, 0, 0, 0, 0], [0] * 7], 0)
MEMORY = np.random.RandomState(1).randn(B, S, M).astype("float32")
DECODERS = {
    "bahdanau": lambda size, **o: BahdanauDecoder(size, 4, 8, **o),
    "luong": lambda size, **o: LuongDecoder(size, 4, 8, num_layers=2, **o),
    "transformer": lambda size, **o: TransformerDecoder(size, 8, 1, 2, **o),
    "convolutional": lambda size, **o: ConvDecoder(size, 4, [(6, 3)], source_embeddings=False, **o),
}
#: The logits of a decoder beyond the vocabulary, and the layer around it.
COPYING = {
    "pointer-generator": (1, PointerGeneratorDecoder),
    "copynet": (U, lambda decoder, copied, **o: CopyNetDecoder(decoder, copied, U, **o)),
}


def make_copying_layer(copying, kind="bahdanau", **options):
    """Returns a built layer with large logits, so that choices are clear."""
    set_seed(1)
    extra, wrap = COPYING[copying]
    layer = wrap(DECODERS[kind](V + extra, **options), K, **options)
    layer(IDS, MEMORY, COPY_IDS, memory_mask=MASK)
    for weight in layer.trainable_weights:
        weight.assign(3.0 * weight)
    return layer
