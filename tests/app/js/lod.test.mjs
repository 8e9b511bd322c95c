// What a pixel shows: shares and owners, held against the oracle in Python and against the plain way.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { firstEndingAfter } from "../../../app/zerosim_app/assets/10_zs_core.mjs";
import * as lod from "../../../app/zerosim_app/assets/12_zs_lod.mjs";
import { buildRun, randoms, randomRow } from "./make_run.mjs";

const cases = JSON.parse(readFileSync(new URL("../../golden/lod.json", import.meta.url)));
const near = (a, b, message) => assert.ok(Math.abs(a - b) <= 1e-6 * Math.max(1, Math.abs(b)), `${message}: ${a}, ${b}`);

function sharesOf(run, row, t0, px, width, limit = Infinity) {
  const acc = new Float64Array(width * run.nRoles);
  const touched = new Uint32Array(width);
  lod.addShares(run, row, t0, px, 0, width, limit, acc, touched);
  return { acc, touched };
}

const toRun = ({ rows }) =>
  buildRun([rows.map((row) => row.map(([start, duration, kind]) => ({ start, duration, kind })))]);

for (const given of cases) {
  const { t0, t1, width, n_roles: nRoles } = given;
  const px = (t1 - t0) / width;

  test(`shares are those of the oracle: ${given.name}`, () => {
    const run = toRun(given);
    given.rows.forEach((_, row) => {
      const { acc } = sharesOf(run, row, t0, px, width);
      given.shares[row].forEach((pixel, x) =>
        pixel.forEach((ns, role) => near(acc[x * nRoles + role], ns, `row ${row}, pixel ${x}`)),
      );
    });
  });

  test(`owners are those of the oracle: ${given.name}`, () => {
    const run = toRun(given);
    given.rows.forEach((_, row) => {
      const owners = new Array(width).fill(-1);
      lod.eachWide(run, row, t0, px, width, 1, (i, a, b) => {
        for (let x = Math.max(0, a); x < Math.min(width, b); x++) owners[x] = i;
      });
      assert.deepEqual(owners, given.owners[row]);
    });
  });

  test(`pixels that no long span owns show the oracle's shares: ${given.name}`, () => {
    const run = toRun(given);
    given.rows.forEach((_, row) => {
      const { acc } = sharesOf(run, row, t0, px, width, px);
      given.visible[row].forEach((pixel, x) => {
        if (given.owners[row][x] >= 0) return;
        pixel.forEach((ns, role) => near(acc[x * nRoles + role], ns, `row ${row}, pixel ${x}`));
      });
    });
  });
}

test("shares sum to the clipped durations, whatever the window", () => {
  const random = randoms(11);
  const run = buildRun([[randomRow(random, 3000, 4)]]);
  const end = run.start[2999] + run.duration[2999];
  for (let k = 0; k < 60; k++) {
    const t0 = random() * end;
    const width = 1 + Math.floor(random() * 300);
    const px = 0.5 + random() * 400;
    const { acc } = sharesOf(run, 0, t0, px, width);
    const plain = lod.sharesBetween(run, 0, t0, t0 + px * width, new Float64Array(run.nRoles));
    for (let role = 0; role < 4; role++) {
      let sum = 0;
      for (let x = 0; x < width; x++) sum += acc[x * run.nRoles + role];
      near(sum, plain[role], `window ${k}, role ${role}`);
    }
  }
});

test("each pixel of the fast way equals the plain way, blocks or not", () => {
  const random = randoms(5);
  const run = buildRun([[randomRow(random, 4000, 3, 10, 3)]]);
  for (const px of [3, 40, 700, 5000]) {
    const width = Math.min(200, Math.ceil(run.start[3999] / px));
    const { acc } = sharesOf(run, 0, 7, px, width);
    for (let x = 0; x < width; x++) {
      const plain = lod.sharesBetween(run, 0, 7 + x * px, 7 + (x + 1) * px, new Float64Array(run.nRoles));
      for (let role = 0; role < run.nRoles; role++)
        near(acc[x * run.nRoles + role], plain[role], `px ${px}, pixel ${x}`);
    }
  }
});

test("only the columns asked for are touched, and with what the whole picture has there", () => {
  const random = randoms(8);
  const run = buildRun([[randomRow(random, 2000, 3)]]);
  const whole = sharesOf(run, 0, 0, 500, 100);
  const acc = new Float64Array(100 * run.nRoles);
  const touched = new Uint32Array(100);
  lod.addShares(run, 0, 0, 500, 40, 50, Infinity, acc, touched);
  for (let x = 0; x < 100; x++) {
    const inside = x >= 40 && x < 50;
    assert.equal(touched[x], inside ? whole.touched[x] : 0);
    for (let role = 0; role < run.nRoles; role++)
      near(acc[x * run.nRoles + role], inside ? whole.acc[x * run.nRoles + role] : 0, `pixel ${x}`);
  }
});

test("touched bits name the roles of a pixel", () => {
  const run = buildRun([[[{ start: 0, duration: 3, kind: 0 }, { start: 3, duration: 3, kind: 2 }]]]);
  assert.deepEqual([...sharesOf(run, 0, 0, 10, 2).touched], [0b101, 0]);
});

test("spans of a pixel or more are left out of the shares of a mixed row", () => {
  const run = buildRun([[[{ start: 0, duration: 50, kind: 0 }, { start: 52, duration: 2, kind: 1 }]]]);
  const { acc } = sharesOf(run, 0, 0, 10, 6, 10);
  assert.equal(acc[5 * run.nRoles + 1], 2);
  assert.equal(acc[0], 0);
});

test("a hover names the span under it, exactly", () => {
  const run = buildRun([[[{ start: 0, duration: 50 }, { start: 60, duration: 20 }]]]);
  assert.deepEqual(lod.shownAt(run, 0, 49.5, 40, 10, 0), { span: 0 });
  assert.deepEqual(lod.shownAt(run, 0, 60, 60, 10, 0), { span: 1 });
});

test("in a gap the nearest span within reach is named, else nothing", () => {
  const run = buildRun([[[{ start: 0, duration: 50 }, { start: 160, duration: 50 }]]]);
  assert.deepEqual(lod.shownAt(run, 0, 70, 70, 10, 30), { span: 0 });
  assert.deepEqual(lod.shownAt(run, 0, 140, 140, 10, 30), { span: 1 });
  assert.equal(lod.shownAt(run, 0, 105, 100, 10, 30), null);
});

test("an aggregated pixel tells its shares instead of one op", () => {
  const run = buildRun([[[{ start: 0, duration: 2, kind: 0 }, { start: 4, duration: 4, kind: 1 }]]]);
  const found = lod.shownAt(run, 0, 1, 0, 10, 30);
  assert.equal(found.span, undefined);
  assert.deepEqual([...found.shares].slice(0, 2), [2, 4]);
  assert.deepEqual([found.t0, found.t1], [0, 10]);
});

test("a pixel that a long span owns names that span, though a short one is in it too", () => {
  const run = buildRun([[[{ start: 0, duration: 28, kind: 0 }, { start: 29, duration: 1, kind: 1 }]]]);
  assert.deepEqual(lod.shownAt(run, 0, 29.5, 20, 10, 30), { span: 0 });
});

test("labels go to spans that are wide enough, and blocks of short ones are skipped", () => {
  const short = randomRow(randoms(2), 500, 3, 5, 3);
  const after = short.at(-1).start + short.at(-1).duration;
  const run = buildRun([[[...short, { start: after, duration: 400 }]]]);
  const found = [];
  lod.eachWide(run, 0, 0, 10, 1000, 20, (i, a, b) => found.push([i, b - a]));
  assert.deepEqual(found, [[500, 40]]);
});

test("random points of random rows are named like the plain search names them", () => {
  const random = randoms(21);
  const run = buildRun([[randomRow(random, 400, 4, 300, 60)]]);
  const end = run.start[399] + run.duration[399];
  for (let k = 0; k < 500; k++) {
    const t = random() * end;
    const px = 1 + random() * 100;
    const i = firstEndingAfter(run, 0, t);
    const inside = i < run.n && run.start[i] <= t;
    const column = Math.floor(t / px) * px;
    const found = lod.shownAt(run, 0, t, column, px, 0);
    if (inside && run.duration[i] >= px) assert.deepEqual(found, { span: i });
    else if (inside && found.span === undefined) assert.ok(found.shares[run.role[i]] > 0);
  }
});
