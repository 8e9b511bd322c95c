// Pixels: spans, gaps, waiting, share stacks, the memory track, and painting only what is new.

import assert from "node:assert/strict";
import { test } from "node:test";
import { contrast, inksOf, mix, pixelOf, textOn } from "../../../app/zerosim_app/assets/13_zs_ink.mjs";
import { makeScratch, paintRow } from "../../../app/zerosim_app/assets/14_zs_paint.mjs";
import * as memory from "../../../app/zerosim_app/assets/15_zs_memory.mjs";
import { buildRun, randoms, randomRow } from "./make_run.mjs";

function painted(run, { t0 = 0, px = 1, width = 40, height = 10, phase = 0, row = 0, xa = 0, xb = width } = {}) {
  const inks = inksOf(run.about, "light");
  const target = { pixels: new Uint32Array(width * height), stride: width };
  const scratch = makeScratch(width, run.nRoles);
  paintRow(target, scratch, run, row, { t0, px, phase }, inks, { y: 0, height, xa, xb });
  const column = (x) => Array.from({ length: height }, (_, y) => target.pixels[y * width + x]);
  return { ...target, inks, scratch, column, line: (y) => [...target.pixels.subarray(y * width, (y + 1) * width)] };
}

test("a span fills its pixels on every line, with a gap of one pixel after it", () => {
  const { line, inks } = painted(buildRun([[[{ start: 5, duration: 10, kind: 1 }]]]));
  const [bed, blue] = [inks.bedPixel, inks.rolePixel[1]];
  const expected = [...Array(5).fill(bed), ...Array(9).fill(blue), ...Array(26).fill(bed)];
  assert.deepEqual(line(0), expected);
  assert.deepEqual(line(9), expected);
});

test("narrow spans have no gap, or they would look idle", () => {
  const spans = [0, 3, 6].map((start) => ({ start, duration: 3 }));
  const { line, inks } = painted(buildRun([[spans]]));
  assert.equal(line(0).filter((pixel) => pixel === inks.rolePixel[0]).length, 9);
});

test("a span that begins before the window and ends after it fills all of it", () => {
  const { line, inks } = painted(buildRun([[[{ start: 0, duration: 1000 }]]]), { t0: 100 });
  assert.ok(line(5).every((pixel) => pixel === inks.rolePixel[0]));
});

test("the height of a share is its exact share, the last pixel blended", () => {
  const { column, inks } = painted(buildRun([[[{ start: 0, duration: 525 }]]]), { px: 1000, width: 4 });
  const full = column(0).filter((pixel) => pixel === inks.rolePixel[0]).length;
  assert.equal(full, 5);
  assert.equal(column(0)[4], inks.blend[0 * inks.blendSteps + 4]);
  assert.equal(column(0)[3], inks.bedPixel);
  assert.equal(column(0)[9], inks.rolePixel[0]);
  assert.equal(column(1)[9], inks.bedPixel);
});

test("roles are stacked from below in a fixed order", () => {
  const run = buildRun([[[{ start: 0, duration: 3, kind: 1 }, { start: 5, duration: 4, kind: 0 }]]]);
  const { column, inks } = painted(run, { px: 10, width: 4 });
  assert.deepEqual(column(0).slice(3), [...Array(3).fill(inks.rolePixel[1]), ...Array(4).fill(inks.rolePixel[0])]);
});

test("a pixel busy throughout is full, no more and no less", () => {
  const run = buildRun([[randomRow(randoms(4), 3000, 1, 3, 1)]]);
  const { column, inks } = painted(run, { px: 50, width: 40 });
  for (let x = 0; x < 40; x++) assert.ok(column(x).every((pixel) => pixel === inks.rolePixel[0]), `pixel ${x}`);
});

test("waiting for the last rank is hatched, the transfer is solid", () => {
  const run = buildRun([[[{ start: 0, duration: 30, kind: 2, collective: 0 }]]], { transfers: [20] });
  const { line, inks } = painted(run);
  const waits = new Set([inks.palePixel[2], inks.hatchPixel[2]]);
  assert.ok(line(3).slice(0, 20).every((pixel) => waits.has(pixel)));
  assert.ok(line(3).slice(20, 29).every((pixel) => pixel === inks.rolePixel[2]));
  assert.ok(line(0).includes(inks.hatchPixel[2]));
  assert.notDeepEqual(line(0), line(1));
});

test("without a known last arrival nothing is hatched", () => {
  const run = buildRun([[[{ start: 0, duration: 30, kind: 2, collective: 0 }]]], { transfers: [NaN] });
  const { line, inks } = painted(run);
  assert.ok(line(3).slice(0, 29).every((pixel) => pixel === inks.rolePixel[2]));
});

test("painting left and right halves gives the same picture as painting all at once", () => {
  const random = randoms(17);
  const run = buildRun([[randomRow(random, 600, 4, 30, 12)]]);
  const whole = painted(run, { px: 8, width: 400 });
  const target = { pixels: new Uint32Array(400 * 10), stride: 400 };
  const scratch = makeScratch(400, run.nRoles);
  for (const [xa, xb] of [[250, 400], [0, 250]])
    paintRow(target, scratch, run, 0, { t0: 0, px: 8, phase: 0 }, whole.inks, { y: 0, height: 10, xa, xb });
  assert.deepEqual(target.pixels, whole.pixels);
});

test("moving the picture and painting the new columns gives the picture painted anew, hatch and all", () => {
  const random = randoms(23);
  const row = randomRow(random, 300, 3, 60, 20).map((span, k) => ({ ...span, collective: k }));
  const run = buildRun([[row]], { transfers: row.map((span) => span.start + span.duration / 2) });
  const width = 200;
  const before = painted(run, { t0: 1000, px: 4, width });
  const dx = 37;
  before.pixels.copyWithin(0, dx);
  for (let y = 0; y < 10; y++) before.pixels.fill(0, (y + 1) * width - dx, (y + 1) * width);
  const view = { t0: 1000 + dx * 4, px: 4, phase: dx };
  const place = { y: 0, height: 10, xa: width - dx, xb: width };
  paintRow(before, before.scratch, run, 0, view, before.inks, place);
  const anew = painted(run, { ...view, width });
  assert.deepEqual(before.pixels, anew.pixels);
});

test("scratch memory is clean after each row", () => {
  const run = buildRun([[randomRow(randoms(6), 500, 4, 4, 4)]]);
  const { scratch } = painted(run, { px: 20, width: 100 });
  assert.ok(scratch.acc.every((ns) => ns === 0));
  assert.ok(scratch.touched.every((bits) => bits === 0));
});

test("a pixel is opaque and its channels stand in the order of the buffer", () => {
  assert.equal(pixelOf("#102030"), 0xff302010);
  assert.equal(mix("#000000", "#ffffff", 0.5), "#808080");
  assert.equal(mix("#123456", "#ffffff", 1), "#123456");
});

test("the ink on a colour is the one that reads better", () => {
  assert.equal(textOn("#06168d"), "#ffffff");
  assert.equal(textOn("#59ebfb"), "#111111");
  assert.ok(Math.abs(contrast("#000000", "#ffffff") - 21) < 1e-9);
  assert.equal(contrast("#41619e", "#41619e"), 1);
});

test("both themes have every colour", () => {
  const { about } = buildRun([[[]]]);
  for (const theme of ["light", "dark"]) {
    const inks = inksOf(about, theme);
    assert.equal(inks.theme, theme);
    assert.equal(inks.roles.length, inks.onRole.length);
    assert.equal(inks.background, about.theme.background[theme]);
    assert.ok(inks.onRole.every((ink, k) => contrast(ink, inks.roles[k]) >= 4.5));
  }
});

const STEPS = [[0, 100], [10, 300], [12, 200], [50, 400]];
const withMemory = (records) => buildRun([[[]], [[]]], { samples: STEPS, memory: records });
const record = (rank, peak, offset = 0, n = 4) => ({ rank, counter: "memory.allocated", offset, n, peak });

test("the range in a pixel includes the value that was there before it", () => {
  const series = memory.seriesOf(withMemory([record(0, 400)]), record(0, 400));
  const [low, high] = [new Float64Array(4), new Float64Array(4)];
  memory.envelope(series, 5, 10, 0, 4, low, high);
  assert.deepEqual([...low], [100, 200, 200, 200]);
  assert.deepEqual([...high], [300, 200, 200, 200]);
});

test("before the first sample nothing is known", () => {
  const series = memory.seriesOf(withMemory([record(0, 400)]), record(0, 400));
  const [low, high] = [new Float64Array(2), new Float64Array(2)];
  memory.envelope(series, -20, 10, 0, 2, low, high);
  assert.deepEqual([...high], [NaN, NaN]);
  assert.equal(memory.valueAt(series, -1), null);
  assert.equal(memory.valueAt(series, 0), 100);
  assert.equal(memory.valueAt(series, 49.9), 200);
});

test("the track shows the rank asked for, else the one with the highest peak", () => {
  const run = withMemory([record(0, 300, 0, 2), record(1, 400, 2, 2)]);
  assert.equal(memory.chooseSeries(run, null).rank, 1);
  assert.equal(memory.chooseSeries(run, 0).rank, 0);
  assert.deepEqual([...memory.chooseSeries(run, 1).value], [200, 400]);
  assert.equal(memory.chooseSeries(withMemory([]), 0), null);
});

test("a counter is called by what it counts", () => {
  assert.equal(memory.counterName({ counter: "memory.in_use" }), "in use");
  assert.equal(memory.counterName({ counter: "memory.allocated" }), "allocated");
});

test("the scale ends on a round number above the peak", () => {
  assert.equal(memory.scaleTop(10.9e9), 15e9);
  assert.equal(memory.scaleTop(400), 400);
  assert.equal(memory.scaleTop(0), 1);
});

test("the track paints a line at the highest value and an area below the lowest", () => {
  const run = withMemory([record(0, 400)]);
  const inks = inksOf(run.about, "light");
  const colours = memory.memoryInk(inks.runs[0], inks);
  const target = { pixels: new Uint32Array(4 * 22), stride: 4 };
  const place = { y: 0, height: 22, xa: 0, xb: 4, low: new Float64Array(4), high: new Float64Array(4) };
  memory.paintMemory(target, memory.chooseSeries(run, 0), { t0: 5, px: 10 }, colours, place);
  const column = (x) => Array.from({ length: 22 }, (_, y) => target.pixels[y * 4 + x]);
  assert.equal(column(1).indexOf(colours.line), 10);
  assert.equal(column(0).indexOf(colours.line), 5);
  assert.equal(column(0)[12], colours.band);
  assert.equal(column(0)[21], colours.area);
  assert.equal(column(1)[0], colours.bed);
});
