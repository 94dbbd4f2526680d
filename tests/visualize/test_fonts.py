"""Labels in scripts with and without a font."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from keras_transformer.visualize import fonts, heatmap

CHINESE, GERMAN, FRENCH = "\u02cd你", "\u02cdgroße", "\u02cdgarçon"


@pytest.fixture
def fresh_fonts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def clear() -> None:
        fonts._cjk_family.cache_clear()
        fonts._characters.cache_clear()

    clear()
    monkeypatch.setattr(fonts, "_warned", set())
    yield
    clear()


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_fonts")
def test_with_a_font_every_label_is_drawn(tmp_path: Path) -> None:
    if len(fonts.families()) == 1:
        pytest.skip("no CJK font is installed")
    labels = [CHINESE, GERMAN, FRENCH, "$x$"]

    assert fonts.drawable_labels(labels) == [CHINESE, GERMAN, FRENCH, r"\$x\$"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "Glyph … missing"
        heatmap([[1.0, 0, 0, 0]] * 4, labels, labels).save(tmp_path / "a.png")
        heatmap([[1.0, 0, 0, 0]] * 4, labels, labels).save(tmp_path / "a.svg")
    assert (tmp_path / "a.png").stat().st_size > 1000
    assert "\u02cd你</text>" in (tmp_path / "a.svg").read_text("utf-8")  # text stays text


@pytest.mark.usefixtures("fresh_fonts")
def test_without_a_font_the_index_is_drawn_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fonts, "CJK", ())
    monkeypatch.setattr(fonts, "_FILES", fonts.re.compile("no such file"))
    labels = [GERMAN, CHINESE, FRENCH]

    assert fonts.families() == ["DejaVu Sans"]
    with caplog.at_level(logging.WARNING), warnings.catch_warnings():
        warnings.simplefilter("error")
        heatmap([[1.0, 0, 0]] * 3, labels, labels).save(tmp_path / "a.png")
        assert fonts.drawable_labels(labels) == [GERMAN, "1", FRENCH]
    (record,) = caplog.records
    assert "no font for 你" in record.message
    assert "fonts-wqy-microhei" in record.message
