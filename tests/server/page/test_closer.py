"""The page in a real browser: alternatives and attention, the keyboard, sizes and colours."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect

TEXT = "A dog runs. A cat sits here."

OpenPage = Callable[..., Any]


def drawn(page: Any, text: str = TEXT) -> Any:
    """The page with a text in it, once everything about it is there."""
    page.fill("#source", text)
    expect(page.locator(".alternatives")).to_be_visible()
    expect(page.locator(".heat")).to_be_visible()
    return page


def test_alternatives_have_scores_and_show_their_differences(open_page: OpenPage) -> None:
    page = drawn(open_page(), "A dog runs.")
    rows = page.locator(".alternatives li")
    # Two of the four are fillers with a score of -1e9.
    expect(rows).to_have_text(["[A dog runs.] score \u22120.25", "(A dog runs.) score \u22121.50"])
    expect(rows.nth(0).locator("em")).to_have_count(0)
    expect(rows.nth(1).locator("em")).to_have_text(["(", ")"])
    assert rows.nth(0).locator(".alternative").get_attribute("lang") == "de"


def test_attention_is_a_table_without_its_padding(open_page: OpenPage) -> None:
    page = drawn(open_page(), "A dog runs.")
    expect(page.locator(".heat thead th")).to_have_text(["A", "dog", "runs.", "end"])
    expect(page.locator(".heat tbody th")).to_have_text(["A", "dog", "runs.", "end"])
    labels = (
        page.locator(".heat tbody tr")
        .nth(1)
        .locator("td")
        .evaluate_all("cells => cells.map(cell => cell.getAttribute('aria-label'))")
    )
    assert labels == ["0.10", "0.70", "0.10", "0.10"]


def test_stronger_attention_is_nearer_to_the_end_of_the_scale(open_page: OpenPage) -> None:
    for scheme in ("light", "dark"):
        page = drawn(open_page(color_scheme=scheme), "A dog runs.")
        lightness = """cell => {
            const context = new OffscreenCanvas(1, 1).getContext("2d");
            context.fillStyle = getComputedStyle(cell).backgroundColor;
            context.fillRect(0, 0, 1, 1);
            return context.getImageData(0, 0, 1, 1).data.slice(0, 3).reduce((a, b) => a + b);
        }"""
        strong, weak = (page.locator(".heat tbody td").nth(i).evaluate(lightness) for i in (0, 1))
        assert strong < weak if scheme == "light" else strong > weak


def test_pointer_and_keyboard_read_a_weight(open_page: OpenPage) -> None:
    page = drawn(open_page(), "A dog runs.")
    cells = page.locator(".heat tbody tr").nth(1).locator("td")
    cells.nth(1).hover()
    expect(page.locator(".readout")).to_have_text("dog attends to dog with 0.70")
    expect(page.locator(".heat th.on")).to_have_text(["dog", "dog"])
    page.locator(".heat tbody td").first.focus()
    for key, row, column in [
        ("ArrowDown", "dog", "A"),
        ("ArrowRight", "dog", "dog"),
        ("End", "dog", "end of sentence"),
        ("Control+Home", "A", "A"),
        ("ArrowUp", "A", "A"),
        ("Control+End", "end of sentence", "end of sentence"),
    ]:
        page.keyboard.press(key)
        expect(page.locator(".readout")).to_contain_text(f"{row} attends to {column} with")
    assert page.locator(".heat [tabindex='0']").count() == 1, "more than one tab stop"


def test_the_caret_and_a_press_choose_the_sentence(open_page: OpenPage, server: Any) -> None:
    page = drawn(open_page())
    expect(page.locator("#closer-source")).to_have_text("A cat sits here.")
    page.locator("#source").press("Control+Home")
    expect(page.locator("#closer-source")).to_have_text("A dog runs.")
    expect(page.locator("#mirror mark")).to_have_text("A dog runs.")
    page.locator(".sentence").nth(1).click()
    expect(page.locator("#closer-title")).to_have_text("Sentence 2 of 2")
    expect(page.locator(".sentence.chosen")).to_have_text("[A cat sits here.]")
    # What was looked at before is not asked for again.
    assert sorted(server.asked("align")) == [["A cat sits here."], ["A dog runs."]]


def test_an_error_in_the_closer_look_leaves_the_translation(
    open_page: OpenPage, server: Any
) -> None:
    page = open_page(expect_complaints=True)
    page.fill("#source", "One.")
    expect(page.locator("#translation")).to_have_text("[One.]")
    expect(page.locator(".heat")).to_be_visible()
    page.route(
        "**/*:predict",
        lambda route: (
            route.fulfill(status=503, json={"error": "full"})
            if "align" in route.request.post_data
            else route.continue_()
        ),
    )
    page.fill("#source", "Two.")
    expect(page.locator("#attention")).to_contain_text("more to do than it can take")
    expect(page.locator("#translation")).to_have_text("[Two.]")
    page.unroute("**/*:predict")
    page.click("#attention button")
    expect(page.locator(".heat tbody th").first).to_have_text("Two.")


def test_everything_can_be_reached_by_keyboard(open_page: OpenPage) -> None:
    page = open_page()
    page.keyboard.type(TEXT)  # the text box has the keyboard from the start
    expect(page.locator(".heat")).to_be_visible()
    stops = []
    for _ in range(8):
        page.keyboard.press("Tab")
        held = page.evaluate(
            "() => { const held = document.activeElement;"
            " return [held.id || held.getAttribute('role') || held.tagName,"
            " held.matches(':focus-visible')]; }"
        )
        assert held[1], f"{held[0]} does not show that it has the keyboard"
        stops.append(held[0])
    assert stops == [
        "as-you-type", "go", "translation", "copy", "before", "after", "gridcell", "SUMMARY",
    ]  # fmt: skip
    page.locator("#before").press("Enter")
    expect(page.locator("#closer-title")).to_have_text("Sentence 1 of 2")
    assert page.evaluate("document.activeElement.id") == "before", "the keyboard lost its place"


def test_everything_has_a_name_and_a_language(open_page: OpenPage) -> None:
    page = drawn(open_page())
    nameless = page.locator("button, input, textarea, [role=region]").evaluate_all(
        "all => all.filter(e => !(e.labels?.length || e.textContent.trim()"
        " || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby'))).length"
    )
    assert nameless == 0
    assert page.locator("#source").get_attribute("lang") == "en"
    assert page.locator("#translation").get_attribute("lang") == "de"
    assert page.locator("#spoken").get_attribute("aria-live") == "polite"


@pytest.mark.parametrize("width", [320, 360])
def test_a_phone_needs_no_sideways_scrolling(open_page: OpenPage, width: int) -> None:
    page = open_page(viewport={"width": width, "height": 740}, has_touch=True, is_mobile=True)
    drawn(page, "Unbreakable" * 20 + " " + "many words " * 20)
    page.click("#curl summary")
    expect(page.locator("#curl-line")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    heights = page.locator(".button:visible").evaluate_all("all => all.map(b => b.offsetHeight)")
    assert min(heights) >= 44, "too small for a finger"


def luminance(colour: str) -> float:
    """Relative luminance by WCAG 2.2 of "#rrggbb"."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_enough(open_page: OpenPage, scheme: str) -> None:
    page = open_page(color_scheme=scheme)

    def colour(name: str) -> str:
        return page.evaluate(
            "name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()",
            f"--{name}",
        )

    def contrast(one: str, other: str) -> float:
        dark, light = sorted([luminance(colour(one)), luminance(colour(other))])
        return (light + 0.05) / (dark + 0.05)

    assert (luminance(colour("paper")) < 0.1) == (scheme == "dark")
    texts = [*product(["ink", "muted", "accent"], ["paper", "surface"])]
    texts += [("ink", "mark"), ("alarm", "alarm-mark"), ("ink", "alarm-mark"), ("muted", "mark")]
    for text, ground in texts:
        assert contrast(text, ground) >= 4.5, f"{text} on {ground}"
    for ground in ("paper", "surface"):
        assert contrast("edge", ground) >= 3, f"edge on {ground}"
    assert contrast("heat-low", "heat-high") >= 7


def test_nothing_moves_where_motion_is_unwanted(open_page: OpenPage) -> None:
    page = drawn(open_page(reduced_motion="reduce"))
    durations = page.locator("body *").evaluate_all(
        "all => [...new Set(all.map(e => getComputedStyle(e).transitionDuration))]"
    )
    assert durations == ["0s"]


def test_no_other_host_is_asked_for_anything(open_page: OpenPage, server: Any) -> None:
    page = open_page()
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.reload()
    drawn(page)
    page.click("#curl summary")
    assert len(addresses) > 10
    assert [a for a in addresses if not a.startswith(server.address)] == []
