"""The timeline in a real browser: hover is exact, keys and links work, both themes, no errors."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dash import Dash, html
from werkzeug.serving import make_server

from tests.app.drawn import RANKS, run_of
from zerosim.store import save_run
from zerosim_app import routes
from zerosim_app.components import timeline as module
from zerosim_app.components.timeline import Options, RunUrl, register, timeline
from zerosim_app.shelf import Shelf

pytestmark = pytest.mark.e2e
ASSETS = Path(module.__file__).parents[1] / "assets"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    library = tmp_path_factory.mktemp("library")
    save_run(run_of("one", 1.0), library / "one")
    save_run(run_of("two", 1.5), library / "two")
    app = Dash("timeline-test", assets_folder=str(ASSETS))
    app.server.register_blueprint(routes.blueprint(Shelf(library, library)))
    runs = [RunUrl("one"), RunUrl("two")]
    app.layout = html.Div(timeline("tl", runs, Options(height=700)))
    register(app, "tl")
    server = make_server("127.0.0.1", 0, app.server, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.port}/"
    server.shutdown()
    thread.join()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    opened = context.new_page()
    problems: list[str] = []
    opened.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on(
        "request",
        lambda r: None if r.url.startswith((address, "data:", "blob:")) else problems.append(r.url),
    )
    yield opened
    context.close()
    assert problems == []


def show(page: Any, address: str, query: str = "") -> None:
    page.goto(address + query)
    page.wait_for_function("window.zsTimeline")
    page.evaluate("zsTimeline.ready.then(() => true)")


def probe(page: Any, run: int, i: int) -> Any:
    return page.evaluate(
        """([run, i]) => {
          zsTimeline.reveal(run, i);
          const { x, y, width, height } = zsTimeline.screenRect(run, i);
          const left = document.querySelector(".zs-tl-plot").getBoundingClientRect();
          const from = Math.max(x, left.left), to = Math.min(x + width, left.right);
          return { rect: { x, y, width, height }, at: [(from + to) / 2, y + height / 2],
            found: zsTimeline.spanAt((from + to) / 2, y + height / 2) };
        }""",
        [run, i],
    )


def test_hover_names_the_right_span_at_200_random_places(page: Any, address: str) -> None:
    show(page, address, "?ranks=all")
    rng = random.Random(1)
    for _ in range(200):
        run = rng.randrange(2)
        i = rng.randrange(page.evaluate("(run) => zsTimeline.count(run)", run))
        answer = probe(page, run, i)
        assert answer["rect"]["width"] >= 1
        assert (answer["found"]["run"], answer["found"]["i"]) == (run, i)


def test_the_box_at_the_pointer_says_what_is_under_it(page: Any, address: str) -> None:
    show(page, address, "?ranks=all")
    span = page.evaluate("zsTimeline.span(0, 20)")
    x, y = probe(page, 0, 20)["at"]
    page.mouse.move(x, y)
    page.wait_for_selector(".zs-tl-tip:not([hidden])")
    text = page.inner_text(".zs-tl-tip")
    assert span["name"] in text
    assert f"{int(span['start_ns']):,} ns" in text
    assert f"{int(span['duration_ns']):,} ns" in text


def test_an_aggregated_pixel_names_its_shares(page: Any, address: str) -> None:
    show(page, address)
    found = page.evaluate(
        """() => {
          const tl = zsTimeline.timeline();
          tl.limits = { t0: -5e6, t1: 5e6 };
          zsTimeline.setView(-4e6, 4e6);
          const { x, y, height } = zsTimeline.screenRect(0, 5);
          return zsTimeline.spanAt(x, y + height / 2);
        }"""
    )
    assert "span" not in found
    assert 0 < sum(found["shares"].values()) <= 1
    assert set(found["shares"]) <= {"forward", "all-gather"}


def test_keys_zoom_pan_and_fit_only_with_the_focus(page: Any, address: str) -> None:
    show(page, address)
    start = page.evaluate("zsTimeline.view()")
    page.keyboard.press("w")
    assert page.evaluate("zsTimeline.view()") == start
    page.focus("#tl-root")
    page.keyboard.press("w")
    closer = page.evaluate("zsTimeline.view()")
    assert closer["t1"] - closer["t0"] < start["t1"] - start["t0"]
    page.keyboard.press("d")
    moved = page.evaluate("zsTimeline.view()")
    assert moved["t0"] > closer["t0"]
    page.keyboard.press("f")
    assert page.evaluate("zsTimeline.view()") == start


def test_the_wheel_zooms_at_the_pointer(page: Any, address: str) -> None:
    show(page, address)
    box = page.locator(".zs-tl-plot").bounding_box()
    x, y = box["x"] + box["width"] * 0.25, box["y"] + 60
    under = "([x]) => { const tl = zsTimeline.timeline(); return tl.axisTime(x - tl.stage.getBoundingClientRect().left); }"
    before = page.evaluate(under, [x])
    width = page.evaluate("(() => { const v = zsTimeline.view(); return v.t1 - v.t0; })()")
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    page.wait_for_function(
        "(width) => { const v = zsTimeline.view(); return v.t1 - v.t0 < width * 0.8; }", arg=width
    )
    assert page.evaluate(under, [x]) == pytest.approx(before, abs=width / box["width"])


def test_a_selection_is_said_shown_on_all_ranks_and_cleared(page: Any, address: str) -> None:
    show(page, address, "?ranks=all")
    gather = page.evaluate(
        "[...Array(zsTimeline.count(0)).keys()].find((i) => zsTimeline.span(0, i).name === 'AG3')"
    )
    x, y = probe(page, 0, gather)["at"]
    page.mouse.click(x, y)
    said = page.inner_text('[data-part="live"]')
    assert said.startswith("AG3: all-gather, unit 3, rank 0")
    assert f"{RANKS} members outlined" in said
    page.keyboard.press(".")
    assert page.inner_text('[data-part="live"]').startswith("AG4")
    page.keyboard.press("Escape")
    assert page.inner_text('[data-part="live"]') == ""


def test_a_reloaded_link_shows_the_same(page: Any, address: str) -> None:
    show(page, address)
    page.select_option('[data-choice="align"]', "F0")
    page.evaluate("zsTimeline.timeline().select(1, 7)")
    page.evaluate("zsTimeline.setView(1234, 9876)")
    page.wait_for_function(
        "location.search.includes('t0=1234') && location.search.includes('sel=')"
    )
    before = page.evaluate("[zsTimeline.view(), zsTimeline.timeline().selected, location.search]")
    page.reload()
    page.wait_for_function("window.zsTimeline")
    page.evaluate("zsTimeline.ready.then(() => true)")
    after = page.evaluate("[zsTimeline.view(), zsTimeline.timeline().selected, location.search]")
    assert after == before
    assert before[0] == {"t0": 1234, "t1": 9876}


def test_measuring_snaps_to_the_edges_of_spans(page: Any, address: str) -> None:
    show(page, address, "?ranks=0")
    rect = page.evaluate("zsTimeline.screenRect(0, 14)")
    y = rect["y"] + rect["height"] / 2
    page.keyboard.down("Shift")
    page.mouse.move(rect["x"] + 3, y)
    page.mouse.down()
    page.mouse.move(rect["x"] + rect["width"] - 3, y, steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    duration = page.evaluate("zsTimeline.span(0, 14).duration_ns")
    assert page.inner_text('[data-part="live"]').startswith(f"Area of {int(duration):,} ns")


def test_ranks_expand_and_collapse(page: Any, address: str) -> None:
    show(page, address)
    assert page.evaluate("zsTimeline.stats().rows") == 4
    page.click('[data-act="ranks"]')
    page.wait_for_function("zsTimeline.stats().rows === 32")
    page.click('[data-act="ranks"]')
    page.wait_for_function("zsTimeline.stats().rows === 4")


def test_playback_sweeps_and_pauses(page: Any, address: str) -> None:
    show(page, address)
    page.focus("#tl-root")
    page.keyboard.press(" ")
    page.wait_for_function("zsTimeline.timeline().play.at > zsTimeline.timeline().view.t0 + 50")
    page.keyboard.press(" ")
    at = page.evaluate("zsTimeline.timeline().play.at")
    page.wait_for_timeout(150)
    assert page.evaluate("zsTimeline.timeline().play.at") == at
    assert page.inner_text('[data-part="now"]') != ""


def test_reduced_motion_steps_instead_of_sweeping(browser: Any, address: str) -> None:
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    show(page, address)
    page.select_option('[data-choice="speed"]', "4")
    page.click('[data-act="play"]')
    page.wait_for_function("zsTimeline.timeline().play.at > 0")
    starts = "zsTimeline.timeline().spansAt(zsTimeline.timeline().play.at).some(({ run, span }) => "
    starts += "Math.abs(zsTimeline.timeline().axisSpan({ run, span }).t0 - zsTimeline.timeline().play.at) < 1)"
    page.click('[data-act="play"]')
    assert page.evaluate(starts)
    context.close()


def test_the_theme_switches_live(page: Any, address: str) -> None:
    show(page, address)
    corner = """() => { const tl = zsTimeline.timeline(); tl.draw();
      const { x, width } = tl.rectOf(0, 0);
      const place = [x - 176 + width / 4, tl.layout.rows[0].y + 2];
      return [...tl.layers.plot.context.getImageData(...place, 1, 1).data]; }"""
    forward = {"light": [0x41, 0x61, 0x9E, 255], "dark": [0x63, 0x93, 0xF8, 255]}
    assert page.evaluate("zsTimeline.span(0, 0).kind") == "forward"
    page.evaluate("zsTimeline.reveal(0, 0)")
    assert page.evaluate(corner) == forward["light"]
    page.evaluate("document.documentElement.setAttribute('data-mantine-color-scheme', 'dark')")
    page.wait_for_function("zsTimeline.timeline().theme === 'dark'")
    assert page.evaluate(corner) == forward["dark"]


def test_a_run_that_is_gone_is_told_in_a_sentence(browser: Any, address: str) -> None:
    page = browser.new_page()
    page.route("**/api/runs/one/timeline.json*", lambda route: route.fulfill(
        status=404, content_type="application/json", body='{"error": "no run \'one\' here"}'))  # fmt: skip
    page.goto(address)
    page.wait_for_selector('[data-part="problem"]:visible')
    assert page.inner_text('[data-part="problem"]') == "no run 'one' here"
    page.close()


def test_the_picture_can_be_saved(page: Any, address: str) -> None:
    show(page, address)
    with page.expect_download() as download:
        page.click('[data-act="png"]')
    assert download.value.suggested_filename == "one-vs-two.png"
    assert Path(download.value.path()).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_new_config_changes_the_timeline_in_place(page: Any, address: str) -> None:
    show(page, address)
    page.evaluate(
        """() => {
          const root = document.getElementById("tl-root");
          const cfg = JSON.parse(root.dataset.cfg);
          dash_clientside.set_props("tl-cfg", { data: { ...cfg, runs: [cfg.runs[1]] } });
        }"""
    )
    page.wait_for_function("zsTimeline.timeline().runs.length === 1")
    assert page.evaluate("zsTimeline.timeline().runs[0].about.id") == "two"
