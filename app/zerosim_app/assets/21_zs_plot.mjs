// Draws the plot: spans through one pixel buffer, then labels and lines over it.

import { opField } from "./10_zs_core.mjs";
import { eachWide } from "./12_zs_lod.mjs";
import { makeScratch, paintRow } from "./14_zs_paint.mjs";
import { chooseSeries, memoryInk, paintMemory } from "./15_zs_memory.mjs";
import { rowsBetween } from "./16_zs_layout.mjs";

const MARGIN = 64; // CSS pixels above and below the viewport, for rows cut by its edges
const LABEL_FROM = 22;
const LABEL_PAD = 5;
const MAX_LABELS = 1500;

/** Draws what changed since the last frame: moved by whole pixels, only the new columns are painted. */
export function drawPlot(tl) {
  const plot = (tl.plot ??= { widths: new Map() });
  fitBuffer(tl, plot);
  const { pixels, stride } = plot;
  const px = (tl.view.t1 - tl.view.t0) / stride;
  const key = [tl.layoutVersion, tl.scrollY, tl.theme, tl.memoryRank, stride, plot.lines].join();
  const dx = key === plot.key ? shiftOf(plot, tl.view.t0, px, stride) : null;
  let columns = [0, stride];
  if (dx === null) {
    pixels.fill(0);
    plot.phase = 0;
  } else {
    columns = moveBuffer(pixels, stride, dx);
    plot.phase += dx;
  }
  Object.assign(plot, { key, px, t0: tl.view.t0 });
  if (columns[1] > columns[0]) paintAll(tl, plot, px, columns);
  plot.context.putImageData(plot.image, 0, -plot.margin);
  drawOver(tl, plot, px);
}

function fitBuffer(tl, plot) {
  const { canvas } = tl.layers.plot;
  const margin = Math.round(MARGIN * tl.dpr);
  const lines = canvas.height + 2 * margin;
  if (plot.stride === canvas.width && plot.lines === lines) return;
  const image = new ImageData(canvas.width, lines);
  const pixels = new Uint32Array(image.data.buffer);
  const nRoles = tl.runs[0].nRoles;
  Object.assign(plot, { image, pixels, stride: canvas.width, lines, margin, key: null });
  plot.scratch = makeScratch(canvas.width, nRoles);
  plot.low = new Float64Array(canvas.width);
  plot.high = new Float64Array(canvas.width);
  plot.context = tl.layers.plot.context;
}

// By how many whole pixels the picture moved, or null if it must be painted anew.
function shiftOf(plot, t0, px, stride) {
  if (Math.abs(px - plot.px) > px * 1e-9) return null;
  const moved = (t0 - plot.t0) / px;
  const dx = Math.round(moved);
  return Math.abs(moved - dx) < 1e-3 && Math.abs(dx) < stride ? dx : null;
}

function moveBuffer(pixels, stride, dx) {
  if (dx === 0) return [0, 0];
  if (dx > 0) pixels.copyWithin(0, dx);
  else pixels.copyWithin(-dx, 0);
  const [xa, xb] = dx > 0 ? [stride - dx, stride] : [0, -dx];
  for (let at = 0; at < pixels.length; at += stride) pixels.fill(0, at + xa, at + xb);
  return [xa, xb];
}

function paintAll(tl, plot, px, [xa, xb]) {
  const { dpr, runs, places, layout, scrollY, inks } = tl;
  const top = scrollY - MARGIN;
  const views = runs.map((_, k) => ({
    t0: tl.view.t0 / places[k].scale + places[k].origin,
    px: px / places[k].scale,
    phase: plot.phase,
  }));
  const down = (y) => Math.round((y - top) * dpr);
  const viewport = tl.size.plotHeight;
  for (const place of rowsBetween(layout, scrollY, scrollY + viewport)) {
    const y = down(place.y);
    const height = down(place.y + place.height) - y;
    paintRow(plot, plot.scratch, runs[place.run], place.row, views[place.run], inks, { y, height, xa, xb });
  }
  for (const track of layout.memories) {
    if (track.y + track.height <= scrollY || track.y >= scrollY + viewport) continue;
    const series = chooseSeries(runs[track.run], tl.memoryRank);
    const y = down(track.y);
    const place = { y, height: down(track.y + track.height) - y, xa, xb, low: plot.low, high: plot.high };
    paintMemory(plot, series, views[track.run], memoryInk(inks.runs[track.run % 2], inks), place);
  }
}

function drawOver(tl, plot, px) {
  const { context } = plot;
  context.setTransform(tl.dpr, 0, 0, tl.dpr, 0, 0);
  drawBands(tl, context);
  drawSteps(tl, context);
  drawLabels(tl, plot, context, px);
  context.setTransform(1, 0, 0, 1, 0, 0);
}

function drawBands(tl, context) {
  for (const band of tl.layout.bands) {
    const y = band.y - tl.scrollY;
    if (y + band.height < 0 || y > tl.size.plotHeight) continue;
    context.fillStyle = tl.inks.band;
    context.fillRect(0, y, tl.size.plotWidth, band.height);
    runLine(context, tl, band.run, y + band.height - 1);
    context.font = `12px ${tl.font}`;
    context.textBaseline = "middle";
    context.fillStyle = tl.inks.muted;
    context.fillText(tl.bandText(band.run), 8, y + band.height / 2, tl.size.plotWidth - 16);
  }
}

// The first run's line is solid, the second's dashed: runs are told apart without colour too.
function runLine(context, tl, run, y) {
  context.strokeStyle = tl.inks.runs[run % 2];
  context.lineWidth = 2;
  context.setLineDash(run % 2 ? [6, 4] : []);
  context.beginPath();
  context.moveTo(0, y);
  context.lineTo(tl.size.plotWidth, y);
  context.stroke();
  context.setLineDash([]);
}

function drawSteps(tl, context) {
  context.strokeStyle = tl.inks.muted;
  context.lineWidth = 1;
  context.setLineDash([2, 3]);
  context.beginPath();
  tl.layout.bands.forEach((band, k) => {
    const top = band.y + band.height - tl.scrollY;
    const bottom = (tl.layout.bands[k + 1]?.y ?? tl.layout.height) - 4 - tl.scrollY;
    const steps = tl.runs[band.run].about.steps;
    const edges = new Set(steps.length > 400 ? [] : steps.flatMap(([, a, b]) => [a, b]));
    for (const t of edges) {
      const x = Math.round(tl.xOf(band.run, t)) + 0.5;
      if (x < 0 || x > tl.size.plotWidth) continue;
      context.moveTo(x, Math.max(0, top));
      context.lineTo(x, bottom);
    }
  });
  context.stroke();
  context.setLineDash([]);
}

function drawLabels(tl, plot, context, px) {
  const { layout, scrollY, size, dpr } = tl;
  context.textBaseline = "middle";
  context.textAlign = "center";
  let left = MAX_LABELS;
  for (const place of rowsBetween(layout, scrollY, scrollY + size.plotHeight)) {
    if (place.height < 9) continue;
    const points = place.height >= 15 ? 11 : place.height >= 11 ? 10 : 8.5;
    context.font = `500 ${points}px ${tl.font}`;
    const run = tl.runs[place.run];
    const { origin, scale } = tl.places[place.run];
    const t0 = tl.view.t0 / scale + origin;
    const middle = place.y - scrollY + place.height / 2 + 0.5;
    eachWide(run, place.row, t0, px / scale, plot.stride, LABEL_FROM * dpr, (i, a, b) => {
      if (left-- > 0) label(tl, plot, context, run, i, solidStart(run, i, t0, px / scale, a), b, middle, points);
    });
  }
  context.textAlign = "start";
}

function solidStart(run, i, t0, px, a) {
  const c = run.collective[i];
  const transfer = c >= 0 ? run.transfer[c] : NaN;
  return transfer > run.start[i] ? Math.max(a, Math.round((transfer - t0) / px)) : a;
}

function label(tl, plot, context, run, i, a, b, middle, points) {
  const from = Math.max(0, a / tl.dpr);
  const to = Math.min(tl.size.plotWidth, b / tl.dpr);
  const text = fitted(plot, context, opField(run, i, "name"), to - from - LABEL_PAD, points);
  if (!text) return;
  context.fillStyle = tl.inks.onRole[run.role[i]];
  context.fillText(text, (from + to) / 2, middle);
}

// Shortened by the mean width of its letters: measuring every candidate would cost more than drawing.
function fitted(plot, context, text, room, points) {
  const key = `${points}|${text}`;
  let width = plot.widths.get(key);
  if (width === undefined) {
    if (plot.widths.size > 5000) plot.widths.clear();
    width = context.measureText(text).width;
    plot.widths.set(key, width);
  }
  if (width <= room) return text;
  const letters = Math.floor((room / width) * text.length) - 1;
  return letters >= 4 ? shortened(text, letters) : "";
}

// Of a module path the end tells layers apart: Flayers.12 becomes F…s.12.
function shortened(text, letters) {
  return text.includes(".") ? `${text[0]}…${text.slice(1 - letters)}` : `${text.slice(0, letters)}…`;
}
