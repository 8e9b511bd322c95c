// The spans of a run as typed arrays, and every question one can ask them. Pure: no DOM.
// The layout of the bytes is told in spansbin.py, Note [spans.bin].

const SPAN_MAGIC = 0x5a53504e;
const SAMPLE_MAGIC = 0x5a534d50;
const VERSION = 1;
const UNKNOWN_LEAD = -(2 ** 31);
export const BLOCK = 32;

function header(buffer, magic, bytes, what) {
  if (buffer.byteLength < bytes) throw new Error(`${what} is cut short: load the run again`);
  const view = new DataView(buffer);
  if (view.getUint32(0) !== magic) throw new Error(`this is not ${what}: load the run again`);
  if (view.getUint32(4, true) !== VERSION)
    throw new Error(`${what} has version ${view.getUint32(4, true)}: reload the page`);
  return view;
}

/** Typed-array views of spans.bin; nothing is copied. Throws on anything else. */
export function decodeSpans(buffer) {
  const head = header(buffer, SPAN_MAGIC, 32, "spans.bin");
  const [n, rowCount, nCollectives, flags] = [8, 12, 16, 20].map((at) => head.getUint32(at, true));
  const wide = (flags & 1) === 1;
  let at = 32;
  const take = (Kind, length) => {
    const array = new Kind(buffer, at, length);
    at += array.byteLength;
    return array;
  };
  const expected = 32 + (n * (wide ? 38 : 30)) + nCollectives * 8 + (rowCount + 1) * 4;
  if (buffer.byteLength !== expected) throw new Error("spans.bin is cut short: load the run again");
  return {
    n,
    rowCount,
    wide,
    start: take(Float64Array, n),
    transfer: take(Float64Array, nCollectives),
    duration: take(wide ? Float64Array : Uint32Array, n),
    lead: take(wide ? Float64Array : Int32Array, n),
    rowOffsets: take(Uint32Array, rowCount + 1),
    index: take(Uint32Array, n),
    collective: take(Int32Array, n),
    op: take(Uint32Array, n),
    kind: take(Uint8Array, n),
    flags: take(Uint8Array, n),
  };
}

/** `{time, value}` of samples.bin, both f64. */
export function decodeSamples(buffer) {
  const n = header(buffer, SAMPLE_MAGIC, 16, "samples.bin").getUint32(8, true);
  if (buffer.byteLength !== 16 + 16 * n)
    throw new Error("samples.bin is cut short: load the run again");
  return { time: new Float64Array(buffer, 16, n), value: new Float64Array(buffer, 16 + 8 * n, n) };
}

/** A run: decoded spans and samples, `about` (timeline.json), the role of each span, block sums. */
export function makeRun(about, spans, samples) {
  const role = new Uint8Array(spans.n);
  for (let i = 0; i < spans.n; i++) role[i] = about.kind_role[spans.kind[i]];
  const run = { ...spans, about, samples, role, nRoles: about.roles.length };
  return Object.assign(run, blockSums(run), { rowClass: rowClasses(run) });
}

// What a row mostly shows: `compute`, `communication` or `host`; a stream's name need not tell.
function rowClasses({ rowCount, rowOffsets, duration, kind, about }) {
  return Array.from({ length: rowCount }, (_, row) => {
    const time = { compute: 0, communication: 0, host: 0 };
    for (let i = rowOffsets[row]; i < rowOffsets[row + 1]; i++)
      time[about.kind_class[kind[i]]] += duration[i];
    return Object.keys(time).reduce((most, name) => (time[name] > time[most] ? name : most));
  });
}

// Per block of BLOCK spans: the time of each role in it, and its longest span. They let a frame skip
// what is far below a pixel, and the search for labels what is too short to bear one.
function blockSums({ n, duration, role, nRoles }) {
  const blocks = Math.ceil(n / BLOCK);
  const blockShare = new Float64Array(blocks * nRoles);
  const blockLongest = new Float64Array(blocks);
  for (let i = 0; i < n; i++) {
    const block = (i / BLOCK) | 0;
    blockShare[block * nRoles + role[i]] += duration[i];
    if (duration[i] > blockLongest[block]) blockLongest[block] = duration[i];
  }
  return { blockShare, blockLongest };
}

/** First span of `row` that ends after `t` (the row's end if none). */
export function firstEndingAfter(run, row, t) {
  const { start, duration, rowOffsets } = run;
  let lo = rowOffsets[row];
  let hi = rowOffsets[row + 1];
  while (lo < hi) {
    const mid = (lo + hi) >>> 1;
    if (start[mid] + duration[mid] > t) hi = mid;
    else lo = mid + 1;
  }
  return lo;
}

/** The row on which span `i` stands. */
export function rowOf(run, i) {
  let lo = 0;
  let hi = run.rowCount;
  while (hi - lo > 1) {
    const mid = (lo + hi) >>> 1;
    if (run.rowOffsets[mid] <= i) lo = mid;
    else hi = mid;
  }
  return lo;
}

/** The span at time `t` of `row`, else the nearest within `reach` ns, else -1. */
export function spanNear(run, row, t, reach) {
  const { start, duration, rowOffsets } = run;
  const after = firstEndingAfter(run, row, t);
  const first = rowOffsets[row];
  const end = rowOffsets[row + 1];
  if (after < end && start[after] <= t) return after;
  const right = after < end ? start[after] - t : Infinity;
  const left = after > first ? t - (start[after - 1] + duration[after - 1]) : Infinity;
  if (Math.min(left, right) > reach) return -1;
  return left <= right ? after - 1 : after;
}

/** The edge (start or end of a span) of `row` nearest to `t` within `reach` ns, else `t`. */
export function snap(run, row, t, reach) {
  const { start, duration, rowOffsets } = run;
  const near = firstEndingAfter(run, row, t);
  let best = t;
  let distance = reach;
  for (let i = Math.max(rowOffsets[row], near - 1); i < Math.min(rowOffsets[row + 1], near + 2); i++)
    for (const edge of [start[i], start[i] + duration[i]])
      if (Math.abs(edge - t) <= distance) {
        distance = Math.abs(edge - t);
        best = edge;
      }
  return best;
}

/** All spans of the collective of span `i` on the rows shown, `i` among them. */
export function membersOf(run, i) {
  const wanted = run.collective[i];
  if (wanted < 0) return [i];
  run.members ??= membership(run);
  const { offsets, spans } = run.members;
  return Array.from(spans.subarray(offsets[wanted], offsets[wanted + 1]));
}

function membership({ n, collective, transfer }) {
  const offsets = new Uint32Array(transfer.length + 1);
  for (let i = 0; i < n; i++) if (collective[i] >= 0) offsets[collective[i] + 1]++;
  for (let c = 0; c < transfer.length; c++) offsets[c + 1] += offsets[c];
  const next = offsets.slice();
  const spans = new Uint32Array(offsets[transfer.length]);
  for (let i = 0; i < n; i++) if (collective[i] >= 0) spans[next[collective[i]]++] = i;
  return { offsets, spans };
}

/** Position of row `index` of the Trace's table, on a row of `rank` if given, or -1. */
export function findIndex(run, index, rank = null) {
  let found = -1;
  for (let i = 0; i < run.n; i++) {
    if (run.index[i] !== index) continue;
    if (rank === null || groupOf(run, i).rank === rank) return i;
    if (found < 0) found = i;
  }
  return found;
}

/** The group (rank, or class of equal ranks) of span `i`. */
export function groupOf(run, i) {
  return run.about.groups[run.about.rows[rowOf(run, i)].group];
}

/** Nanoseconds that this rank waited for the last member; null if unknown or no collective. */
export function waitingOf(run, i) {
  const c = run.collective[i];
  if (c < 0 || Number.isNaN(run.transfer[c])) return null;
  return Math.min(run.duration[i], Math.max(0, run.transfer[c] - run.start[i]));
}

/** When the host issued span `i`, ns since the run's start; null if unknown. */
export function issuedOf(run, i) {
  const lead = run.lead[i];
  return lead === UNKNOWN_LEAD || Number.isNaN(lead) ? null : run.start[i] - lead;
}

/** What stands in column `name` of the op of span `i` (null: unknown). */
export function opField(run, i, name) {
  return run.about.ops[name][run.op[i]];
}
