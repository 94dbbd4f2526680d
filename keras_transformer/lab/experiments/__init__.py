"""Table of the experiments, in the order of the report."""

from __future__ import annotations

from keras_transformer.lab.experiment import Table
from keras_transformer.lab.experiments import attention, data, layers, optimisation, size

TABLE = Table(
    (
        *attention.EXPERIMENTS,
        *layers.EXPERIMENTS,
        *optimisation.EXPERIMENTS,
        *data.EXPERIMENTS,
        *size.EXPERIMENTS,
    )
)
"""All experiments."""
