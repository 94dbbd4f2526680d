"""Notebooks as pages: code, outputs and pictures in order, nothing loaded from elsewhere."""

from __future__ import annotations

from typing import Any

from tools.notebook_pages import page


def cell(kind: str, source: str, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": kind, "source": source, "outputs": list(outputs)}


def shown(data: dict[str, str]) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data}


def test_cells_become_blocks_in_their_order() -> None:
    printed = {"output_type": "stream", "text": ["2\n", "3\n"]}
    image = shown({"image/png": "aGk=\n", "text/plain": "<Figure>"})
    cells = [cell("markdown", "# 1 A"), cell("code", "print(2)", printed, image), cell("code", "")]

    assert page({"cells": cells}) == (
        "# 1 A\n\n````python\nprint(2)\n````\n\n````text\n2\n3\n````\n\n"
        "![Figure](data:image/png;base64,aGk=)\n"
    )


def test_intended_errors_are_shown_in_one_line() -> None:
    error = {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["x"]}

    assert "````text\nValueError: no\n````" in page({"cells": [cell("code", "f()", error)]})


def test_badge_becomes_a_link() -> None:
    badge = "[![Open in Colab](https://example.org/badge.svg)](https://example.org/1.ipynb)"

    assert page({"cells": [cell("markdown", badge)]}) == (
        "[Open in Colab](https://example.org/1.ipynb)\n"
    )


def test_answers_and_formulas_are_readable() -> None:
    text = page({"cells": [cell("markdown", "$$a^b$$\n\n<details><summary>Answer</summary>")]})

    assert text == "````text\na^b\n````\n\n<details markdown><summary>Answer</summary>\n"
