"""The pages of the site: links out of docs/ lead to pages or copies."""

from __future__ import annotations

import pytest

from tools import site_pages


@pytest.mark.parametrize(
    ("document", "uri", "link", "expected"),
    [
        ("README.md", "index.md", "docs/data.md", "data.md"),
        ("README.md", "index.md", "benchmarks/README.md#training", "benchmarks.md#training"),
        ("README.md", "index.md", "LICENSE", "source/LICENSE"),
        ("README.md", "index.md", "keras_transformer", "api/index.md"),
        ("docs/paper.md", "paper.md", "#departures", "#departures"),
        ("docs/data.md", "data.md", "https://example.org", "https://example.org"),
        (
            "docs/paper.md",
            "paper.md",
            "../keras_transformer/model/masks.py",
            "api/model.md#keras_transformer.model.masks",
        ),
        ("docs/training.md", "training.md", "../export/README.md", "export.md"),
        (
            "docs/questions.md",
            "questions.md",
            "../notebooks/1_attention_from_scratch.ipynb",
            "notebooks/1_attention_from_scratch.md",
        ),
        ("benchmarks/README.md", "benchmarks.md", "decode.png", "source/benchmarks/decode.png"),
    ],
)
def test_links_lead_to_pages_of_the_site(document: str, uri: str, link: str, expected: str) -> None:
    assert site_pages.rewritten(f"See [it]({link}).", document, uri) == f"See [it]({expected})."


def test_a_folder_without_a_page_is_plain_text() -> None:
    assert site_pages.rewritten("[configs/](../configs)", "docs/a.md", "a.md") == "configs/"


def test_each_folder_of_the_package_has_a_page_with_all_its_modules() -> None:
    pages = {name: content for name, _, content in site_pages.api_pages()}

    assert "::: keras_transformer.run" in pages["keras_transformer"]
    assert "::: keras_transformer.model.attention" in pages["model"]
    assert "::: keras_transformer.model.kernels.dropout" in pages["model"]
