// Decoding, searching, and what belongs together.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as core from "../../../app/zerosim_app/assets/10_zs_core.mjs";
import { buildRun, encodeSamples, encodeSpans, randoms, randomRow } from "./make_run.mjs";

const F = { start: 100, duration: 50, kind: 0 };
const B = { start: 200, duration: 100, kind: 1 };

test("spans come out as they went in", () => {
  const spans = core.decodeSpans(
    encodeSpans([[{ ...F, lead: 7, index: 42, flags: 8, op: 3 }], [{ ...B, collective: 0 }]], [250]),
  );
  assert.equal(spans.n, 2);
  assert.equal(spans.rowCount, 2);
  assert.deepEqual([...spans.start], [100, 200]);
  assert.deepEqual([...spans.duration], [50, 100]);
  assert.deepEqual([...spans.rowOffsets], [0, 1, 2]);
  assert.deepEqual([...spans.transfer], [250]);
  assert.deepEqual([...spans.lead], [7, -2147483648]);
  assert.deepEqual([...spans.index], [42, 1]);
  assert.deepEqual([...spans.collective], [-1, 0]);
  assert.deepEqual([...spans.op], [3, 1]);
  assert.deepEqual([...spans.kind], [0, 1]);
  assert.deepEqual([...spans.flags], [8, 0]);
});

test("a span longer than 4.29 s keeps its exact nanoseconds in the wide form", () => {
  const long = 2 ** 40 + 1;
  const spans = core.decodeSpans(encodeSpans([[{ start: 0, duration: long, lead: 3 }]], [], true));
  assert.equal(spans.wide, true);
  assert.equal(spans.duration[0], 1099511627777);
  assert.equal(spans.lead[0], 3);
});

test("an empty run decodes", () => {
  const spans = core.decodeSpans(encodeSpans([]));
  assert.equal(spans.n, 0);
  assert.deepEqual([...spans.rowOffsets], [0]);
});

test("bytes that are not spans are refused with a sentence", () => {
  const good = encodeSpans([[F]]);
  assert.throws(() => core.decodeSpans(new ArrayBuffer(8)), /cut short/);
  assert.throws(() => core.decodeSpans(new ArrayBuffer(64)), /not spans.bin/);
  assert.throws(() => core.decodeSpans(good.slice(0, good.byteLength - 1)), /cut short/);
  new DataView(good).setUint32(4, 9, true);
  assert.throws(() => core.decodeSpans(good), /version 9: reload/);
});

test("a length that lies about the bytes behind it is refused", () => {
  const lying = encodeSpans([[F]]);
  new DataView(lying).setUint32(8, 2 ** 31, true);
  assert.throws(() => core.decodeSpans(lying), /cut short/);
});

test("samples come out as they went in, and damaged ones are refused", () => {
  const bytes = encodeSamples([[5, 100], [9, 300]]);
  const { time, value } = core.decodeSamples(bytes);
  assert.deepEqual([...time], [5, 9]);
  assert.deepEqual([...value], [100, 300]);
  assert.throws(() => core.decodeSamples(bytes.slice(0, 40)), /cut short/);
  assert.throws(() => core.decodeSamples(encodeSpans([[F]])), /not samples.bin/);
});

test("the first span that ends after a time is found at edges, in gaps and past the end", () => {
  const run = buildRun([[[F, B]]]);
  assert.equal(core.firstEndingAfter(run, 0, 0), 0);
  assert.equal(core.firstEndingAfter(run, 0, 149), 0);
  assert.equal(core.firstEndingAfter(run, 0, 150), 1);
  assert.equal(core.firstEndingAfter(run, 0, 299), 1);
  assert.equal(core.firstEndingAfter(run, 0, 300), 2);
});

test("searches stay on their row", () => {
  const run = buildRun([[[F], [B]]]);
  assert.equal(core.firstEndingAfter(run, 0, 500), 1);
  assert.equal(core.firstEndingAfter(run, 1, 0), 1);
  assert.equal(core.rowOf(run, 0), 0);
  assert.equal(core.rowOf(run, 1), 1);
});

test("rowOf passes over rows without spans", () => {
  const run = buildRun([[[F], [], [B]]]);
  assert.equal(core.rowOf(run, 1), 2);
});

test("the span at a time is found, else the nearest within reach", () => {
  const run = buildRun([[[F, B]]]);
  assert.equal(core.spanNear(run, 0, 100, 0), 0);
  assert.equal(core.spanNear(run, 0, 149, 0), 0);
  assert.equal(core.spanNear(run, 0, 150, 0), 0);
  assert.equal(core.spanNear(run, 0, 151, 0), -1);
  assert.equal(core.spanNear(run, 0, 160, 10), 0);
  assert.equal(core.spanNear(run, 0, 190, 10), 1);
  assert.equal(core.spanNear(run, 0, 175, 10), -1);
});

test("snapping takes the nearest edge within reach and nothing else", () => {
  const run = buildRun([[[F, B]]]);
  assert.equal(core.snap(run, 0, 96, 6), 100);
  assert.equal(core.snap(run, 0, 147, 6), 150);
  assert.equal(core.snap(run, 0, 153, 6), 150);
  assert.equal(core.snap(run, 0, 175, 6), 175);
  assert.equal(core.snap(run, 0, 303, 6), 300);
});

test("the members of a collective are found on all ranks", () => {
  const member = (start) => ({ start, duration: 10, kind: 2, collective: 1 });
  const run = buildRun([[[member(0), F]], [[{ ...B, collective: 0 }]], [[member(5)]]], {
    transfers: [200, 5],
  });
  assert.deepEqual(core.membersOf(run, 0), [0, 3]);
  assert.deepEqual(core.membersOf(run, 3), [0, 3]);
  assert.deepEqual(core.membersOf(run, 1), [1]);
});

test("waiting is the time until the last member arrived, null where that is unknown", () => {
  const gather = { start: 10, duration: 30, kind: 2 };
  const run = buildRun(
    [[[{ ...gather, collective: 0 }, { ...F, collective: 1 }, B]], [[{ ...gather, start: 25, collective: 0 }]]],
    { transfers: [25, NaN] },
  );
  assert.equal(core.waitingOf(run, 0), 15);
  assert.equal(core.waitingOf(run, 3), 0);
  assert.equal(core.waitingOf(run, 1), null);
  assert.equal(core.waitingOf(run, 2), null);
});

test("a transfer that clocks place after the end counts as waiting until the end, no longer", () => {
  const run = buildRun([[[{ start: 10, duration: 5, kind: 2, collective: 0 }]]], { transfers: [99] });
  assert.equal(core.waitingOf(run, 0), 5);
});

test("issue times are exact, and unknown ones are null", () => {
  const run = buildRun([[[{ ...F, lead: 30 }, { ...B, lead: -5 }, { start: 400, duration: 1 }]]]);
  assert.equal(core.issuedOf(run, 0), 70);
  assert.equal(core.issuedOf(run, 1), 205);
  assert.equal(core.issuedOf(run, 2), null);
});

test("a table row is found again, on the rank that is asked for", () => {
  const run = buildRun([[[{ ...F, index: 7 }]], [[{ ...F, index: 7 }]]]);
  assert.equal(core.findIndex(run, 7), 0);
  assert.equal(core.findIndex(run, 7, 1), 1);
  assert.equal(core.findIndex(run, 7, 9), 0);
  assert.equal(core.findIndex(run, 8), -1);
});

test("a row is what it shows most of the time, whatever its stream is called", () => {
  const run = buildRun([[[F, { ...B, kind: 2, duration: 20 }], [{ ...B, kind: 3 }], [{ ...F, kind: 5 }], []]]);
  assert.deepEqual(run.rowClass, ["compute", "communication", "host", "compute"]);
});

test("block sums hold the time of each role and the longest span of a block", () => {
  const random = randoms(3);
  const run = buildRun([[randomRow(random, 100, 3)]]);
  const total = [...run.duration].reduce((a, b) => a + b, 0);
  assert.equal([...run.blockShare].reduce((a, b) => a + b, 0), total);
  assert.equal(run.blockLongest.length, 4);
  assert.equal(Math.max(...run.blockLongest), Math.max(...run.duration));
});
