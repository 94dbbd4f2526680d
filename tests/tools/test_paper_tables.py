"""The tables of docs/paper.md: options that build each row, counted parameters and operations."""

from __future__ import annotations

import re

import pytest

from keras_transformer.presets import preset
from tools import paper_tables
from tools.generated_blocks import replace_blocks

ROWS = {(row.name, row.change): row for row in paper_tables.TABLE_3}


def columns(name: str) -> list[str]:
    """Return the cells of a line of a table in the document, by its first cells."""
    page = paper_tables.FILE.read_text(encoding="utf-8")
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_options_have_the_values_of_the_row() -> None:
    """The paper's columns h, d_k and d_v follow from the options."""
    for (name, change), row in ROWS.items():
        model, train = row.config.model, row.config.train
        values = {
            "N": model.encoder_layers,
            "d_model": model.d_model,
            "d_ff": model.d_ff,
            "h": model.heads,
            "d_k": model.key_width,
            "P_drop": model.dropout,
            "ε_ls": train.label_smoothing,
        }
        for part in change.split(", "):
            found = re.fullmatch(r"(\S+)(?: = d_v)? ([\d.]+)", part)
            if found:
                assert float(found[2]) == values[found[1]], (name, change)
                if "d_v" in part:
                    assert model.value_width == model.key_width, (name, change)


def test_rows_keep_the_rest_of_the_base_model() -> None:
    base = preset("base").model
    for row in paper_tables.TABLE_3[:-1]:
        if "d_model" not in row.change:
            assert row.config.model.d_model == base.d_model
        if not row.change.startswith("h "):
            assert row.config.model.heads == base.heads
        assert row.config.model.norm == "post"


def test_operations_are_those_of_the_estimate() -> None:
    """By hand for D 2, d_ff 3, N 1, V 5: encoder 56, decoder 88 and projection 20 per token."""
    model = preset("base").model
    small = {"d_model": 2, "heads": 1, "d_ff": 3, "encoder_layers": 1, "decoder_layers": 1}
    sizes = {"source_vocabulary_size": 5, "target_vocabulary_size": 5}
    from dataclasses import replace

    config = replace(model, **small, **sizes)

    assert paper_tables.training_operations(config, 10, 0) == 3 * 56 * 10
    assert paper_tables.training_operations(config, 0, 10) == 3 * (88 + 20) * 10


@pytest.mark.slow
def test_operations_of_attention_are_those_of_the_profiler() -> None:
    """Table 1 counts 2 n² d + 4 n d² multiplications for a layer with its projections."""
    import tensorflow as tf

    from keras_transformer.model.attention import MultiHeadAttention

    length, width = 96, 64
    layer = MultiHeadAttention(width, 4, width // 4, width // 4)
    layer.build()
    function = tf.function(lambda x: layer(x, x)).get_concrete_function(
        tf.TensorSpec([1, length, width])
    )
    options = tf.compat.v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    found = tf.compat.v1.profiler.profile(function.graph, options=options).total_float_ops
    expected = 2 * (2 * length**2 * width + 4 * length * width**2)

    assert expected <= found < 1.05 * expected


@pytest.mark.slow
def test_document_is_up_to_date() -> None:
    page = paper_tables.FILE.read_text(encoding="utf-8")
    new = replace_blocks(page, paper_tables.blocks())

    assert page == new, f"run {paper_tables.COMMAND}"
