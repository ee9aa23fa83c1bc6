"""The Transformer's embeddings, positions, encoder and decoder layers."""

from keras_attention.transformer.decoder_layer import TransformerDecoderLayer
from keras_attention.transformer.embedding import TransformerEmbedding
from keras_attention.transformer.encoder_layer import TransformerEncoderLayer
from keras_attention.transformer.learned_positional_embedding import LearnedPositionalEmbedding
from keras_attention.transformer.positional_encoding import PositionalEncoding

__all__ = [
    "LearnedPositionalEmbedding",
    "PositionalEncoding",
    "TransformerDecoderLayer",
    "TransformerEmbedding",
    "TransformerEncoderLayer",
]
