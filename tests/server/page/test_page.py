"""The page in a real browser: text in, translation out, and failures between."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect

PAGE = Path(__file__).resolve().parents[3] / "keras_transformer/server/page"
HTML = "<img src=x onerror=\"document.title='taken'\"> & <b>bold</b>"

OpenPage = Callable[..., Any]


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition on the server holds."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_typing_gives_the_translation(open_page: OpenPage, server: Any) -> None:
    page = open_page()
    page.locator("#source").press_sequentially("One dog. Two cats.")
    expect(page.locator("#translation")).to_have_text("[One dog.] [Two cats.]")
    expect(page.locator("#source-count")).to_have_text("2 sentences")
    # Two sentences, or one if a pause fell between them; never none.
    expect(page.locator("#status")).to_have_text(re.compile(r"[12] sentences? in [\d.]+ m?s"))
    assert page.locator("#announcement").text_content() == "[One dog.] [Two cats.]"
    assert page.title() == "English to German \u00b7 mock"


def test_lines_and_blank_lines_are_kept(open_page: OpenPage) -> None:
    page = open_page()
    page.fill("#source", "First. Second.\n\n  \nThird\n")
    expect(page.locator("#translation p")).to_have_count(5)
    expect(page.locator("#translation p")).to_have_text(
        ["[First.] [Second.]", "", "", "[Third]", ""]
    )
    heights = page.locator("#translation p").evaluate_all("all => all.map(p => p.offsetHeight)")
    assert heights[1] == heights[0] > 0, "a blank line has no height"


@pytest.mark.parametrize("script", ["", "delete Intl.Segmenter"], ids=["segmenter", "fall-back"])
def test_text_is_split_into_sentences(open_page: OpenPage, server: Any, script: str) -> None:
    page = open_page(script=script)
    for sentences in [
        ["Is it?", "It is!", "Yes."],
        ["Mr. Smith met J. Doe.", "They left."],
        ["So do I.", "He too."],
        ["About 3 p.m. or so, z. B. today… or not.", "3 dogs came."],
        ["It costs 3.50 euros"],
        ['He said "no."', 'Then "yes."'],
        ["你好。", "再见！", "好吗?", "很好。"],
        ["यह एक है।", "वह दो है।"],
    ]:
        server.requests.clear()
        page.fill("#source", ("" if "你好。" in sentences else " ").join(sentences))
        expect(page.locator(".sentence")).to_have_text([f"[{s}]" for s in sentences])
        assert server.requested() == [sentences]


def test_only_changed_sentences_are_requested_again(open_page: OpenPage, server: Any) -> None:
    page = open_page()
    page.fill("#source", "One. Two. One.")
    expect(page.locator("#translation")).to_have_text("[One.] [Two.] [One.]")
    page.fill("#source", "One. Three. One.")
    expect(page.locator("#translation")).to_have_text("[One.] [Three.] [One.]")
    assert server.requested() == [["One.", "Two."], ["Three."]]


def test_a_late_reply_is_dropped(open_page: OpenPage, server: Any) -> None:
    page = open_page()
    with page.expect_request("**/*:predict"):
        page.fill("#source", "slow one")
    page.fill("#source", "quick one")
    # It does not wait for the first, whose late reply changes nothing.
    expect(page.locator("#translation")).to_have_text("[quick one]")
    server.released.set()
    wait_for(lambda: ["slow one"] in server.answered)
    page.evaluate("fetch('page/model.json')")
    expect(page.locator("#translation")).to_have_text("[quick one]")
    expect(page.locator("#error")).to_be_hidden()


def test_a_long_text_is_translated_in_chunks(open_page: OpenPage, server: Any) -> None:
    sentences = [
        f"This is sentence number {i:04d} of a text that is long, and it has a second part as well,"
        " so as to fill it sooner."
        for i in range(900)
    ]
    text = " ".join(sentences)
    assert len(text) > 100_000
    page = open_page()
    server.delay = 0.05
    page.fill("#source", text)
    expect(page.locator("#translation .sentence").first).to_have_text(f"[{sentences[0]}]")
    expect(page.locator("#status")).to_contain_text("of 900 sentences")
    assert page.locator("#translation .sentence.pending").count() > 0, "nothing before the end"
    server.delay = 0.0
    expect(page.locator("#translation .sentence.pending")).to_have_count(0)
    assert page.locator("#translation").text_content() == " ".join(f"[{s}]" for s in sentences)
    assert [text for chunk in server.requested() for text in chunk] == sentences
    assert max(len(chunk) for chunk in server.requested()) == 32


def test_input_and_output_are_text_not_html(open_page: OpenPage) -> None:
    page = open_page()
    page.fill("#source", HTML)
    expect(page.locator("#translation")).to_have_text(f"[{HTML}]")
    expect(page.locator("#details-source")).to_have_text(HTML)
    expect(page.locator(".hypotheses li").first).to_contain_text(f"[{HTML}]")
    expect(page.locator(".heatmap tbody th").first).to_have_text("<img")
    assert page.locator("img, b:not(.readout b)").count() == 0
    assert page.title() == "English to German \u00b7 mock"


def test_no_code_of_the_page_parses_html() -> None:
    for file in PAGE.glob("*.js"):
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in file.read_text(), f"{word} in {file.name}"


def test_an_error_is_shown_and_can_be_retried(open_page: OpenPage, server: Any) -> None:
    page = open_page(expect_errors=True)
    for status, words in [
        (400, "did not accept this text. (400: why)"),
        (503, "server is overloaded"),
        (504, "took too long"),
        (500, "could not do this. (500: why)"),
    ]:
        server.failures = [(status, "why")]
        page.fill("#source", f"Text for {status}.")
        expect(page.locator("#error")).to_contain_text(words)
        expect(page.locator("#source")).to_have_value(f"Text for {status}.")
        page.click("#error button")
        expect(page.locator("#translation")).to_have_text(f"[Text for {status}.]")
        expect(page.locator("#error")).to_be_hidden()


def test_a_stopped_server_loses_no_text(open_page: OpenPage, server: Any) -> None:
    page = open_page(expect_errors=True)
    server.silent = True
    page.fill("#source", "Kept.")
    expect(page.locator("#error")).to_contain_text("does not answer")
    expect(page.locator("#source")).to_have_value("Kept.")
    server.silent = False
    page.reload()
    expect(page.locator("#source")).to_have_value("Kept.")
    expect(page.locator("#translation")).to_have_text("[Kept.]")


def test_translations_of_two_versions_are_not_mixed(open_page: OpenPage, server: Any) -> None:
    page = open_page()
    page.fill("#source", "One.")
    expect(page.locator("#translation")).to_have_text("[One.]")
    server.model = {**server.model, "version": 4}
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#model")).to_have_text("mock, version 4")
    expect(page.locator("#translation .pending")).to_have_count(0)
    assert server.requested() == [["One."], ["One."]]


def test_a_truncated_sentence_is_reported(open_page: OpenPage) -> None:
    page = open_page()
    page.fill("#source", "Short. This is too long. Short again.")
    expect(page.locator("#truncated")).to_contain_text("Sentence 2 reached the model's limit")
    page.click("#truncated button")
    expect(page.locator("#details-title")).to_have_text("Sentence 2 of 3")
    page.fill("#source", "Short.")
    expect(page.locator("#truncated")).to_be_hidden()


def test_settings_are_remembered(open_page: OpenPage, server: Any) -> None:
    page = open_page()
    page.uncheck("#as-you-type")
    page.reload()
    expect(page.locator("#as-you-type")).not_to_be_checked()
    page.fill("#source", "On a key.")
    page.evaluate("new Promise((done) => setTimeout(done, 400))")  # longer than a typing pause
    assert server.requested() == []
    page.keyboard.press("Control+Enter")
    expect(page.locator("#translation")).to_have_text("[On a key.]")
    page.fill("#source", "On a button.")
    expect(page.locator("#status")).to_have_text("The text has changed since.")
    page.click("#translate")
    expect(page.locator("#translation")).to_have_text("[On a button.]")


def test_text_typed_while_the_page_starts_is_not_requested(
    open_page: OpenPage, server: Any
) -> None:
    page = open_page()
    page.uncheck("#as-you-type")
    held: list[Any] = []
    page.route("**/model.json", lambda route: held.append(route))
    page.reload()
    page.fill("#source", "On a key.")
    held[0].continue_()
    expect(page.locator("#model")).to_have_text("mock, version 3")
    page.evaluate("fetch('page/icon.svg')")
    assert server.requested() == []


def test_the_translation_can_be_copied(open_page: OpenPage) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.fill("#source", "One. Two.\n\nThree.")
    expect(page.locator("#translation p")).to_have_count(3)
    expect(page.locator("#translation .pending")).to_have_count(0)
    page.click("#copy")
    expect(page.locator("#copy")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "[One.] [Two.]\n\n[Three.]"


def test_the_command_survives_the_shell(open_page: OpenPage, server: Any) -> None:
    page = open_page()
    page.uncheck("#as-you-type")
    page.click("#curl summary")
    # A curl that prints its arguments instead of sending a request.
    stub = 'curl() { [ "$2" = @- ] && cat || printf %s "$2"; printf "\\n%s" "$3"; }\n'
    for sentences in [
        ['It\'s "quoted" `id` $(id) $HOME x \\n \\ !'],
        ["first line", "second line"],
        [HTML],
        ["Übung 你好 🙂 \u202e \u009b ."],
        ["x" * 120_000],  # longer than an argument may be
    ]:
        page.fill("#source", "\n\n".join(sentences))
        command = page.locator("#curl-command").text_content()
        shell = subprocess.run(["sh"], input=stub + command, capture_output=True, text=True)
        body, address = shell.stdout.rsplit("\n", 1)
        assert address == f"{server.address}v1/models/mock:predict"
        assert json.loads(body) == {"instances": sentences}
        assert "\u202e" not in command, "a character that reverses the line"


def test_the_search_is_named(open_page: OpenPage, server: Any) -> None:
    page = open_page()
    expect(page.locator("#facts")).to_contain_text(
        "beam 4, length penalty 0.6, 4-best, at most 256 tokens"
    )
    server.model["search"]["length_penalty"] = "power"
    page.reload()
    expect(page.locator("#facts")).to_contain_text("length penalty 0.6 (power), 4-best")


def test_without_languages_the_page_still_works(open_page: OpenPage, server: Any) -> None:
    server.model = {"name": "plain", "version": 1}
    page = open_page()
    page.fill("#source", "One.")
    expect(page.locator("#translation")).to_have_text("[One.]")
    expect(page.locator("#title")).to_have_text("Translate")
    assert page.locator("#translation").get_attribute("lang") is None
