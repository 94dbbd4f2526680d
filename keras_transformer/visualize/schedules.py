"""Picture of the learning rate schedules of the presets (section 5.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keras_transformer.presets import PRESETS, preset
from keras_transformer.training.schedule import NoamSchedule
from keras_transformer.visualize.fonts import use_fonts
from keras_transformer.visualize.heatmaps import Picture


def schedules_figure(names: Sequence[str] | None = None) -> Picture:
    """Draw the learning rate of presets up to their last step.

    Args:
        names: Presets; None: all.
    """
    with use_fonts():
        figure = Picture(figsize=(7.5, 4.2), dpi=110, layout="constrained")
        axes = figure.subplots()
        for name in names or PRESETS:
            config = preset(name)
            train, width = config.train, config.model.d_model
            schedule = NoamSchedule(width, train.warmup_steps, train.learning_rate_factor)
            steps = np.geomspace(1, train.max_steps, 300).astype(int)
            steps = np.unique([*steps, train.warmup_steps])  # the peak
            # The schedule counts updates from 0.
            axes.plot(steps, np.asarray(schedule(steps - 1)), label=name)
            axes.plot(train.warmup_steps, float(schedule(train.warmup_steps - 1)), "k.", ms=4)
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="step",
            ylabel="learning rate",
            title="Learning rate of the presets: linear warm-up, then the inverse square root",
        )
        axes.title.set_fontsize(10)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, title="preset (dot: end of warm-up)")
    return figure
