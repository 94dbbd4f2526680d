"""Ablations: components without one part of the paper, or with a worse one (``model.ablation``).

They are for experiments that show the effect of the part, not for use: each translates worse or
costs more than the paper's component.
"""
