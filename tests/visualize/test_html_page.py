"""The page: texts in it stay texts."""

from __future__ import annotations

import dataclasses
import json
import re

from keras_transformer.visualize import html_page
from tests.visualize.fake_views import view

HOSTILE = "</script><script>alert(1)</script> <!-- & \" ' \u2028 😀 שלום {script} {data} \udce9"


def test_any_text_stays_inside_the_data() -> None:
    page = dataclasses.replace(view(), sentence=HOSTILE, translation="我爱你").page()

    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    assert json.loads(data)["views"][0]["sentence"] == HOSTILE
    assert "我爱你" in data
    assert page.count("<script") == 2
    assert "alert(1)</script>" not in page
    page.encode("utf-8")


def test_the_page_needs_nothing_from_outside() -> None:
    page = view().page()

    assert "default-src 'none'" in page
    assert not re.search(r"https?://|src=|@import|url\(", page)


def test_inline_in_a_notebook_is_one_escaped_frame() -> None:
    frame = view()._repr_html_()

    assert frame.count("<") == 2  # iframe and its end
    assert 'sandbox="allow-scripts"' in frame
    assert html_page.inline('"<&') == html_page._FRAME.format(page="&quot;&lt;&amp;")


def test_weights_are_thousandths() -> None:
    (data,) = re.findall(r'id="data">(.*?)</script>', view().page())
    kind = json.loads(data)["views"][0]["kinds"]["cross"]

    assert kind["layers"][0][0][1] == [100, 700, 100, 100]
    assert kind["heads"][0]["role"] == "alignment"
    assert kind["rollout"] is None
