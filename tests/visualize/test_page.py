"""The page in a real browser."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from keras_transformer.visualize.attention_view import AttentionView
from keras_transformer.visualize.comparison import compare
from tests.visualize.fake_views import view

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("neither chromium nor google-chrome is on PATH")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Return a function that opens the text of a page; an error in its log fails the test."""
    errors: list[str] = []
    contexts: list[Any] = []

    def opened(text: str, width: int = 1280) -> Any:
        path = tmp_path / "page.html"
        path.write_text(text, encoding="utf-8")
        contexts.append(browser.new_context(viewport={"width": width, "height": 800}))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert errors == []


def keys(page: Any) -> list[str]:
    """Return the weights under the keys, "" where there are none."""
    found: list[str] = page.locator('.word[data-kind="keys"] small').all_text_contents()
    return found


def query(page: Any, index: int) -> Any:
    return page.locator(f'.word[data-kind="queries"][data-index="{index}"]')


def test_hover_and_head_change_the_weights(open_page: Callable[..., Any]) -> None:
    page = open_page(view().page())
    page.locator('.thumbnail[data-head="0"]').click()
    query(page, 0).hover()
    assert keys(page) == ["0.70", "0.10", "0.10", "0.10"]
    query(page, 2).hover()
    assert keys(page) == ["0.10", "0.10", "0.70", "0.10"]
    assert "rennt looks at runs 0.70" in page.locator(".readout").inner_text()

    page.locator('.thumbnail[data-head="1"]').click()
    assert keys(page) == ["0.10", "0.10", "0.10", "0.70"]
    page.locator('.thumbnail[data-head="mean"]').click()
    assert keys(page) == ["0.10", "0.10", "0.40", "0.40"]


def test_a_key_shows_which_queries_look_at_it(open_page: Callable[..., Any]) -> None:
    page = open_page(view().page())
    page.locator('.thumbnail[data-head="0"]').click()
    page.locator('.word[data-kind="keys"][data-index="1"]').hover()

    assert "dog is looked at by Hund 0.70" in page.locator(".readout").inner_text()


def test_without_the_end_token_weights_sum_to_1(open_page: Callable[..., Any]) -> None:
    page = open_page(view().page())
    page.locator('.thumbnail[data-head="0"]').click()
    query(page, 0).hover()
    page.get_by_label("with the end token").uncheck()

    assert keys(page) == ["0.78", "0.11", "0.11"]
    assert "divided by their sum" in page.locator("#caption").inner_text()
    assert page.locator(".map thead th").count() == 3


def test_parts_and_keyboard(open_page: Callable[..., Any]) -> None:
    page = open_page(view().page())
    page.get_by_label("Decoder self-attention").check()
    assert page.locator(".words").first.inner_text().splitlines()[0] == (
        "rows = queries: token read"
    )
    assert page.get_by_label("with the start token").is_checked()
    query(page, 0).focus()
    page.keyboard.press("ArrowRight")
    assert query(page, 1).get_attribute("aria-pressed") == "true"


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_overflows(open_page: Callable[..., Any], width: int) -> None:
    texts = [f"word{index}" for index in range(40)]
    long = view(texts, texts)
    for text in (long.page(), compare(long, view(texts[:30], texts)).page()):
        page = open_page(text, width)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_texts_are_only_shown(open_page: Callable[..., Any]) -> None:
    hostile = "</script><img src=x onerror=alert(1)> \u202e 😀 שלום"
    page = open_page(dataclasses.replace(view((hostile, "b")), sentence=hostile).page())

    assert hostile in page.locator(".pair").inner_text()
    assert page.locator("img").count() == 0


def test_comparison_has_two_panels_and_their_difference(open_page: Callable[..., Any]) -> None:
    second: AttentionView = view(("a", "cat", "runs"))
    page = open_page(compare(view(), second, ("first", "second")).page())

    assert page.locator(".panel").count() == 3
    page.locator('.panel:last-child td[data-t="0"][data-s="1"]').hover()
    assert "dog → ˍcat +0.00" in page.locator(".panel:last-child .readout").inner_text()
