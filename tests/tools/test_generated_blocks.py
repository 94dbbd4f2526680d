"""Generated blocks: replaced by name, all or none, tables with escaped bars."""

from __future__ import annotations

import pytest

from tools.generated_blocks import block_names, replace_blocks, table

PAGE = "# A\n\n<!-- begin: one -->\nold\n<!-- end: one -->\n\ntext\n"


def test_contents_are_replaced_and_stay_the_same_after_that() -> None:
    new = replace_blocks(PAGE, {"one": "new"})

    assert "old" not in new
    assert new.startswith("# A\n\n<!-- begin: one -->\n\nnew\n\n<!-- end: one -->\n\ntext")
    assert replace_blocks(new, {"one": "new"}) == new
    assert block_names(new) == ["one"]


@pytest.mark.parametrize("blocks", [{}, {"two": ""}, {"one": "", "two": ""}])
def test_missing_and_unknown_blocks_are_refused(blocks: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="blocks: expected each of"):
        replace_blocks(PAGE, blocks)


def test_bars_in_cells_are_escaped() -> None:
    assert table(["a"], [["b | c"]]) == "| a |\n| --- |\n| b &#124; c |"
