"""Model of the conversion proof."""

import opennmt
import tensorflow as tf


def model():
    return opennmt.models.Transformer(
        source_inputter=opennmt.inputters.WordEmbedder(embedding_size=16),
        target_inputter=opennmt.inputters.WordEmbedder(embedding_size=16),
        num_layers=(2, 2),
        num_units=16,
        num_heads=4,
        ffn_inner_dim=32,
        dropout=0.0,
        attention_dropout=0.0,
        ffn_dropout=0.0,
        ffn_activation=tf.nn.relu,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
        pre_norm=True,
        position_encoder_class=None,
        maximum_relative_position=8,
    )
