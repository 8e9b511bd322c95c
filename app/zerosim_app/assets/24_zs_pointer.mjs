// What the pointer does: hover, select, pan, zoom by the wheel, measure, move the summary's window.

import { snap } from "./10_zs_core.mjs";
import { rowsBetween, SIZES } from "./16_zs_layout.mjs";
import { headHeight, stripsHeight, stripX } from "./22_zs_frame.mjs";

const CLICK_PX = 4;
const SNAP_PX = 6;

/** Listens on the stage until `signal` ends. */
export function listenToPointer(tl, signal) {
  const on = (kind, handler, options = {}) =>
    tl.stage.addEventListener(kind, handler, { signal, ...options });
  on("wheel", (event) => wheel(tl, event), { passive: false });
  on("pointerdown", (event) => press(tl, event));
  on("pointermove", (event) => move(tl, event));
  on("pointerup", (event) => release(tl, event));
  on("pointercancel", () => drop(tl));
  on("pointerleave", () => tl.setHover(null));
  on("dblclick", (event) => tl.selected && zoneOf(tl, at(tl, event)) === "plot" && tl.fitSelected());
}

function at(tl, event) {
  const box = tl.stage.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function zoneOf(tl, { x, y }) {
  const head = headHeight(tl.runs.length);
  if (x > SIZES.gutter + tl.size.plotWidth) return "scrollbar";
  if (y >= head) return x < SIZES.gutter ? "gutter" : "plot";
  if (x < SIZES.gutter) return "corner";
  return y < stripsHeight(tl.runs.length) ? "strip" : "ruler";
}

function wheel(tl, event) {
  if (!tl.ready) return;
  const place = at(tl, event);
  const zone = zoneOf(tl, place);
  const unit = event.deltaMode === 1 ? 16 : 1;
  const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
  event.preventDefault();
  if (zone === "gutter" || zone === "scrollbar") tl.scrollBy(dy);
  else if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) tl.panBy(event.shiftKey ? dx || dy : dx);
  else tl.zoomAt(place.x, Math.exp(Math.max(-1, Math.min(1, dy * 0.0022))));
}

function press(tl, event) {
  if (!tl.ready || event.button !== 0) return;
  const place = at(tl, event);
  const zone = zoneOf(tl, place);
  tl.root.focus({ preventScroll: true });
  tl.stage.setPointerCapture(event.pointerId);
  const measures = zone === "ruler" || (zone === "plot" && event.shiftKey);
  tl.dragging = { zone, measures, from: place, last: place, moved: false };
  if (measures) tl.dragging.t = snapped(tl, place);
  if (zone === "strip") centre(tl, place);
}

function move(tl, event) {
  if (!tl.ready) return;
  const place = at(tl, event);
  const drag = tl.dragging;
  if (!drag) {
    tl.setHover(zoneOf(tl, place) === "plot" || zoneOf(tl, place) === "ruler" ? place : null);
    return;
  }
  drag.moved ||= Math.hypot(place.x - drag.from.x, place.y - drag.from.y) >= CLICK_PX;
  if (drag.zone === "strip") centre(tl, place);
  else if (drag.zone === "scrollbar") tl.scrollBy(scrolled(tl, place.y - drag.last.y));
  else if (drag.moved && drag.measures) measure(tl, drag, place);
  else if (drag.moved && drag.zone === "plot") {
    tl.panBy(drag.last.x - place.x);
    tl.scrollBy(drag.last.y - place.y);
  } else if (drag.moved) tl.scrollBy(drag.last.y - place.y);
  if (drag.moved) {
    drag.last = place;
    tl.setHover(null);
  }
}

const scrolled = (tl, dy) => (dy * tl.layout.height) / tl.size.plotHeight;

function release(tl, event) {
  const drag = tl.dragging;
  tl.dragging = null;
  if (!drag) return;
  const place = at(tl, event);
  if (!drag.moved && drag.zone === "plot") tl.selectAt(place.x, place.y);
  else if (drag.moved && drag.measures) tl.sayArea();
  tl.setHover(place);
}

function drop(tl) {
  tl.dragging = null;
}

function centre(tl, { x }) {
  const { t0, t1 } = tl.limits;
  const t = t0 + ((x - stripX(tl, t0)) / tl.size.plotWidth) * (t1 - t0);
  const width = tl.view.t1 - tl.view.t0;
  tl.show({ t0: t - width / 2, t1: t + width / 2 });
}

function measure(tl, drag, place) {
  const t = snapped(tl, place);
  tl.setArea({ t0: Math.min(t, drag.t), t1: Math.max(t, drag.t) });
}

// The nearest edge of a span within SNAP_PX: on the row under the pointer, or on any row in sight.
function snapped(tl, { x, y }) {
  const axis = tl.axisTime(x);
  const reach = (SNAP_PX * (tl.view.t1 - tl.view.t0)) / tl.size.plotWidth;
  const under = tl.rowUnder(y);
  const rows = under ? [under] : rowsBetween(tl.layout, tl.scrollY, tl.scrollY + tl.size.plotHeight);
  let best = axis;
  let distance = reach;
  for (const { run, row } of rows) {
    const { origin, scale } = tl.places[run];
    const edge = (snap(tl.runs[run], row, tl.localTime(run, axis), reach / scale) - origin) * scale;
    if (edge !== axis && Math.abs(edge - axis) <= distance) {
      distance = Math.abs(edge - axis);
      best = edge;
    }
  }
  return best;
}
