"""How fast the timeline draws: pan frames of a million spans, and against Plotly bars in one page.

`python benchmarks/timeline.py` needs playwright and a Chromium (CHROMIUM=path to name one). It
prints medians with the load of the machine, and exits 1 if a bar is missed.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import plotly
import polars as pl
from flask import Flask, Response
from playwright.sync_api import Page, sync_playwright
from werkzeug.serving import make_server

import zerosim_app
from zerosim.trace import Meta, Trace, make_trace
from zerosim_app.spansbin import Encoded, encode

RANKS: Final = 64
PAN_MS: Final = 16.0
RATIO: Final = 0.1
N_BARS: Final = 10**4
ASSETS: Final = Path(next(iter(zerosim_app.__path__))) / "assets"
PLOTLY: Final = Path(next(iter(plotly.__path__))) / "package_data" / "plotly.min.js"
PAGE: Final = """<!doctype html><link rel="stylesheet" href="/assets/zs_timeline.css">
<body style="margin:0"><div class="zs-tl" id="tl" tabindex="0" data-cfg='CONFIG'>
<button data-act="ranks"></button><button data-act="play"></button><button data-act="memory"></button>
<div data-part="legend"></div><div data-part="problem"></div>
<div class="zs-tl-stage" data-part="stage"></div><div data-part="live"></div><div data-part="now"></div>
</div><div id="bars" style="width:1500px;height:840px"></div>
<script src="/plotly.min.js"></script>
<script type="module" src="/assets/40_zs_mount.mjs"></script>"""

PAN: Final = """([share, frames, whole]) => {
  const tl = zsTimeline.timeline();
  const { t0, t1 } = tl.limits;
  const width = (t1 - t0) * share;
  const times = [];
  for (let k = 0; k < frames; k++) {
    if (k % 20 === 0) zsTimeline.setView(t0 + (t1 - t0 - width) * 0.3, t0 + (t1 - t0 - width) * 0.3 + width);
    const began = performance.now();
    if (whole) tl.plot.key = null;
    tl.panBy(share < 1 ? 13 : 0);
    tl.request("plot", "head", "over");
    tl.draw();
    tl.layers.plot.context.getImageData(0, 0, 1, 1);
    if (k % 20 > 0) times.push(performance.now() - began);
  }
  return times;
}"""
PAINTED: Final = """const painted = () => new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(done)));"""
CANVAS: Final = """async () => { PAINTED
  const tl = zsTimeline.timeline();
  const { t0, t1 } = tl.limits;
  const times = [];
  for (let k = 0; k < 11; k++) {
    const share = k % 2 ? 0.5 : 0.1;
    await painted();
    const began = performance.now();
    zsTimeline.setView(t0, t0 + (t1 - t0) * share);
    await painted();
    times.push(performance.now() - began);
  }
  return times;
}""".replace("PAINTED", PAINTED)
BARS: Final = """async (bars) => { PAINTED
  const run = zsTimeline.timeline().runs[0];
  const [x, base, y] = [[], [], []];
  const every = run.n / bars;
  for (let i = 0, row = 0; i < run.n; i += every) {
    while (run.rowOffsets[row + 1] <= i) row++;
    x.push(run.duration[i] / 1e3), base.push(run.start[i] / 1e3), y.push(row);
  }
  const end = run.about.duration_ns / 1e3;
  await Plotly.newPlot("bars", [{ type: "bar", orientation: "h", x, base, y, textposition: "none" }],
    { margin: { t: 20, b: 30, l: 30, r: 10 }, xaxis: { range: [0, end] } }, { staticPlot: false });
  const times = [];
  for (let k = 0; k < 3; k++) {
    await painted();
    const began = performance.now();
    await Plotly.relayout("bars", { "xaxis.range": [0, end * (k % 2 ? 0.5 : 0.1)] });
    await painted();
    times.push(performance.now() - began);
  }
  Plotly.purge("bars");
  return times;
}""".replace("PAINTED", PAINTED)


def synthetic(n_spans: int) -> Trace:
    """A ZeRO-3-like run of RANKS ranks with a computing and a gathering stream, `n_spans` in all."""
    rng = np.random.default_rng(1)
    rows, per_row = 2 * RANKS, n_spans // (2 * RANKS)
    duration = rng.integers(500, 1500, (rows, per_row))
    end = np.cumsum(duration + rng.integers(0, 400, (rows, per_row)), axis=1)
    row = np.repeat(np.arange(rows), per_row)
    layer = np.tile(np.arange(per_row) % 48, rows)
    gathers = row % 2 == 1
    backward = layer % 2 == 1
    kind = np.where(gathers, "all_gather", np.where(backward, "backward", "forward"))
    spans = pl.DataFrame(
        {
            "rank": row // 2,
            "stream": np.where(gathers, "all_gather", "compute"),
            "kind": kind,
            "name": np.char.add(
                np.where(gathers, "AG", np.where(backward, "B", "F")), layer.astype(str)
            ),
            "unit": layer.astype(str),
            "start_ns": (end - duration).ravel(),
            "end_ns": end.ravel(),
        }
    )
    return make_trace(spans, Meta(name=f"{n_spans} spans", source="simulated", world_size=RANKS))


@contextmanager
def served(runs: dict[str, Encoded]) -> Iterator[str]:
    """A server on a free port: the app's own assets, Plotly's own bundle, and `runs`."""
    app = Flask("benchmark", static_folder=str(ASSETS), static_url_path="/assets")

    @app.get("/page/<run>")
    def page(run: str) -> str:
        cfg = {"prefix": "tl", "runs": [{"url": f"/{run}/timeline.json"}], "ranks": "all"}
        return PAGE.replace("CONFIG", json.dumps({**cfg, "height": 1200, "address": False}))

    @app.get("/plotly.min.js")
    def bundle() -> Response:
        return Response(PLOTLY.read_bytes(), mimetype="text/javascript")

    @app.get("/<run>/<part>")
    def part(run: str, part: str) -> Response:
        encoded = runs[run]
        parts = {"timeline.json": encoded.timeline, "spans.bin": encoded.spans}
        return Response(parts.get(part, encoded.samples))

    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()


def median(times: list[float]) -> float:
    """The median, ms."""
    return float(np.median(times))


def measure_pan(page: Page, say: Callable[[str], None]) -> float:
    """Median pan frame, ms, at the worst of three zooms; says that of frames painted anew, too."""
    worst = 0.0
    for share in (0.5, 0.1, 0.01):
        page.evaluate(PAN, [share, 20, False])
        pan = median(page.evaluate(PAN, [share, 80, False]))
        anew = median(page.evaluate(PAN, [share, 40, True]))
        say(f"  {share:5.0%} of the run in sight: pan {pan:6.1f} ms, painted anew {anew:6.1f} ms")
        worst = max(worst, pan)
    return worst


def open_run(page: Page, address: str, run: str) -> float:
    """Opens a run; ms from the request to the first picture."""
    page.goto(f"{address}/page/{run}")
    page.evaluate("zsTimeline.ready.then(() => true)")
    return float(page.evaluate("performance.now()"))


def measure(page: Page, address: str) -> dict[str, Any]:
    """All figures, ms; prints them as they come."""
    first = open_run(page, address, "1e6")
    stats = page.evaluate("zsTimeline.stats()")
    print(f"1e6 spans on {stats['rows']} rows: first picture after {first:.0f} ms")
    pan = measure_pan(page, print)
    open_run(page, address, "1e5")
    page.evaluate(CANVAS)
    canvas = median(page.evaluate(CANVAS))
    bars = median(page.evaluate(BARS, N_BARS))
    print(
        f"zoom until painted: 1e5 spans on the canvas {canvas:.0f} ms, 1e4 Plotly bars {bars:.0f} ms"
    )
    return {"pan_ms": pan, "canvas_ms": canvas, "bars_ms": bars, "ratio": canvas / bars}


def main() -> int:
    """Runs everything; 0 if both bars hold."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    runs = {
        name: encode(synthetic(n), "all", "all", name)
        for name, n in (("1e6", 10**6), ("1e5", 10**5))
    }
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with served(runs) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1500, "height": 1300})
        found = measure(page, address)
        browser.close()
    load = os.getloadavg()[0]
    pan_ok, ratio_ok = found["pan_ms"] <= PAN_MS, found["ratio"] <= RATIO
    print(f"pan frame {found['pan_ms']:.1f} ms (bar {PAN_MS} ms): {'held' if pan_ok else 'MISSED'}")
    print(f"canvas/bars {found['ratio']:.3f} (bar {RATIO}): {'held' if ratio_ok else 'MISSED'}")
    print(f"load average {load:.1f}")
    return 0 if pan_ok and ratio_ok else 1


if __name__ == "__main__":
    sys.exit(main())
