"""Small decoders that attend, by name: callables that make them."""

import keras_attention as ka

DECODERS = {
    "BahdanauDecoder": lambda: ka.BahdanauDecoder(11, embedding_dim=3, units=4),
    "LuongDecoder": lambda: ka.LuongDecoder(11, embedding_dim=3, units=4),
    "LuongDecoder, concat": lambda: ka.LuongDecoder(
        11, embedding_dim=3, units=4, attention=ka.LuongAttention("concat", units=4)
    ),
    "LuongDecoder, no feeding": lambda: ka.LuongDecoder(
        11, embedding_dim=3, units=4, input_feeding=False
    ),
    "ShowAttendTellDecoder": lambda: ka.ShowAttendTellDecoder(11, embedding_dim=3, units=4),
    "TransformerDecoder": lambda: ka.TransformerDecoder(11, dim=8, num_layers=2, num_heads=2),
    "ConvDecoder": lambda: ka.ConvDecoder(11, embedding_dim=4, convolutions=[(6, 3)]),
}
