// Where rows stand, what the address says, who feeds whom, what is said, and how playback steps.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as places from "../../../app/zerosim_app/assets/16_zs_layout.mjs";
import { flowsOf } from "../../../app/zerosim_app/assets/17_zs_flow.mjs";
import * as words from "../../../app/zerosim_app/assets/18_zs_words.mjs";
import { Geometry } from "../../../app/zerosim_app/assets/20_zs_geometry.mjs";
import { headHeight } from "../../../app/zerosim_app/assets/22_zs_frame.mjs";
import { readAddress, writeAddress } from "../../../app/zerosim_app/assets/26_zs_address.mjs";
import { nextEdge } from "../../../app/zerosim_app/assets/27_zs_play.mjs";
import { buildRun } from "./make_run.mjs";

const rank = (n = 3) => Array.from({ length: n }, () => []);
const ranks = (count, n = 3) => buildRun(Array.from({ length: count }, () => rank(n)));
const withMemory = (run) => {
  run.about.memory = [{ rank: 0, offset: 0, n: 0, peak: 1 }];
  return run;
};

test("one rank has lanes of full height, in order, without touching", () => {
  const { rows, bands, height } = places.layout([ranks(1)], 500);
  assert.equal(bands.length, 1);
  assert.deepEqual(rows.map((row) => row.height), [24, 24, 24]);
  rows.slice(1).forEach((row, k) => assert.ok(row.y > rows[k].y + rows[k].height));
  assert.ok(height < 500);
});

test("lanes shrink until all ranks fit", () => {
  const { rows, height } = places.layout([ranks(16)], 600);
  assert.ok(height <= 600, `${height}`);
  assert.ok(rows[0].height >= 5 && rows[0].height < 24);
});

test("what cannot fit is scrolled, with lanes one can read", () => {
  const { rows, height } = places.layout([ranks(200)], 600);
  assert.equal(rows[0].height, places.SIZES.scrolledLane);
  assert.ok(height > 600);
});

test("a small run beside a big one keeps its lanes", () => {
  const { rows } = places.layout([ranks(1), ranks(16)], 600);
  assert.equal(rows[0].height, 24);
  assert.ok(rows.at(-1).height < 24);
});

test("memory has a track a run where a run has memory, unless it is hidden", () => {
  const runs = [withMemory(ranks(1)), ranks(1)];
  assert.deepEqual(places.layout(runs, 500).memories.map((m) => m.run), [0]);
  assert.deepEqual(places.layout(runs, 500, { memory: false }).memories, []);
});

test("the row at a height is found, and none in the gaps", () => {
  const made = places.layout([ranks(2)], 500);
  for (const row of made.rows) {
    assert.equal(places.rowAt(made, row.y), row);
    assert.equal(places.rowAt(made, row.y + row.height - 0.5), row);
  }
  assert.equal(places.rowAt(made, made.rows[0].y - 1), null);
  assert.equal(places.rowAt(made, made.rows[0].y + made.rows[0].height), null);
  assert.equal(places.rowAt(made, 9999), null);
});

test("only rows in sight are drawn", () => {
  const made = places.layout([ranks(200)], 600);
  const seen = places.rowsBetween(made, 1000, 1300);
  assert.ok(seen.length < 40);
  assert.ok(seen.every((row) => row.y < 1300 && row.y + row.height > 1000));
  assert.equal(places.placeOf(made, 0, 7), made.rows[7]);
  assert.equal(places.placeOf(made, 1, 7), null);
  const two = places.layout([ranks(2), ranks(3)], 600);
  assert.deepEqual([two.rows[6 + 4].run, two.rows[6 + 4].row], [1, 4]);
  assert.equal(places.placeOf(two, 1, 4), two.rows[10]);
});

test("lanes are called by their stream, sub-lanes by nothing", () => {
  assert.equal(places.laneName("reduce_scatter", 0), "reduce-scatter");
  assert.equal(places.laneName("host", 2), "");
});

// Rank 0: AG1 -> F1, AG1 -> B1 -> RS1; rank 1 the same; unit 2 beside it.
const op = (start, kind, unit) => ({ start, duration: 10, kind, unit, name: `${"FBGR"[kind]}${unit}` });
const flowing = () => {
  const rows = () => [
    [op(10, 0, "1"), op(30, 0, "2"), op(60, 1, "2"), op(90, 1, "1")],
    [op(0, 2, "1"), op(15, 2, "2"), op(75, 2, "1")],
    [op(72, 3, "2"), op(102, 3, "1")],
  ];
  return buildRun([rows(), rows()]);
};
const named = (run, i) => run.about.ops.name[run.op[i]];
const arrowsOf = (i) => {
  const run = flowing();
  return flowsOf(run, i).map(([a, b]) => `${named(run, a)}@${run.start[a]} ${named(run, b)}@${run.start[b]}`);
};

test("a gather feeds the next computation of its layer", () => {
  assert.deepEqual(arrowsOf(4), ["G1@0 F1@10"]);
  assert.deepEqual(arrowsOf(6), ["G1@75 B1@90"]);
});

test("a backward has its gather before it and its reduction after it", () => {
  assert.deepEqual(arrowsOf(3), ["G1@75 B1@90", "B1@90 R1@102"]);
});

test("a forward has its gather before it and no reduction", () => {
  assert.deepEqual(arrowsOf(1), ["G2@15 F2@30"]);
});

test("a reduction follows the backward of its layer", () => {
  assert.deepEqual(arrowsOf(7), ["B2@60 R2@72"]);
});

test("arrows stay on the rank of the span", () => {
  const run = flowing();
  for (const [a, b] of flowsOf(run, 12)) assert.ok(a >= 9 && b >= 9);
  assert.equal(flowsOf(run, 12).length, 2);
});

test("without a layer, or with other kinds, there are no arrows", () => {
  const run = buildRun([[[{ start: 0, duration: 5, kind: 0 }, { start: 9, duration: 5, kind: 4, unit: "1" }]]]);
  assert.deepEqual(flowsOf(run, 0), []);
  assert.deepEqual(flowsOf(run, 1), []);
});

const gathering = () => buildRun(
  [[[{ start: 1000, duration: 2_500_000, kind: 2, collective: 0, lead: 400, name: "AG3", unit: "3", nbytes: 61_440_000,
      wire_bytes: 57_600_000, dtype: "bfloat16", group: "world", stream: "all_gather" }]],
   [[{ start: 501_000, duration: 2_000_000, kind: 2, collective: 0 }]]],
  { transfers: [501_000] },
);

test("the box at the pointer tells everything, exactly", () => {
  const { title, kind, facts } = words.factsOf(gathering(), 0);
  assert.equal(title, "AG3");
  assert.equal(kind, "all-gather");
  assert.deepEqual(Object.fromEntries(facts), {
    rank: "rank 0",
    stream: "all-gather",
    unit: "3",
    start: "1,000 ns",
    duration: "2,500,000 ns (2.5 ms)",
    issued: "600 ns (400 ns ahead)",
    waiting: "500,000 ns (500 µs)",
    bytes: "61.4 MB of bfloat16",
    sent: "57.6 MB",
    group: "world",
  });
});

test("what is unknown is called unknown, never 0", () => {
  const facts = Object.fromEntries(words.factsOf(gathering(), 1).facts);
  assert.equal(facts.unit, "unknown");
  assert.equal(facts.issued, "unknown");
  assert.equal(facts.bytes, "unknown");
  assert.equal(facts.sent, "unknown");
});

test("a span that is no collective has no bytes to tell, and its flags are spelled out", () => {
  const run = buildRun([[[{ start: 0, duration: 5, flags: 2 | 8 }]]]);
  const facts = Object.fromEntries(words.factsOf(run, 0).facts);
  assert.equal(facts.bytes, undefined);
  assert.equal(facts.note, "never ended, mended");
});

test("a selection is one sentence", () => {
  assert.equal(
    words.sentenceOf(gathering(), 0),
    "AG3: all-gather, unit 3, rank 0, starts at 1,000 ns, takes 2,500,000 ns (2.5 ms), " +
      "of which 500 µs waiting for the last rank, 61.4 MB, 2 members outlined",
  );
});

test("an aggregated pixel is told by its shares, the biggest first", () => {
  const run = buildRun([[[{ start: 0, duration: 2, kind: 0 }, { start: 4, duration: 5, kind: 1 }]]]);
  const told = words.shareFacts(run, 0, { shares: Float64Array.from([2, 5, 0, 0, 0, 0]), t0: 0, t1: 10 });
  assert.equal(told.title, "2 spans in 10 ns");
  assert.deepEqual(told.facts, [["backward", "50.0 %"], ["forward", "20.0 %"]]);
});

test("the address says what is shown, and is read back the same", () => {
  const state = {
    view: { t0: -12.4, t1: 5_000_000.6 }, sel: { run: 1, index: 77, rank: 5 },
    align: "F0", scale: "norm", ranks: "0,4-7", compares: true,
  };
  const query = writeAddress("?a=x&b=y&t0=9", state);
  assert.deepEqual(readAddress(query), {
    view: { t0: -12, t1: 5_000_001 }, sel: { run: 1, index: 77, rank: 5 },
    align: "F0", scale: "norm", ranks: "0,4-7",
  });
  assert.ok(query.includes("a=x") && query.includes("b=y"));
});

test("defaults are left out of the address, and a single run has no alignment", () => {
  assert.equal(writeAddress("?run=x", { view: null, align: "step", scale: "abs", ranks: "classes" }), "?run=x");
  assert.equal(writeAddress("", { view: null, align: "F0", scale: "norm", ranks: "all", compares: false }), "?ranks=all");
});

test("an address that makes no sense is as good as none", () => {
  const nothing = { view: undefined, sel: undefined, align: undefined, scale: undefined, ranks: undefined };
  const bad = "?t0=5&t1=4&sel=9.9.9&align=left&scale=log&ranks=1..2";
  assert.deepEqual(readAddress(bad), nothing);
  assert.deepEqual(readAddress("?t0=1e9&t1=NaN&sel=<b>&ranks=" + "9".repeat(3) + ","), nothing);
  assert.deepEqual(readAddress(""), nothing);
});

function stage(runs, view) {
  const geometry = new Geometry();
  const layout = places.layout(runs, 500);
  return Object.assign(geometry, {
    runs, layout, view, dpr: 1, scrollY: 0, size: { plotWidth: 1000, plotHeight: 500 },
    places: runs.map(() => ({ origin: 0, scale: 1 })), limits: { t0: 0, t1: 1e6 },
    layers: { plot: { canvas: { width: 1000 } } },
  });
}

test("a span's place on the stage leads back to the span", () => {
  const run = buildRun([[[{ start: 100, duration: 50 }, { start: 400, duration: 200 }]], [[{ start: 300, duration: 90 }]]]);
  const tl = stage([run], { t0: 0, t1: 1000 });
  for (const i of [0, 1, 2]) {
    const rect = tl.rectOf(0, i);
    assert.equal(tl.shown(rect.x + rect.width / 2, rect.y + rect.height / 2).span, i);
  }
  assert.deepEqual(tl.rectOf(0, 1).width, 200);
});

test("aligned and scaled runs find their spans, too", () => {
  const run = buildRun([[[{ start: 1000, duration: 500 }]]]);
  const tl = stage([run], { t0: -100, t1: 400 });
  tl.places = [{ origin: 1000, scale: 0.5 }];
  assert.equal(tl.toAxis(0, 1500), 250);
  assert.equal(tl.localTime(0, 250), 1500);
  const rect = tl.rectOf(0, 0);
  assert.equal(rect.width, 500);
  assert.equal(tl.shown(rect.x + 1, rect.y + 1).span, 0);
});

test("beside the plot and between rows nothing is shown", () => {
  const tl = stage([buildRun([[[{ start: 0, duration: 1000 }]]])], { t0: 0, t1: 1000 });
  const { y } = tl.rectOf(0, 0);
  assert.equal(tl.shown(10, y + 1), null);
  assert.equal(tl.shown(500, y - 2), null);
  assert.equal(tl.shown(500, 2), null);
  assert.equal(tl.shown(places.SIZES.gutter + 1001, y + 1), null);
});

test("the head grows with the runs", () => {
  assert.ok(headHeight(2) > headHeight(1));
});

test("stepping goes to the next start on any row in sight, then to the end", () => {
  const run = buildRun([[[{ start: 10, duration: 50 }, { start: 80, duration: 5 }]], [[{ start: 40, duration: 9 }]]]);
  const tl = stage([run], { t0: 0, t1: 1000 });
  assert.equal(nextEdge(tl, 0), 10);
  assert.equal(nextEdge(tl, 10), 40);
  assert.equal(nextEdge(tl, 40), 80);
  assert.equal(nextEdge(tl, 80), 1e6);
});

test("a colour is called by its own kind only where that occurs, else by those that have it", () => {
  const about = {
    kinds: ["forward", "all_reduce", "collective", "all_to_all", "other", "host"],
    kind_role: [0, 1, 1, 1, 0, 2],
    roles: [{ key: "forward" }, { key: "all_reduce" }, { key: "idle" }],
  };
  assert.equal(words.roleName(about, 1, new Set([1, 2])), "all-reduce");
  assert.equal(words.roleName(about, 1, new Set([2, 3, 4])), "collective, all-to-all");
  assert.equal(words.roleName(about, 0, new Set([4])), "compute");
  assert.equal(words.roleName(about, 2, new Set([5])), "waiting, host");
});
