"""Fonts of Matplotlib for labels in any script."""

from __future__ import annotations

import contextlib
import functools
import logging
import re
from collections.abc import Iterator, Sequence
from typing import Any

logger = logging.getLogger(__name__)

LATIN = "DejaVu Sans"
"""Matplotlib's own font, the first of the families; missing glyphs come from the next one."""

CJK = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",  # the first face of Noto's collection, the only one read before 3.11
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "PingFang SC",
    "Hiragino Sans GB",
    "Heiti SC",
    "Microsoft YaHei",
    "SimHei",
    "Arial Unicode MS",
)
"""Families with Chinese characters, in order of preference."""

_FILES = re.compile(
    r"noto\w*sans.*(cjk|sc)|sourcehansans|wqy|droidsansfallback|pingfang|hiragino|heiti|msyh|simhei"
    r"|arial ?unicode",
    re.IGNORECASE,
)
_INSTALL = (
    "install a font with these characters, such as the package fonts-wqy-microhei (1.6 MB), or "
    "use the HTML page or SVG, which the browser draws with its own fonts"
)


def families() -> list[str]:
    """Return the font families for labels: DejaVu Sans and, if there is one, a CJK family."""
    return [LATIN, *_cjk_family()]


@functools.cache
def _cjk_family() -> tuple[str, ...]:
    from matplotlib import font_manager

    known = {entry.name for entry in font_manager.fontManager.ttflist}
    if not known.intersection(CJK):
        # Matplotlib's list is a cache: it lacks fonts that were installed later.
        for path in font_manager.findSystemFonts():
            if _FILES.search(path):
                with contextlib.suppress(Exception):  # a damaged or unreadable file
                    font_manager.fontManager.addfont(path)
        known = {entry.name for entry in font_manager.fontManager.ttflist}
    return tuple(family for family in CJK if family in known)[:1]


@contextlib.contextmanager
def use_fonts() -> Iterator[None]:
    """Use fonts for any script in the figures that are created and saved in the block.

    Text in SVG stays text, which the browser draws with its own fonts.
    """
    import matplotlib

    with matplotlib.rc_context({"font.family": families(), "svg.fonttype": "none"}):
        yield


def drawable_labels(labels: Sequence[str]) -> list[str]:
    """Return labels that can be drawn: the text, or the index where a glyph is missing.

    A warning names missing characters, once each.

    Args:
        labels: Any text, in the order of their positions.
    """
    known = _characters()
    missing = [{sign for sign in label if ord(sign) not in known} for label in labels]
    if signs := "".join(sorted(set().union(*missing))):
        _warn(signs)
    pairs = zip(labels, missing, strict=True)
    # A dollar sign would begin a formula.
    return [
        str(index) if lacking else label.replace("$", r"\$")
        for index, (label, lacking) in enumerate(pairs)
    ]


@functools.cache
def _characters() -> frozenset[int]:
    """Return the code points for which the families have glyphs."""
    return frozenset[int]().union(*(_charmap(family) for family in families()))


def _charmap(family: str) -> Any:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    path = font_manager.findfont(family, fallback_to_default=False)
    return FT2Font(path).get_charmap().keys()


_warned: set[str] = set()


def _warn(signs: str) -> None:
    if not _warned.issuperset(signs):
        shown = signs if len(signs) <= 20 else f"{signs[:20]}…"
        logger.warning(
            "no font for %s: tokens with them are labelled by index; %s", shown, _INSTALL
        )
    _warned.update(signs)
