// From time and rows to places on the stage and back. A Timeline is one of these.
// Three times: a run's own (ns since its start), the common axis (align), CSS pixels on the stage.

import { rowOf } from "./10_zs_core.mjs";
import { shownAt } from "./12_zs_lod.mjs";
import { placeOf, rowAt, SIZES } from "./16_zs_layout.mjs";
import { headHeight } from "./22_zs_frame.mjs";

const REACH_PX = 3;

export class Geometry {
  /** Axis time of a run's own time. */
  toAxis(run, t) {
    return (t - this.places[run].origin) * this.places[run].scale;
  }

  /** A run's own time at axis time `t`. */
  localTime(run, t) {
    return t / this.places[run].scale + this.places[run].origin;
  }

  /** CSS pixels from the left of the stage. */
  axisX(t) {
    const { t0, t1 } = this.view;
    return SIZES.gutter + ((t - t0) / (t1 - t0)) * this.size.plotWidth;
  }

  axisTime(x) {
    const { t0, t1 } = this.view;
    return t0 + ((x - SIZES.gutter) / this.size.plotWidth) * (t1 - t0);
  }

  stageX(run, t) {
    return this.axisX(this.toAxis(run, t));
  }

  /** CSS pixels from the left of the plot. */
  xOf(run, t) {
    return this.stageX(run, t) - SIZES.gutter;
  }

  stageY(contentY) {
    return contentY - this.scrollY + headHeight(this.runs.length);
  }

  placeOfRow(run, row) {
    return placeOf(this.layout, run, row);
  }

  rowUnder(y) {
    const head = headHeight(this.runs.length);
    return y < head ? null : rowAt(this.layout, y - head + this.scrollY);
  }

  trackUnder(y) {
    const content = y - headHeight(this.runs.length) + this.scrollY;
    return this.layout.memories.find((m) => m.y <= content && content < m.y + m.height) ?? null;
  }

  /** Where span `i` of a run stands on the stage, in sight or not; null if it has no row. */
  rectOf(run, i) {
    const spans = this.runs[run];
    const place = this.placeOfRow(run, rowOf(spans, i));
    if (!place) return null;
    const x = this.stageX(run, spans.start[i]);
    const right = this.stageX(run, spans.start[i] + spans.duration[i]);
    return { x, y: this.stageY(place.y), width: right - x, height: place.height };
  }

  /** What stands at (x, y) of the stage: {run, row, span} or {run, row, shares, t0, t1}, or null. */
  shown(x, y) {
    const place = this.rowUnder(y);
    if (!place || x < SIZES.gutter || x >= SIZES.gutter + this.size.plotWidth) return null;
    const { run, row } = place;
    const { scale } = this.places[run];
    const px = (this.view.t1 - this.view.t0) / this.layers.plot.canvas.width / scale;
    const t = this.localTime(run, this.axisTime(x));
    const left = this.localTime(run, this.view.t0);
    const column = left + Math.floor((t - left) / px) * px;
    const found = shownAt(this.runs[run], row, t, column, px, REACH_PX * this.dpr * px);
    return found && { run, row, ...found };
  }

  middleX() {
    return SIZES.gutter + this.size.plotWidth / 2;
  }

  pointerX() {
    return this.hover ? this.hover.x : this.middleX();
  }
}
