"""The page in a real browser: hypotheses and attention, the keyboard, sizes and colours."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect

TEXT = "A dog runs. A cat sits here."

OpenPage = Callable[..., Any]


def drawn(page: Any, text: str = TEXT) -> Any:
    """Return the page with a text in it, once its details are drawn."""
    page.fill("#source", text)
    expect(page.locator(".hypotheses")).to_be_visible()
    expect(page.locator(".heatmap")).to_be_visible()
    return page


def test_hypotheses_have_scores_and_show_their_differences(open_page: OpenPage) -> None:
    page = drawn(open_page(), "A dog runs.")
    rows = page.locator(".hypotheses li")
    # Two of the four are fillers with a score of -1e9.
    expect(rows).to_have_text(["[A dog runs.] score \u22120.25", "(A dog runs.) score \u22121.50"])
    expect(rows.nth(0).locator("em")).to_have_count(0)
    expect(rows.nth(1).locator("em")).to_have_text(["(", ")"])
    assert rows.nth(0).locator(".hypothesis").get_attribute("lang") == "de"


def test_attention_is_a_table_without_padding(open_page: OpenPage) -> None:
    page = drawn(open_page(), "A dog runs.")
    expect(page.locator(".heatmap thead th")).to_have_text(["A", "dog", "runs.", "end"])
    expect(page.locator(".heatmap tbody th")).to_have_text(["A", "dog", "runs.", "end"])
    labels = (
        page.locator(".heatmap tbody tr")
        .nth(1)
        .locator("td")
        .evaluate_all("cells => cells.map(cell => cell.getAttribute('aria-label'))")
    )
    assert labels == ["0.10", "0.70", "0.10", "0.10"]


def test_stronger_attention_is_nearer_to_the_end_of_the_scale(open_page: OpenPage) -> None:
    page = drawn(open_page(), "A dog runs.")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        lightness = """cell => {
            const context = new OffscreenCanvas(1, 1).getContext("2d");
            context.fillStyle = getComputedStyle(cell).backgroundColor;
            context.fillRect(0, 0, 1, 1);
            return context.getImageData(0, 0, 1, 1).data.slice(0, 3).reduce((a, b) => a + b);
        }"""
        strong, weak = (
            page.locator(".heatmap tbody td").nth(i).evaluate(lightness) for i in (0, 1)
        )
        assert strong < weak if scheme == "light" else strong > weak


def test_pointer_and_keyboard_read_a_weight(open_page: OpenPage) -> None:
    page = drawn(open_page(), "A dog runs.")
    cells = page.locator(".heatmap tbody tr").nth(1).locator("td")
    cells.nth(1).hover()
    expect(page.locator(".readout")).to_have_text("dog attends to dog with 0.70")
    expect(page.locator(".heatmap th.on")).to_have_text(["dog", "dog"])
    page.locator(".heatmap tbody td").first.focus()
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
    assert page.locator(".heatmap [tabindex='0']").count() == 1, "more than one tab stop"


def test_the_caret_and_a_click_select_the_sentence(open_page: OpenPage, server: Any) -> None:
    page = drawn(open_page())
    expect(page.locator("#details-source")).to_have_text("A cat sits here.")
    page.locator("#source").press("Control+Home")
    expect(page.locator("#details-source")).to_have_text("A dog runs.")
    expect(page.locator("#mirror mark")).to_have_text("A dog runs.")
    page.locator(".sentence").nth(1).click()
    expect(page.locator("#details-title")).to_have_text("Sentence 2 of 2")
    expect(page.locator(".sentence[aria-current]")).to_have_text("[A cat sits here.]")
    # Details that have been shown are not requested again.
    assert sorted(server.requested("align")) == [["A cat sits here."], ["A dog runs."]]


def test_an_error_in_the_details_leaves_the_translation(open_page: OpenPage, server: Any) -> None:
    page = open_page(expect_errors=True)
    page.fill("#source", "One.")
    expect(page.locator("#translation")).to_have_text("[One.]")
    expect(page.locator(".heatmap")).to_be_visible()
    page.route(
        "**/*:predict",
        lambda route: (
            route.fulfill(status=503, json={"error": "full"})
            if "align" in route.request.post_data
            else route.continue_()
        ),
    )
    page.fill("#source", "Two.")
    expect(page.locator("#attention")).to_contain_text("server is overloaded")
    expect(page.locator("#translation")).to_have_text("[Two.]")
    page.unroute("**/*:predict")
    page.click("#attention button")
    expect(page.locator(".heatmap tbody th").first).to_have_text("Two.")


def test_everything_can_be_reached_by_keyboard(open_page: OpenPage) -> None:
    page = open_page()
    page.keyboard.type(TEXT)  # the text box has the focus from the start
    expect(page.locator(".heatmap")).to_be_visible()
    stops = []
    for _ in range(8):
        page.keyboard.press("Tab")
        held = page.evaluate(
            "() => { const held = document.activeElement;"
            " return [held.id || held.getAttribute('role') || held.tagName,"
            " held.matches(':focus-visible')]; }"
        )
        assert held[1], f"{held[0]} does not show its focus"
        stops.append(held[0])
    assert stops == [
        *("as-you-type", "translate", "translation", "copy"),
        *("previous", "next", "gridcell", "SUMMARY"),
    ]
    page.locator("#previous").press("Enter")
    expect(page.locator("#details-title")).to_have_text("Sentence 1 of 2")
    assert page.evaluate("document.activeElement.id") == "previous", "the focus was lost"


def test_everything_has_a_name_and_a_language(open_page: OpenPage) -> None:
    page = drawn(open_page())
    nameless = page.locator("button, input, textarea, [role=region]").evaluate_all(
        "all => all.filter(e => !(e.labels?.length || e.textContent.trim()"
        " || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby'))).length"
    )
    assert nameless == 0
    assert page.locator("#source").get_attribute("lang") == "en"
    assert page.locator("#translation").get_attribute("lang") == "de"
    assert page.locator("#announcement").get_attribute("aria-live") == "polite"


def test_a_phone_needs_no_sideways_scrolling(open_page: OpenPage) -> None:
    page = open_page(viewport={"width": 320, "height": 740}, has_touch=True, is_mobile=True)
    drawn(page, "Unbreakable" * 20 + " " + "many words " * 20)
    page.click("#curl summary")
    expect(page.locator("#curl-command")).to_be_visible()
    for width in (320, 360):
        page.set_viewport_size({"width": width, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        buttons = page.locator(".button:visible")
        heights = buttons.evaluate_all("all => all.map(button => button.offsetHeight)")
        assert min(heights) >= 44, "too small for a finger"


def luminance(colour: str) -> float:
    """Return the relative luminance by WCAG 2.2 of "rgb(r, g, b)"."""
    channels = [int(channel) / 255 for channel in re.findall(r"\d+", colour)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_enough(open_page: OpenPage, scheme: str) -> None:
    page = open_page()
    page.emulate_media(color_scheme=scheme)

    def colour(name: str) -> str:
        return page.evaluate(
            "name => { document.body.style.color = name;"
            " return getComputedStyle(document.body).color; }",
            f"var(--{name})",
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


def test_nothing_moves_with_reduced_motion(open_page: OpenPage) -> None:
    page = drawn(open_page())
    page.emulate_media(reduced_motion="reduce")
    durations = page.locator("body *").evaluate_all(
        "all => [...new Set(all.map(e => getComputedStyle(e).transitionDuration))]"
    )
    assert durations == ["0s"]


def test_no_other_host_is_requested(open_page: OpenPage, server: Any) -> None:
    page = open_page()
    addresses: list[str] = []
    page.on("request", lambda request: addresses.append(request.url))
    page.reload()
    drawn(page)
    page.click("#curl summary")
    assert len(addresses) > 10
    assert [a for a in addresses if not a.startswith(server.address)] == []
