"""One page with the timeline in it: a browser draws it, asks for nothing, and takes names as text."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest

from zerosim.errors import InputError
from zerosim.exporters import export, html
from zerosim.trace import Meta, Trace, make_trace

HOSTILE = ("<script>alert(1)</script>", "</script><img src=x onerror=hacked()>", "<!--", "]]>")


class Elements(HTMLParser):
    """The elements of a page, as a browser finds them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, _: object) -> None:
        self.found.append(tag)


def run_of(page: str) -> Any:
    (text,) = re.findall(r'<script type="application/json" id="run">(.*?)</script>', page)
    return orjson.loads(text)


def named(*names: str) -> Trace:
    """A trace of one stream whose spans, 10 ns each, bear `names`; the run bears the first."""
    places = range(len(names))
    spans = {
        "rank": [0 for _ in places],
        "stream": [names[0] for _ in places],
        "kind": ["forward" for _ in places],
        "name": list(names),
        "unit": list(names),
        "start_ns": [10 * i for i in places],
        "end_ns": [10 * i + 10 for i in places],
    }
    return make_trace(spans, Meta(name=names[0], source="imported", world_size=1))


def page_of(trace: Trace, path: Path) -> str:
    export(trace, "html", path)
    return path.read_text()


def test_the_page_holds_each_span_with_its_time(lesson: Trace, tmp_path: Path) -> None:
    run = run_of(page_of(lesson, tmp_path / "t.html"))
    assert (run["name"], run["source"]) == ("lesson-zero3", "simulated")
    assert [(t["rank"], t["stream"]) for t in run["tracks"][:3]] == [
        (0, "all_gather"),
        (0, "compute"),
        (0, "reduce_scatter"),
    ]
    assert sum(len(track["start"]) for track in run["tracks"]) == 108
    first = run["tracks"][1]
    mine = lesson.spans.filter(lesson.spans["stream"] == "compute")
    assert run["words"][first["name"][0]] == "F0"
    assert (first["start"][0], first["end"][0]) == (mine["start_ns"][0], mine["end_ns"][0])


def test_what_crosses_lies_on_a_row_beside_it(odd: Trace, tmp_path: Path) -> None:
    run = run_of(page_of(odd, tmp_path / "t.html"))
    names = [track["stream"] for track in run["tracks"]]
    assert names == ["stream 20", "stream 20 (2)", "host", "stream 7"]


def test_names_never_become_elements(tmp_path: Path) -> None:
    page = page_of(named(*HOSTILE), tmp_path / "t.html")
    plain = page_of(named("a", "b", "c", "d"), tmp_path / "plain.html")
    assert Elements(page).found == Elements(plain).found
    assert run_of(page)["words"] == list(HOSTILE)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", page)


def test_the_page_asks_for_nothing(lesson: Trace, tmp_path: Path) -> None:
    page = page_of(lesson, tmp_path / "t.html")
    assert "default-src 'none'" in page
    assert not re.search(r"https?://|src=|@import|url\(|fetch\(", page)


def test_a_run_of_nothing_or_of_too_much_is_refused(
    lesson: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = make_trace({}, Meta(name="idle", source="simulated", world_size=1))
    with pytest.raises(InputError, match="'idle' has no spans"):
        export(empty, "html", tmp_path / "t.html")
    monkeypatch.setattr(html, "MAX_SPANS", 107)
    with pytest.raises(InputError, match="has 108 spans, over 107: export it --to perfetto"):
        export(lesson, "html", tmp_path / "t.html")
    assert list(tmp_path.iterdir()) == []


def counted(*samples: tuple[int, int, str]) -> Trace:
    """Four spans of 10 ns, and samples: when, how much, of which counter."""
    whens, values, counters = zip(*samples, strict=True)
    trace = named("a", "b", "c", "d")
    told = {"time_ns": whens, "rank": [0] * len(whens), "counter": counters, "value": values}
    return make_trace(trace.spans, trace.meta, told)


def test_counters_are_in_the_page_in_order_of_time(tmp_path: Path) -> None:
    trace = counted((20, 50, "memory.allocated"), (10, 100, "memory.allocated"), (5, 3, HOSTILE[0]))
    assert run_of(page_of(trace, tmp_path / "t.html"))["counters"] == [
        {"rank": 0, "name": "memory.allocated", "at": [10, 20], "value": [100, 50]},
        {"rank": 0, "name": HOSTILE[0], "at": [5], "value": [3]},
    ]


def test_too_many_samples_are_left_out_and_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "MAX_SAMPLES", 1)
    trace = counted((10, 100, "memory.allocated"), (20, 50, "memory.allocated"))
    run = run_of(page_of(trace, tmp_path / "t.html"))
    assert run["counters"] == []
    assert run["note"] == "counters are not shown: 2 samples, over 1"


@pytest.mark.e2e
def test_a_browser_draws_a_counter_as_high_as_it_counted(browser: Any, tmp_path: Path) -> None:
    trace = counted(
        (0, 0, "memory.allocated"), (10, 100, "memory.allocated"), (20, 50, "memory.allocated")
    )
    page_of(trace, tmp_path / "t.html")
    page = browser.new_page(viewport={"width": 900, "height": 400})
    page.goto((tmp_path / "t.html").as_uri())
    box = page.locator("canvas").bounding_box()
    drawn = """([ns, y]) => {
        const canvas = document.querySelector("canvas"), dots = devicePixelRatio;
        const at = [zsPage.place(ns) * dots, y * dots, 1, 1];
        return canvas.getContext("2d").getImageData(...at).data[3] > 0;
    }"""
    high, low = 26 + 24 + 5, 26 + 24 + 19  # near the upper and the lower end of the second row
    assert [page.evaluate(drawn, [ns, high]) for ns in (5, 15, 25)] == [False, True, False]
    assert [page.evaluate(drawn, [ns, low]) for ns in (5, 15, 25)] == [False, True, True]
    page.mouse.move(page.evaluate("zsPage.place(15)"), box["y"] + low)
    said = page.locator("#tip").inner_text().splitlines()
    assert said == ["memory.allocated", "100 bytes", "from 10 ns"]


@pytest.mark.e2e
def test_a_browser_draws_it_and_says_what_is_under_the_pointer(
    browser: Any, tmp_path: Path
) -> None:
    page_of(named(*HOSTILE), tmp_path / "t.html")
    page = browser.new_page(viewport={"width": 900, "height": 400})
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.goto((tmp_path / "t.html").as_uri())
    assert page.title() == HOSTILE[0]
    assert page.evaluate("zsPage.view()") == [0, 40]
    top = page.locator("canvas").bounding_box()["y"] + 38
    page.mouse.move(page.evaluate("zsPage.place(15)"), top)
    assert page.locator("#tip").inner_text().splitlines() == [
        HOSTILE[1],
        f"forward of {HOSTILE[1]}",
        "took 10 ns",
        "from 10 ns",
    ]
    page.keyboard.press("w")
    assert page.evaluate("zsPage.view()") == [8, 32]
    page.get_by_role("button", name="Whole run").click()
    assert page.evaluate("zsPage.view()") == [0, 40]
    assert said == []


@pytest.mark.e2e
def test_kinds_of_one_colour_share_an_entry_of_the_legend(browser: Any, tmp_path: Path) -> None:
    spans = named("a", "b", "c").spans.with_columns(
        pl.Series("kind", ["forward", "all_gather", "other"])
    )
    meta = Meta(name="a", source="imported", world_size=1)
    page_of(make_trace(spans.to_dict(as_series=False), meta), tmp_path / "t.html")
    page = browser.new_page()
    page.goto((tmp_path / "t.html").as_uri())
    assert page.locator("#legend span").all_inner_texts() == ["forward, other", "all-gather"]
    page.close()
