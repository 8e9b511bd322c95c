// The axis: zoom, pan, ticks, numbers, and two runs on it.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as time from "../../../app/zerosim_app/assets/11_zs_time.mjs";
import { buildRun } from "./make_run.mjs";

const LIMITS = { t0: 0, t1: 1000 };

test("zooming keeps the time under the pointer where it is", () => {
  assert.deepEqual(time.zoom({ t0: 0, t1: 1000 }, 250, 0.5, LIMITS), { t0: 125, t1: 625 });
});

test("zooming out ends at the limits, zooming in at the narrowest view", () => {
  assert.deepEqual(time.zoom({ t0: 100, t1: 900 }, 500, 10, LIMITS), { t0: 0, t1: 1000 });
  const { t0, t1 } = time.zoom({ t0: 0, t1: 1000 }, 500, 1e-9, LIMITS);
  assert.ok(Math.abs(t1 - t0 - time.MIN_VIEW_NS) < 1e-9);
});

test("panning stops at both ends without changing the width", () => {
  assert.deepEqual(time.pan({ t0: 100, t1: 300 }, 50, LIMITS), { t0: 150, t1: 350 });
  assert.deepEqual(time.pan({ t0: 100, t1: 300 }, -500, LIMITS), { t0: 0, t1: 200 });
  assert.deepEqual(time.pan({ t0: 100, t1: 300 }, 5000, LIMITS), { t0: 800, t1: 1000 });
});

test("a view from an address that lies outside is brought inside", () => {
  assert.deepEqual(time.clampView({ t0: -500, t1: 9000 }, LIMITS), { t0: 0, t1: 1000 });
  assert.deepEqual(time.clampView({ t0: 5000, t1: 5100 }, LIMITS), { t0: 900, t1: 1000 });
});

test("steps of the ruler are 1, 2 or 5", () => {
  assert.equal(time.niceStep(1), 1);
  assert.equal(time.niceStep(3), 5);
  assert.equal(time.niceStep(1300), 2000);
  assert.equal(time.niceStep(70000), 100000);
});

test("ticks are round, in sight, and as many as asked for at most", () => {
  const { ticks, anchor, step } = time.ticks(900_000, 4_300_000, 8);
  assert.equal(step, 500_000);
  assert.equal(anchor, null);
  assert.deepEqual(ticks.map((tick) => tick.label), ["1 ms", "1.5 ms", "2 ms", "2.5 ms", "3 ms", "3.5 ms", "4 ms"]);
  assert.equal(ticks[0].t, 1_000_000);
});

test("far out and close up, ticks count from an anchor", () => {
  const { ticks, anchor } = time.ticks(1_234_567_000, 1_234_567_900, 5);
  assert.equal(anchor.t, 1_234_400_000);
  assert.equal(anchor.label, "1.2344 s");
  assert.equal(ticks[0].label, "+167 µs");
  assert.equal(ticks[0].t, 1_234_567_000);
});

test("no tick stands closer than a nanosecond", () => {
  const { step } = time.ticks(0, 3, 10);
  assert.equal(step, 1);
});

test("equal steps have ticks in percent", () => {
  const { ticks } = time.percentTicks(0, 1000, 4, 1000);
  assert.deepEqual(ticks.map((tick) => tick.label), ["0 %", "50 %", "100 %"]);
  assert.deepEqual(time.percentTicks(0, 10, 4, 1000).ticks.map((t) => t.label), ["0.0 %", "0.5 %", "1.0 %"]);
});

test("durations are short for reading and exact for trusting", () => {
  assert.equal(time.formatNs(1500), "1.5 µs");
  assert.equal(time.formatNs(999), "999 ns");
  assert.equal(time.formatNs(0), "0 ns");
  assert.equal(time.formatNs(12_345_678), "12.3 ms");
  assert.equal(time.formatNs(5e12), "5,000 s");
  assert.equal(time.formatNs(null), "unknown");
  assert.equal(time.exactNs(1234567), "1,234,567 ns");
  assert.equal(time.exactNs(null), "unknown");
});

test("bytes are decimal, and unknown is never 0", () => {
  assert.equal(time.formatBytes(61_440_000), "61.4 MB");
  assert.equal(time.formatBytes(512), "512 B");
  assert.equal(time.formatBytes(0), "0 B");
  assert.equal(time.formatBytes(null), "unknown");
  assert.equal(time.formatShare(0.12345), "12.3 %");
});

const steps = (a, b, c) => [[1, 0, a, a], [2, a, b, b - a], [3, b, c, c - b]];
const span = (start, kind, name) => ({ start, duration: 10, kind, name });
const fast = () => buildRun([[[span(0, 2, "AG0"), span(100, 2, "AG0"), span(120, 0, "F0"), span(140, 1, "B0")]]], {
  steps: steps(100, 200, 300), main_step: 2, duration_ns: 300,
});
const slow = () => buildRun([[[span(0, 0, "F0"), span(300, 2, "AG0"), span(360, 0, "F0"), span(420, 1, "B0")]]], {
  steps: steps(300, 700, 900), main_step: 2, duration_ns: 900,
});

test("the step looked at first is the one whose figures stand for the run", () => {
  assert.deepEqual(time.mainStep(fast().about), { step: 2, t0: 100, t1: 200, slowest: 100 });
});

test("without a complete step the first is shown, without steps the whole run", () => {
  const steps = [[7, 5, 90, 60]];
  assert.deepEqual(time.mainStep({ steps, main_step: null, duration_ns: 100 }), { step: 7, t0: 5, t1: 90, slowest: 60 });
  assert.deepEqual(time.mainStep({ steps: [], main_step: null, duration_ns: 100 }),
    { step: null, t0: 0, t1: 100, slowest: 100 });
});

test("a single run lies on the axis as it is", () => {
  assert.deepEqual(time.align([fast()], "F0", "norm"), [{ origin: 0, scale: 1 }]);
});

test("two runs are aligned by step, by first forward, or by an op", () => {
  const runs = [fast(), slow()];
  const origins = (mode, op) => time.align(runs, mode, "abs", op).map((place) => place.origin);
  assert.deepEqual(origins("step"), [100, 300]);
  assert.deepEqual(origins("F0"), [120, 360]);
  assert.deepEqual(origins("op", "B0"), [140, 420]);
  assert.deepEqual(origins("op", "nowhere"), [120, 360]);
});

test("equal steps stretch the second run's step to the first one's", () => {
  const places = time.align([fast(), slow()], "step", "norm");
  assert.deepEqual(places, [{ origin: 100, scale: 1 }, { origin: 300, scale: 0.25 }]);
  const end = (700 - places[1].origin) * places[1].scale;
  assert.equal(end, 100);
});

test("the limits hold both runs, the first view holds both steps", () => {
  const runs = [fast(), slow()];
  const places = time.align(runs, "step", "abs");
  const limits = time.limitsOf(runs, places);
  assert.ok(limits.t0 <= -300 && limits.t1 >= 600);
  const view = time.homeView(runs, places);
  assert.ok(view.t0 <= 0 && view.t1 >= 400 && view.t1 < 600);
});

test("a run without ops has a view", () => {
  const run = buildRun([[]], { duration_ns: 1 });
  const { t0, t1 } = time.homeView([run], time.align([run], "step", "abs"));
  assert.ok(t1 > t0);
});
