// Builds small runs for the tests, through the same bytes that the server sends.

import { decodeSamples, decodeSpans, makeRun } from "../../../app/zerosim_app/assets/10_zs_core.mjs";

export const KINDS = ["forward", "backward", "all_gather", "reduce_scatter", "optimizer", "host"];
const COLOURS = ["#41619e", "#06168d", "#c68524", "#b91c1a", "#55a47a", "#c9cfd5"];
const CLASSES = ["compute", "compute", "communication", "communication", "compute", "host"];
const UNKNOWN = -(2 ** 31);
const swatch = (light, dark) => ({ label: "", light, dark, hatched: false });

const THEME = {
  background: swatch("#ffffff", "#1a1b1e"),
  ink: swatch("#1f2933", "#e3e6ea"),
  muted: swatch("#5b6670", "#a3abb3"),
  grid: swatch("#e4e8ec", "#33363a"),
  runs: [swatch("#0b7285", "#3bc9db"), swatch("#9c36b5", "#da77f2")],
};

/** spans.bin of `rows`, each a list of {start, duration, kind, collective, lead, index, flags, op}. */
export function encodeSpans(rows, transfers = [], wide = false) {
  const spans = rows.flat();
  const n = spans.length;
  const bytes = 32 + n * (wide ? 38 : 30) + transfers.length * 8 + (rows.length + 1) * 4;
  const buffer = new ArrayBuffer(bytes);
  const head = new DataView(buffer);
  head.setUint32(0, 0x5a53504e);
  [1, n, rows.length, transfers.length, wide ? 1 : 0].forEach((v, k) =>
    head.setUint32(4 + 4 * k, v, true),
  );
  let at = 32;
  const put = (Kind, values) => {
    new Kind(buffer, at, values.length).set(values);
    at += values.length * Kind.BYTES_PER_ELEMENT;
  };
  const column = (name, otherwise) => spans.map((span, i) => span[name] ?? otherwise(i));
  put(Float64Array, column("start"));
  put(Float64Array, transfers);
  put(wide ? Float64Array : Uint32Array, column("duration"));
  put(wide ? Float64Array : Int32Array, column("lead", () => (wide ? NaN : UNKNOWN)));
  let offset = 0;
  put(Uint32Array, [0, ...rows.map((row) => (offset += row.length))]);
  put(Uint32Array, column("index", (i) => i));
  put(Int32Array, column("collective", () => -1));
  put(Uint32Array, column("op", (i) => i));
  put(Uint8Array, column("kind", () => 0));
  put(Uint8Array, column("flags", () => 0));
  return buffer;
}

/** samples.bin of [[time, value], …]. */
export function encodeSamples(samples) {
  const buffer = new ArrayBuffer(16 + 16 * samples.length);
  const head = new DataView(buffer);
  head.setUint32(0, 0x5a534d50);
  [1, samples.length].forEach((v, k) => head.setUint32(4 + 4 * k, v, true));
  new Float64Array(buffer, 16).set([...samples.map((s) => s[0]), ...samples.map((s) => s[1])]);
  return buffer;
}

/**
 * A run of one group a rank, `rowsOf[g]` its rows; spans may name {name, unit, nbytes, stream}.
 * `more` overrides entries of timeline.json.
 */
export function buildRun(rowsOf, { transfers = [], samples = [], lanes, ...more } = {}) {
  const rows = rowsOf.flat();
  const spans = rows.flat();
  let first = 0;
  const groups = rowsOf.map((list, rank) => {
    const group = { label: `rank ${rank}`, rank, members: [[rank, rank]], first_row: first, n_rows: list.length };
    first += list.length;
    return group;
  });
  const names = lanes ?? ["compute", "all_gather", "reduce_scatter"];
  const lane = rowsOf.flatMap((list, group) => list.map((_, k) => ({ group, lane: names[k], sub: 0 })));
  const op = (name, otherwise) => spans.map((span, i) => span[name] ?? otherwise(span, i));
  const about = {
    id: "made", name: "made", source: "simulated", aligned: true, finished: true, world_size: null, hidden: { instant: 0, crowded: 0 },
    duration_ns: Math.max(1, ...spans.map((s) => s.start + s.duration)),
    n_ranks: rowsOf.length, n_classes: 0, groups, rows: lane, steps: [], main_step: null, memory: [],
    kinds: KINDS, kind_role: KINDS.map((_, k) => k), kind_class: CLASSES, theme: THEME,
    roles: KINDS.map((key, k) => ({ key, label: key[0].toUpperCase(), light: COLOURS[k], dark: COLOURS[k] })),
    ops: {
      name: op("name", (_, i) => `op${i}`),
      kind: op("kindName", (s) => KINDS[s.kind ?? 0]),
      unit: op("unit", () => null),
      stream: op("stream", () => null),
      group: op("group", () => null),
      dtype: op("dtype", () => null),
      nbytes: op("nbytes", () => null),
      wire_bytes: op("wire_bytes", () => null),
    },
    ...more,
  };
  return makeRun(about, decodeSpans(encodeSpans(rows, transfers)), decodeSamples(encodeSamples(samples)));
}

/** A small pseudo-random stream in [0, 1), the same on every machine. */
export function randoms(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** A row of `n` spans without overlap, kinds below `nKinds`. */
export function randomRow(random, n, nKinds, longest = 100, widestGap = 40) {
  const row = [];
  let t = 0;
  for (let i = 0; i < n; i++) {
    t += Math.floor(random() * widestGap);
    const duration = 1 + Math.floor(random() * longest);
    row.push({ start: t, duration, kind: Math.floor(random() * nKinds) });
    t += duration;
  }
  return row;
}
