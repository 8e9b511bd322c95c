// What a measured area holds.

import assert from "node:assert/strict";
import { test } from "node:test";
import { areaSentence, busyIn, membersIn } from "../../../app/zerosim_app/assets/19_zs_area.mjs";
import { buildRun, randoms, randomRow } from "./make_run.mjs";

const [F, AG, RS, HOST] = [0, 2, 3, 5];
const span = (start, duration, kind) => ({ start, duration, kind });

test("communication that runs beside compute is hidden, the rest is exposed", () => {
  const run = buildRun([[[span(0, 60, F)], [span(40, 40, AG)]]]);
  assert.deepEqual(busyIn(run, 0, 100), { compute: 0.6, communication: 0.4, exposed: 0.2 });
});

test("two streams that communicate at once are busy once", () => {
  const run = buildRun([[[], [span(0, 50, AG)], [span(25, 50, RS)]]]);
  assert.deepEqual(busyIn(run, 0, 100), { compute: 0, communication: 0.75, exposed: 0.75 });
});

test("only what lies in the area counts", () => {
  const run = buildRun([[[span(0, 100, F), span(200, 100, F)], [span(90, 120, AG)]]]);
  const found = busyIn(run, 50, 250);
  assert.deepEqual(found, { compute: 0.5, communication: 0.6, exposed: 0.5 });
});

test("the host is neither", () => {
  const run = buildRun([[[span(0, 100, HOST)]]]);
  assert.deepEqual(busyIn(run, 0, 100), { compute: 0, communication: 0, exposed: 0 });
});

test("ranks are averaged, and a class weighs as many as it stands for", () => {
  const run = buildRun([[[span(0, 100, F)]], [[span(0, 20, F)]]]);
  assert.equal(busyIn(run, 0, 100).compute, 0.6);
  run.about.groups[0].members = [[0, 1], [7, 7]];
  assert.equal(membersIn(run.about.groups[0]), 3);
  assert.equal(busyIn(run, 0, 100).compute, 0.8);
});

test("an area is one line", () => {
  const run = buildRun([[[span(0, 60, F)], [span(40, 40, AG)]]]);
  assert.equal(areaSentence(run, 0, 100), "compute 60.0 %, communication 40.0 %, exposed 20.0 %");
});

test("a run without ranks holds nothing", () => {
  const run = buildRun([]);
  assert.deepEqual(busyIn(run, 0, 100), { compute: 0, communication: 0, exposed: 0 });
});

test("shares agree with counting nanosecond by nanosecond", () => {
  const random = randoms(31);
  const kinds = (row, kind) => row.map((s) => ({ ...s, kind }));
  const rows = [kinds(randomRow(random, 30, 1, 20, 9), F), kinds(randomRow(random, 30, 1, 15, 20), AG), kinds(randomRow(random, 20, 1, 9, 30), RS)];
  const run = buildRun([rows]);
  const at = (row, t) => rows[row].some((s) => s.start <= t && t < s.start + s.duration);
  const count = { compute: 0, communication: 0, exposed: 0 };
  for (let t = 17; t < 317; t++) {
    const communicates = at(1, t) || at(2, t);
    count.compute += at(0, t);
    count.communication += communicates;
    count.exposed += communicates && !at(0, t);
  }
  const found = busyIn(run, 17, 317);
  for (const name of Object.keys(count)) assert.ok(Math.abs(found[name] - count[name] / 300) < 1e-12, name);
});
