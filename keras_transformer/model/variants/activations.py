"""Feed-forward networks with activations other than the ReLU of equation 2."""

from __future__ import annotations

import keras
import tensorflow as tf

from keras_transformer.model.feed_forward import FeedForward


@keras.saving.register_keras_serializable("keras_transformer")
class GeluFeedForward(FeedForward):
    """Feed-forward network with GELU(x) = x Φ(x) (Hendrycks and Gimpel 2016).

    Φ is the distribution function of the standard normal distribution. The arguments are as for
    `FeedForward`.
    """

    def activate(self, x: tf.Tensor) -> tf.Tensor:
        return tf.nn.gelu(x)


@keras.saving.register_keras_serializable("keras_transformer")
class TanhGeluFeedForward(FeedForward):
    """Feed-forward network with the approximation x (1 + tanh(√(2 / π) (x + 0.044715 x³))) / 2.

    The arguments are as for `FeedForward`.
    """

    def activate(self, x: tf.Tensor) -> tf.Tensor:
        return tf.nn.gelu(x, approximate=True)


@keras.saving.register_keras_serializable("keras_transformer")
class SigmoidGeluFeedForward(FeedForward):
    """Feed-forward network with the approximation x σ(1.702 x) of GELU.

    The arguments are as for `FeedForward`.
    """

    def activate(self, x: tf.Tensor) -> tf.Tensor:
        return x * tf.sigmoid(1.702 * x)


@keras.saving.register_keras_serializable("keras_transformer")
class SiluFeedForward(FeedForward):
    """Feed-forward network with SiLU(x) = x σ(x), also called swish (Ramachandran et al. 2017).

    The arguments are as for `FeedForward`.
    """

    def activate(self, x: tf.Tensor) -> tf.Tensor:
        return x * tf.sigmoid(x)
