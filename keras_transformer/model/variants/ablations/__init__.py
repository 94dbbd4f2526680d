"""Components that are broken on purpose, one part of the paper at a time.

They exist only for experiments that show the part's effect (``model.ablation``), and must not be
served: each of them translates worse or costs more than the paper's component.
"""
