// Draws what frames the plot: the summary strip of all ranks, the ruler, the names of the rows.

import { percentTicks, ticks, mainStep } from "./11_zs_time.mjs";
import { addShares } from "./12_zs_lod.mjs";
import { chooseSeries, counterName, scaleTop } from "./15_zs_memory.mjs";
import { SIZES, laneName } from "./16_zs_layout.mjs";
import { membersIn } from "./19_zs_area.mjs";
import { formatBytes } from "./11_zs_time.mjs";

const TICK_EVERY = 104; // CSS pixels

/** The head: one summary strip a run with the window shown, and the ruler below. */
export function drawHead(tl) {
  const { context, canvas } = tl.layers.head;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.setTransform(tl.dpr, 0, 0, tl.dpr, 0, 0);
  tl.runs.forEach((_, k) => drawStrip(tl, context, k));
  drawWindow(tl, context);
  drawRuler(tl, context);
}

const stripTop = (k) => 2 + k * (SIZES.strip + SIZES.stripGap);

/** Height of the head for `n` runs. */
export function headHeight(n) {
  return stripTop(n) + SIZES.ruler + 2;
}

/** Height of the strips alone. */
export function stripsHeight(n) {
  return stripTop(n) - SIZES.stripGap;
}

/** x of axis time `t` on the strips, CSS pixels from the stage's left. */
export function stripX(tl, t) {
  const { t0, t1 } = tl.limits;
  return SIZES.gutter + ((t - t0) / (t1 - t0)) * tl.size.plotWidth;
}

function drawStrip(tl, context, k) {
  const y = stripTop(k);
  context.drawImage(stripPicture(tl, k), SIZES.gutter, y, tl.size.plotWidth, SIZES.strip);
  context.fillStyle = tl.inks.muted;
  context.font = `11px ${tl.font}`;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const name = tl.runs.length > 1 ? `${"AB"[k]} whole run` : "whole run";
  context.fillText(name, SIZES.gutter - 10, y + SIZES.strip / 2 + 0.5);
  context.textAlign = "left";
}

// Above, the share of time in which the ranks compute; below, in which they communicate.
function stripPicture(tl, k) {
  const key = [tl.layoutVersion, tl.theme, tl.layers.head.canvas.width, JSON.stringify(tl.places)].join();
  const cached = tl.strips.get(k);
  if (cached?.key === key) return cached.picture;
  const width = Math.max(1, Math.round(tl.size.plotWidth * tl.dpr));
  const height = Math.round(SIZES.strip * tl.dpr);
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const upper = Math.round(height * 0.62);
  fillStrip(tl, k, pixels, width, 0, upper - 1, "compute");
  fillStrip(tl, k, pixels, width, upper, height - upper, "communication");
  const picture = document.createElement("canvas");
  [picture.width, picture.height] = [width, height];
  picture.getContext("2d").putImageData(image, 0, 0);
  tl.strips.set(k, { key, picture });
  return picture;
}

function fillStrip(tl, k, pixels, width, top, height, wanted) {
  const run = tl.runs[k];
  const { origin, scale } = tl.places[k];
  const t0 = tl.limits.t0 / scale + origin;
  const px = (tl.limits.t1 - tl.limits.t0) / scale / width;
  const mean = new Float64Array(width * run.nRoles);
  let weights = 0;
  run.about.rows.forEach((row, r) => {
    if (run.rowClass[r] !== wanted) return;
    const weight = membersIn(run.about.groups[row.group]);
    const acc = new Float64Array(width * run.nRoles);
    addShares(run, r, t0, px, 0, width, Infinity, acc, new Uint32Array(width));
    for (let at = 0; at < acc.length; at++) mean[at] += acc[at] * weight;
    if (row.sub === 0) weights += weight;
  });
  for (let x = 0; x < width; x++) stripColumn(tl.inks, pixels, width, x, top, height, mean, run.nRoles, px * weights);
}

function stripColumn(inks, pixels, width, x, top, height, mean, nRoles, whole) {
  let level = 0;
  let sum = 0;
  for (let role = 0; role < nRoles; role++) {
    sum += (mean[x * nRoles + role] / whole) * height;
    for (; level + 0.5 <= sum && level < height; level++)
      pixels[(top + height - 1 - level) * width + x] = inks.rolePixel[role];
  }
  for (; level < height; level++) pixels[(top + height - 1 - level) * width + x] = inks.bedPixel;
}

function drawWindow(tl, context) {
  const top = stripTop(0) - 2;
  const height = stripsHeight(tl.runs.length) + 3;
  const a = stripX(tl, tl.view.t0);
  const b = Math.max(a + 3, stripX(tl, tl.view.t1));
  context.globalAlpha = 0.62;
  context.fillStyle = tl.inks.background;
  context.fillRect(SIZES.gutter, top, a - SIZES.gutter, height);
  context.fillRect(b, top, SIZES.gutter + tl.size.plotWidth - b, height);
  context.globalAlpha = 1;
  context.strokeStyle = tl.inks.ink;
  context.lineWidth = 1;
  context.strokeRect(Math.round(a) + 0.5, top + 0.5, Math.round(b - a) - 1, height - 1);
}

/** The ticks of the present view. */
export function viewTicks(tl) {
  const { t0, t1 } = tl.view;
  const count = Math.max(2, tl.size.plotWidth / TICK_EVERY);
  if (tl.scale !== "norm" || tl.runs.length < 2) return ticks(t0, t1, count);
  const { t0: a, t1: b } = mainStep(tl.runs[0].about);
  return percentTicks(t0, t1, count, Math.max(1, b - a));
}

function drawRuler(tl, context) {
  const top = headHeight(tl.runs.length) - SIZES.ruler;
  const { ticks: marks, anchor, step } = viewTicks(tl);
  const { plotWidth } = tl.size;
  const x = (t) => SIZES.gutter + ((t - tl.view.t0) / (tl.view.t1 - tl.view.t0)) * plotWidth;
  context.strokeStyle = tl.inks.grid;
  context.beginPath();
  context.moveTo(0, top + SIZES.ruler - 0.5);
  context.lineTo(SIZES.gutter + plotWidth, top + SIZES.ruler - 0.5);
  context.stroke();
  context.strokeStyle = context.fillStyle = tl.inks.muted;
  context.font = `11px ${tl.font}`;
  context.textBaseline = "middle";
  context.beginPath();
  for (const { t, label } of marks) {
    const at = Math.round(x(t)) + 0.5;
    context.moveTo(at, top + SIZES.ruler - 7);
    context.lineTo(at, top + SIZES.ruler - 1);
    const room = context.measureText(label).width;
    if (at + room + 4 < SIZES.gutter + plotWidth) context.fillText(label, at + 4, top + SIZES.ruler / 2 - 1);
  }
  for (let t = Math.ceil((tl.view.t0 * 5) / step) * (step / 5); t < tl.view.t1; t += step / 5) {
    const at = Math.round(x(t)) + 0.5;
    context.moveTo(at, top + SIZES.ruler - 4);
    context.lineTo(at, top + SIZES.ruler - 1);
  }
  context.stroke();
  context.textAlign = "right";
  context.fillText(anchor ? anchor.label : "time", SIZES.gutter - 10, top + SIZES.ruler / 2);
  context.textAlign = "left";
}

/** The names beside the rows: run, ranks, streams, memory. */
export function drawGutter(tl) {
  const { context, canvas } = tl.layers.gutter;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.setTransform(tl.dpr, 0, 0, tl.dpr, 0, -tl.scrollY * tl.dpr);
  context.textBaseline = "middle";
  drawBadges(tl, context);
  for (const group of tl.layout.groups) drawGroupName(tl, context, group);
  drawLaneNames(tl, context);
  for (const track of tl.layout.memories) drawMemoryName(tl, context, track);
}

function drawBadges(tl, context) {
  for (const band of tl.layout.bands) {
    context.fillStyle = tl.inks.band;
    context.fillRect(0, band.y, SIZES.gutter, band.height);
    context.fillStyle = tl.inks.runs[band.run % 2];
    context.fillRect(0, band.y, 4, band.height);
    context.font = `600 12px ${tl.font}`;
    context.fillStyle = tl.inks.ink;
    const badge = tl.runs.length > 1 ? `${"AB"[band.run]}  ` : "";
    clippedText(context, badge + tl.runName(band.run), 12, band.y + band.height / 2, SIZES.gutter - 16);
  }
}

function clippedText(context, text, x, y, room) {
  let shown = text;
  while (shown.length > 3 && context.measureText(shown === text ? text : `${shown}…`).width > room)
    shown = shown.slice(0, -1);
  context.fillText(shown === text ? text : `${shown}…`, x, y);
}

function drawGroupName(tl, context, { run, group, y, height, lane }) {
  if (outside(tl, y, height) || height < 8) return;
  const label = tl.runs[run].about.groups[group].label;
  const narrow = height < 13;
  context.font = `600 ${narrow ? 9 : 11}px ${tl.font}`;
  context.fillStyle = tl.inks.ink;
  const showsLanes = lane >= 9;
  const at = showsLanes ? y + Math.min(lane / 2, 12) + 0.5 : y + height / 2;
  clippedText(context, label, 12, at, showsLanes ? SIZES.gutter - 108 : SIZES.gutter - 20);
}

function drawLaneNames(tl, context) {
  context.fillStyle = tl.inks.muted;
  context.textAlign = "right";
  for (const { run, row, y, height } of tl.layout.rows) {
    if (height < 9 || outside(tl, y, height)) continue;
    context.font = `${height >= 13 ? 11 : 9}px ${tl.font}`;
    const { lane, sub } = tl.runs[run].about.rows[row];
    context.fillText(laneName(lane, sub), SIZES.gutter - 10, y + height / 2 + 0.5, 84);
  }
  context.textAlign = "left";
}

function drawMemoryName(tl, context, { run, y, height }) {
  const series = chooseSeries(tl.runs[run], tl.memoryRank);
  context.fillStyle = tl.inks.ink;
  context.font = `600 11px ${tl.font}`;
  context.fillText("memory", 12, y + 8);
  context.fillStyle = tl.inks.muted;
  context.font = `11px ${tl.font}`;
  context.fillText(`${counterName(series)}, rank ${series.rank}`, 12, y + 23);
  context.fillText(`peak ${formatBytes(series.peak)}`, 12, y + 38);
  context.textAlign = "right";
  context.fillText(formatBytes(scaleTop(series.peak)), SIZES.gutter - 10, y + 8);
  context.fillText("0", SIZES.gutter - 10, y + height - 6);
  context.textAlign = "left";
}

function outside(tl, y, height) {
  return y + height < tl.scrollY || y > tl.scrollY + tl.size.plotHeight;
}
