// The timeline as a whole, on a fake page: commands, keys, pointer, and what the page is told.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { listenToPointer } from "../../../app/zerosim_app/assets/24_zs_pointer.mjs";
import { listenToKeys } from "../../../app/zerosim_app/assets/25_zs_keys.mjs";
import { Timeline } from "../../../app/zerosim_app/assets/31_zs_timeline.mjs";
import { SIZES } from "../../../app/zerosim_app/assets/16_zs_layout.mjs";
import { fakePage } from "./fake_page.mjs";
import { buildRun } from "./make_run.mjs";

const STEPS = { steps: [[1, 0, 10_000, 10_000]], main_step: 1, duration_ns: 20_000 };
const gather = (start, duration, c) => ({ start, duration, kind: 2, collective: c, name: `AG${c}`, unit: `${c}` });
const forward = (start, c) => ({ start, duration: 900, kind: 0, name: `F${c}`, unit: `${c}` });
const rank = (late) => [
  [forward(1000, 0), forward(3000, 1), forward(12_000, 2)],
  [gather(late, 1000 - late, 0), gather(1500, 1500, 1)],
];
const run = (more = {}) => buildRun([rank(0), rank(200)], { transfers: [200, 1500], ...STEPS, ...more });

let page;
let tl;
beforeEach(() => {
  page = fakePage();
  tl = opened([run()]);
});

function opened(runs, { cfg = {}, address = {}, options = {} } = {}) {
  const made = new Timeline(page.root, { prefix: "tl", runs: [{}, {}], ...cfg }, address);
  listenToPointer(made);
  listenToKeys(made);
  made.setRuns(runs, options);
  made.draw();
  return made;
}

const key = (name) => page.root.fire("keydown", { key: name });
const pointer = (kind, x, y, more = {}) => tl.stage.fire(kind, { clientX: x, clientY: y, button: 0, pointerId: 1, ...more });
const middle = (i, k = 0) => {
  const { x, y, width, height } = tl.rectOf(k, i);
  return [x + width / 2, y + height / 2];
};

test("it opens at the main step", () => {
  assert.ok(tl.view.t0 <= 0 && tl.view.t1 >= 10_000 && tl.view.t1 < 11_000);
});

test("an address goes before the default, and is brought inside the run", () => {
  assert.deepEqual(opened([run()], { options: { view: { t0: 100, t1: 600 } } }).rounded(), { t0: 100, t1: 600 });
  const outside = opened([run()], { options: { view: { t0: -1e9, t1: 1e9 } } });
  assert.deepEqual(outside.view, outside.limits);
});

test("many requests are one frame", () => {
  page.frames.length = 0;
  tl.frame = 0;
  tl.request("plot");
  tl.request("over", "head");
  assert.equal(page.frames.length, 0 + 1);
});

test("hovering redraws the overlay and leaves the spans alone", () => {
  const { context } = tl.layers.plot;
  const before = context.calls.putImageData.length;
  pointer("pointermove", ...middle(0));
  page.frame();
  assert.equal(context.calls.putImageData.length, before);
  assert.equal(tl.hover.span, 0);
  assert.equal(tl.tip.hidden, false);
});

test("leaving hides the box", () => {
  pointer("pointermove", ...middle(0));
  pointer("pointerleave", 0, 0);
  assert.equal(tl.hover, null);
  assert.equal(tl.tip.hidden, true);
});

test("a click selects, says and tells", () => {
  pointer("pointerdown", ...middle(1));
  pointer("pointerup", ...middle(1));
  assert.deepEqual(tl.selected, { run: 0, span: 1 });
  assert.match(tl.live.textContent, /^F1: forward, unit 1, rank 0/);
  assert.deepEqual(page.told["tl-sel"], {
    type: "span", run: 0, run_id: "made", span: 1, rank: 0, name: "F1", kind: "forward", unit: "1",
    start_ns: 3000, duration_ns: 900,
  });
});

test("a click beside everything clears", () => {
  tl.select(0, 1);
  const [x, y] = middle(1);
  pointer("pointerdown", x, y - 14);
  pointer("pointerup", x, y - 14);
  assert.equal(tl.selected, null);
  assert.equal(page.told["tl-sel"], null);
  assert.equal(tl.live.textContent, "");
});

test("a drag pans by whole pixels and selects nothing", () => {
  const before = tl.view;
  const px = (before.t1 - before.t0) / tl.size.plotWidth;
  const [x, y] = middle(1);
  pointer("pointerdown", x, y);
  pointer("pointermove", x - 40, y);
  pointer("pointerup", x - 40, y);
  assert.equal(tl.selected, null);
  assert.ok(Math.abs((tl.view.t0 - before.t0) / px - 40) < 1e-6);
});

test("shift and drag measures from edge to edge", () => {
  const a = tl.rectOf(0, 0);
  const y = a.y + 3;
  pointer("pointerdown", a.x + 4, y, { shiftKey: true });
  pointer("pointermove", a.x + a.width - 3, y);
  pointer("pointerup", a.x + a.width - 3, y);
  assert.deepEqual(tl.area, { t0: 1000, t1: 1900 });
  assert.match(tl.live.textContent, /^Area of 900 ns \(900 ns\)\. Busy: compute 100\.0 %/);
  assert.deepEqual(page.told["tl-sel"], { type: "area", runs: [{ run_id: "made", t0_ns: 1000, t1_ns: 1900 }] });
});

test("the wheel zooms where the pointer is, and pans with shift", () => {
  const [x, y] = middle(1);
  const under = tl.axisTime(x);
  const width = tl.view.t1 - tl.view.t0;
  const event = pointer("wheel", x, y, { deltaX: 0, deltaY: -200, deltaMode: 0 });
  assert.ok(event.prevented);
  assert.ok(tl.view.t1 - tl.view.t0 < width);
  assert.ok(Math.abs(tl.axisTime(x) - under) < 1e-6);
  const { t0 } = tl.view;
  pointer("wheel", x, y, { deltaX: 0, deltaY: 50, deltaMode: 0, shiftKey: true });
  assert.ok(tl.view.t0 > t0);
});

test("a press on the strip brings that time into the middle", () => {
  tl.show({ t0: 0, t1: 2000 });
  const { t0, t1 } = tl.limits;
  const x = SIZES.gutter + ((15_000 - t0) / (t1 - t0)) * tl.size.plotWidth;
  pointer("pointerdown", x, 10);
  pointer("pointerup", x, 10);
  assert.ok(Math.abs((tl.view.t0 + tl.view.t1) / 2 - 15_000) < 1e-6);
});

test("keys zoom, pan, fit and clear", () => {
  const width = () => tl.view.t1 - tl.view.t0;
  const start = { ...tl.view };
  key("w");
  assert.ok(width() < start.t1 - start.t0);
  const closer = width();
  key("s");
  assert.ok(width() > closer);
  key("+");
  const at = tl.view.t0;
  key("ArrowRight");
  assert.ok(tl.view.t0 > at);
  key("A");
  assert.ok(Math.abs(tl.view.t0 - at) < 1e-6);
  key("f");
  assert.deepEqual(tl.view, start);
  tl.select(0, 0);
  key("f");
  assert.ok(width() < 5000 && tl.view.t0 < 1000 && tl.view.t1 > 1900);
  key("Escape");
  assert.equal(tl.selected, null);
});

test("comma and period walk along the row and stop at its ends", () => {
  key(".");
  assert.deepEqual(tl.selected, { run: 0, span: 0 });
  for (let k = 0; k < 5; k++) key(".");
  assert.equal(tl.selected.span, 2);
  assert.ok(tl.view.t1 >= 12_900, "the span is brought into sight");
  key(",");
  assert.equal(tl.selected.span, 1);
});

test("keys with modifiers, other keys, and keys in the toolbar are left alone", () => {
  const before = { ...tl.view };
  assert.equal(page.root.fire("keydown", { key: "w", ctrlKey: true }).prevented, undefined);
  assert.equal(page.root.fire("keydown", { key: "Tab" }).prevented, undefined);
  assert.equal(page.root.fire("keydown", { key: "constructor" }).prevented, undefined);
  assert.equal(page.root.fire("keydown", { key: " ", target: {} }).prevented, undefined);
  assert.deepEqual(tl.view, before);
});

test("after a pause the view stands in the address and the page knows it", () => {
  tl.show({ t0: 1000.4, t1: 3000.6 });
  tl.select(0, 1);
  tl.publish();
  assert.equal(page.address.at(-1), "/explore?run=x&t0=1000&t1=3001&sel=0.1.0");
  assert.deepEqual(page.told["tl-view"], {
    t0: 1000, t1: 3001, ranks: "classes", align: "step", scale: "abs",
    runs: [{ run_id: "made", t0_ns: 1000, t1_ns: 3001 }],
  });
});

test("a timeline that must not touch the address does not", () => {
  tl = opened([run()], { cfg: { address: false } });
  tl.publish();
  assert.deepEqual(page.address, []);
  assert.ok(page.told["tl-view"]);
});

test("a selection in the address is found again", () => {
  tl = opened([run()], { options: { sel: { run: 0, index: 6, rank: 1 } } });
  assert.deepEqual(tl.selected, { run: 0, span: 6 });
  assert.equal(opened([run()], { options: { sel: { run: 1, index: 0, rank: 0 } } }).selected, null);
});

test("expanding ranks keeps the view", () => {
  let asked = false;
  tl.onRanks = () => (asked = true);
  tl.show({ t0: 1000, t1: 2000 });
  tl.setRanks("all");
  assert.ok(asked);
  tl.setRuns([run()], { keep: true });
  assert.deepEqual(tl.view, { t0: 1000, t1: 2000 });
});

test("two runs are laid over each other by step, and by an op that is selected", () => {
  const late = run({ steps: [[1, 2000, 12_000, 10_000]] });
  tl = opened([run(), late]);
  assert.equal(tl.stageX(0, 0), tl.stageX(1, 2000));
  tl.select(0, 1);
  tl.setAlign("op", "abs");
  assert.equal(tl.stageX(0, 3000), tl.stageX(1, 3000));
  assert.equal(tl.toAxis(0, 3000), 0);
});

test("the memory track follows the rank that is selected", () => {
  const memory = [{ rank: 0, counter: "memory.in_use", offset: 0, n: 1, peak: 9 }, { rank: 1, counter: "memory.in_use", offset: 1, n: 1, peak: 5 }];
  tl = opened([run({ memory, samples: [[0, 9], [0, 5]] })]);
  assert.equal(tl.layout.memories.length, 1);
  tl.select(0, 5);
  assert.equal(tl.memoryRank, 1);
  tl.toggleMemory();
  assert.equal(tl.layout.memories.length, 0);
});

test("playing moves the line with time, pausing stops it, and it ends with the run", () => {
  tl.togglePlay();
  assert.ok(tl.play.playing);
  assert.match(tl.live.textContent, /^Playing: one second shows/);
  page.frame(0);
  page.frame(50);
  page.frame(100);
  const at = tl.play.at;
  assert.ok(at > tl.view.t0);
  tl.togglePlay();
  page.frame(150);
  assert.equal(tl.play.at, at);
  tl.play.at = tl.limits.t1 - 1;
  tl.show(tl.limits);
  tl.togglePlay();
  for (let now = 0; now < 400; now += 50) page.frame(now);
  assert.equal(tl.play.playing, false);
  assert.equal(tl.play.at, tl.limits.t1);
});

test("faster is faster, and nonsense is not a speed", () => {
  tl.setSpeed(4);
  assert.equal(tl.play.speed, 4);
  tl.setSpeed(-1);
  tl.setSpeed(NaN);
  assert.equal(tl.play.speed, 4);
});

test("the theme follows the page", () => {
  assert.equal(tl.inks.background, "#ffffff");
  page.scheme = "dark";
  tl.setTheme();
  assert.equal(tl.inks.background, "#1a1b1e");
});

test("rows that do not fit are scrolled by keys, wheel and drag, within their height", () => {
  tl = opened([buildRun(Array.from({ length: 200 }, () => rank(0)), { transfers: [0, 1500], ...STEPS })]);
  key("ArrowDown");
  assert.equal(tl.scrollY, 40);
  pointer("wheel", 20, 200, { deltaX: 0, deltaY: 60, deltaMode: 0 });
  assert.equal(tl.scrollY, 100);
  tl.scrollBy(1e9);
  assert.equal(tl.scrollY, tl.layout.height - tl.size.plotHeight);
  tl.reveal(0, 0);
  assert.ok(tl.stageY(tl.placeOfRow(0, 0).y) >= tl.size.head);
});

test("buttons and choices of the toolbar act", () => {
  const press = (act) => page.root.fire("click", { target: { closest: () => ({ dataset: { act } }) } });
  press("whole");
  assert.deepEqual(tl.view, tl.limits);
  press("fit");
  assert.ok(tl.view.t1 < 11_000);
  press("toString");
  page.root.fire("change", { target: { dataset: { choice: "speed" }, value: "2" } });
  assert.equal(tl.play.speed, 2);
});

test("a band says what its run is, and what is not known of it", () => {
  assert.equal(tl.bandText(0), "simulated  ·  2 ranks  ·  step 1: 10 µs");
  const lame = run({ aligned: false, finished: false, world_size: 8, hidden: { instant: 3, crowded: 0 } });
  assert.equal(opened([lame]).bandText(0),
    "simulated  ·  2 of 8 ranks  ·  step 1: 10 µs  ·  clocks not aligned  ·  unfinished  ·  3 instant ops in the table only");
});

test("a stopped timeline draws no more", () => {
  const { context } = tl.layers.plot;
  const before = context.calls.putImageData.length;
  tl.stop();
  tl.request("plot");
  page.frame();
  assert.equal(context.calls.putImageData.length, before);
});
