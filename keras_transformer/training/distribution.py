"""Where training runs."""

from __future__ import annotations

import tensorflow as tf


def strategy() -> tf.distribute.Strategy:
    """A `MirroredStrategy` over all GPUs, or over the logical CPU devices where none is."""
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return tf.distribute.MirroredStrategy([device.name for device in devices])
