// Draws what moves over the plot: pointer, selection, links, the measured area, the playback line.

import { membersOf, rowOf, spanNear } from "./10_zs_core.mjs";
import { formatNs } from "./11_zs_time.mjs";
import { rowsBetween } from "./16_zs_layout.mjs";
import { flowsOf } from "./17_zs_flow.mjs";
import { headHeight } from "./22_zs_frame.mjs";
import { SIZES } from "./16_zs_layout.mjs";

const MAX_OUTLINES = 4000;

/** Redraws the overlay; the spans below it are left alone. */
export function drawOverlay(tl) {
  const { context, canvas } = tl.layers.over;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.setTransform(tl.dpr, 0, 0, tl.dpr, 0, 0);
  const head = headHeight(tl.runs.length);
  context.save();
  context.beginPath();
  context.rect(SIZES.gutter, head, tl.size.plotWidth, tl.size.plotHeight);
  context.clip();
  if (tl.area) drawArea(tl, context, head);
  if (tl.selected) drawSelected(tl, context);
  if (tl.hover?.span !== undefined) outline(tl, context, tl.hover.run, tl.hover.span, 1.5);
  if (tl.play.at !== null) drawUnderCursor(tl, context);
  context.restore();
  if (tl.hover && !tl.dragging) drawPointer(tl, context, head);
  if (tl.play.at !== null) drawCursor(tl, context, head);
  drawScrollbar(tl, context, head);
}

function outline(tl, context, run, i, width) {
  const rect = tl.rectOf(run, i);
  if (!rect) return;
  const w = Math.max(2, rect.width);
  context.strokeStyle = tl.inks.background;
  context.lineWidth = width + 2;
  context.strokeRect(rect.x, rect.y, w, rect.height);
  context.strokeStyle = tl.inks.ink;
  context.lineWidth = width;
  context.strokeRect(rect.x, rect.y, w, rect.height);
}

function drawSelected(tl, context) {
  const { run, span } = tl.selected;
  const members = membersOf(tl.runs[run], span).slice(0, MAX_OUTLINES);
  if (members.length > 1) drawLink(tl, context, run, members);
  for (const member of members) if (member !== span) outline(tl, context, run, member, 1.5);
  for (const [from, to] of flowsOf(tl.runs[run], span)) drawArrow(tl, context, run, from, to);
  outline(tl, context, run, span, 2.5);
}

// A line through the moment at which the last member arrived, from the first rank to the last.
function drawLink(tl, context, run, members) {
  const { transfer, collective, start } = tl.runs[run];
  const met = transfer[collective[members[0]]];
  const moment = Number.isNaN(met) ? Math.max(...members.map((i) => start[i])) : met;
  const x = Math.round(tl.stageX(run, moment)) + 0.5;
  const rows = members.map((i) => tl.placeOfRow(run, rowOf(tl.runs[run], i))).filter((p) => p);
  if (rows.length < 2) return;
  const y = (place) => tl.stageY(place.y + place.height / 2);
  context.strokeStyle = context.fillStyle = tl.inks.ink;
  context.lineWidth = 1.5;
  context.setLineDash([5, 3]);
  context.beginPath();
  context.moveTo(x, Math.min(...rows.map(y)));
  context.lineTo(x, Math.max(...rows.map(y)));
  context.stroke();
  context.setLineDash([]);
}

// From the edge of the feeding span that faces the fed one, to the fed one's.
function drawArrow(tl, context, run, from, to) {
  const [a, b] = [tl.rectOf(run, from), tl.rectOf(run, to)];
  if (!a || !b) return;
  const up = b.y < a.y ? -1 : 1;
  const x0 = a.x + a.width - Math.min(8, a.width / 2);
  const x1 = b.x + Math.min(8, b.width / 2);
  const y0 = up < 0 ? a.y : a.y + a.height;
  const y1 = up < 0 ? b.y + b.height : b.y;
  const bend = Math.max(10, Math.abs(y1 - y0) / 2) * up;
  for (const [colour, width, head] of [[tl.inks.background, 5, 7], [tl.inks.ink, 2, 5]]) {
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0, y0 + bend, x1, y1 - bend, x1, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1 + 4 * up);
    context.lineTo(x1 - head, y1 - 5 * up);
    context.lineTo(x1 + head, y1 - 5 * up);
    context.fill();
  }
}

function drawArea(tl, context, head) {
  const [a, b] = [tl.axisX(tl.area.t0), tl.axisX(tl.area.t1)];
  context.globalAlpha = 0.13;
  context.fillStyle = tl.inks.ink;
  context.fillRect(a, head, b - a, tl.size.plotHeight);
  context.globalAlpha = 1;
  context.strokeStyle = tl.inks.ink;
  context.lineWidth = 1;
  context.beginPath();
  for (const x of [a, b]) {
    context.moveTo(Math.round(x) + 0.5, head);
    context.lineTo(Math.round(x) + 0.5, head + tl.size.plotHeight);
  }
  context.stroke();
  tag(tl, context, formatNs(tl.area.t1 - tl.area.t0), (a + b) / 2, head + 12);
}

function tag(tl, context, text, x, y) {
  context.font = `600 11px ${tl.font}`;
  const width = context.measureText(text).width + 12;
  const left = Math.min(Math.max(x - width / 2, SIZES.gutter), SIZES.gutter + tl.size.plotWidth - width);
  context.fillStyle = tl.inks.ink;
  context.beginPath();
  context.roundRect(left, y - 9, width, 18, 4);
  context.fill();
  context.fillStyle = tl.inks.background;
  context.textBaseline = "middle";
  context.fillText(text, left + 6, y + 0.5);
}

function drawPointer(tl, context, head) {
  const x = Math.round(tl.hover.x) + 0.5;
  if (x < SIZES.gutter || x > SIZES.gutter + tl.size.plotWidth) return;
  context.strokeStyle = tl.inks.muted;
  context.globalAlpha = 0.55;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x, head - 6);
  context.lineTo(x, head + tl.size.plotHeight);
  context.stroke();
  context.globalAlpha = 1;
}

function drawCursor(tl, context, head) {
  const x = tl.axisX(tl.play.at);
  if (x < SIZES.gutter - 1 || x > SIZES.gutter + tl.size.plotWidth + 1) return;
  context.strokeStyle = tl.inks.ink;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(x, head - 4);
  context.lineTo(x, head + tl.size.plotHeight);
  context.stroke();
  tag(tl, context, formatNs(tl.play.at), x, head - SIZES.ruler / 2);
}

function drawUnderCursor(tl, context) {
  for (const { run, span } of tl.spansAt(tl.play.at)) {
    const rect = tl.rectOf(run, span);
    if (rect && rect.width >= 2) outline(tl, context, run, span, 1.5);
  }
}

/** Spans at axis time `t` on the rows in sight: `[{run, row, span}]`. */
export function spansAt(tl, t) {
  const found = [];
  for (const place of rowsBetween(tl.layout, tl.scrollY, tl.scrollY + tl.size.plotHeight)) {
    const span = spanNear(tl.runs[place.run], place.row, tl.localTime(place.run, t), 0);
    if (span >= 0) found.push({ run: place.run, row: place.row, span });
  }
  return found;
}

function drawScrollbar(tl, context, head) {
  const { plotHeight, plotWidth } = tl.size;
  if (tl.layout.height <= plotHeight) return;
  const height = Math.max(24, (plotHeight * plotHeight) / tl.layout.height);
  const room = plotHeight - height;
  const y = head + (tl.scrollY / (tl.layout.height - plotHeight)) * room;
  context.fillStyle = tl.inks.muted;
  context.globalAlpha = 0.5;
  context.beginPath();
  context.roundRect(SIZES.gutter + plotWidth + 2, y, SIZES.scrollbar - 4, height, 3);
  context.fill();
  context.globalAlpha = 1;
}
