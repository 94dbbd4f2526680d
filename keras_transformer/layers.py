"""The paper's components as Keras layers, for models of your own."""

from __future__ import annotations

from keras_transformer.model.attention import MultiHeadAttention
from keras_transformer.model.decoder import Decoder, DecoderLayer
from keras_transformer.model.embedding import TokenEmbedding
from keras_transformer.model.encoder import Encoder, EncoderLayer
from keras_transformer.model.feed_forward import FeedForward
from keras_transformer.model.masks import PaddingMask
from keras_transformer.model.positions import LearnedPositionalEncoding, PositionalEncoding
from keras_transformer.model.sublayer import SublayerConnection

__all__ = [
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "LearnedPositionalEncoding",
    "MultiHeadAttention",
    "PaddingMask",
    "PositionalEncoding",
    "SublayerConnection",
    "TokenEmbedding",
]
