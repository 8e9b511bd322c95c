// The time axis: zoom, pan, ticks, aligning two runs, numbers as people read them. Pure: no DOM.

export const MIN_VIEW_NS = 100;

/** The view zoomed by `factor` (< 1: closer) around time `at`, kept within `limits`. */
export function zoom({ t0, t1 }, at, factor, limits) {
  const wide = limits.t1 - limits.t0;
  const width = Math.min(wide, Math.max(MIN_VIEW_NS, (t1 - t0) * factor));
  const share = (at - t0) / (t1 - t0);
  return clampView({ t0: at - share * width, t1: at + (1 - share) * width }, limits);
}

/** The view moved so that it stays within `limits`, never wider than they are. */
export function clampView({ t0, t1 }, limits) {
  const width = Math.min(t1 - t0, limits.t1 - limits.t0);
  const from = Math.min(Math.max(t0, limits.t0), limits.t1 - width);
  return { t0: from, t1: from + width };
}

/** The view moved by `ns`. */
export function pan({ t0, t1 }, ns, limits) {
  return clampView({ t0: t0 + ns, t1: t1 + ns }, limits);
}

/** 1, 2 or 5 times a power of ten, the smallest that is at least `least`. */
export function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  const steps = [1, 2, 5, 10].map((digit) => digit * power);
  return steps.find((step) => step >= least * (1 - 1e-9));
}

const UNITS = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

/**
 * Ticks of a ruler: `{anchor, ticks: [{t, label}], step}`. Far from zero and close up, labels count
 * from the `anchor`, `{t, label}`, which is null where they count from zero.
 */
export function ticks(t0, t1, count) {
  const step = Math.max(1, niceStep((t1 - t0) / Math.max(1, count)));
  const far = Math.max(Math.abs(t0), Math.abs(t1)) / step > 2e4;
  const coarse = 1000 * step;
  const zero = far ? Math.floor(t0 / coarse) * coarse : 0;
  const marks = [];
  for (let k = Math.ceil((t0 - zero) / step); zero + k * step <= t1; k++)
    marks.push({ t: zero + k * step, label: tickLabel(k * step, step, far) });
  return { step, ticks: marks, anchor: far ? { t: zero, label: anchorLabel(zero) } : null };
}

function tickLabel(ns, step, relative) {
  const sign = relative && ns >= 0 ? "+" : "";
  if (ns === 0) return `${sign}0`;
  const [size, unit] = UNITS.find(([size]) => Math.abs(ns) >= size) ?? [1, "ns"];
  const digits = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
  return `${sign}${trim((ns / size).toFixed(digits))} ${unit}`;
}

const trim = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

function anchorLabel(ns) {
  const [size, unit] = UNITS.find(([size]) => Math.abs(ns) >= size) ?? [1, "ns"];
  return `${ns / size} ${unit}`;
}

/** Ticks in percent of `whole` ns, for runs scaled to equal length. */
export function percentTicks(t0, t1, count, whole) {
  const step = niceStep((((t1 - t0) / whole) * 100) / Math.max(1, count));
  const digits = Math.max(0, Math.ceil(-Math.log10(step)));
  const marks = [];
  for (let k = Math.ceil(((t0 / whole) * 100) / step); (k * step * whole) / 100 <= t1; k++)
    marks.push({ t: (k * step * whole) / 100, label: `${(k * step).toFixed(digits)} %` });
  return { step: (step * whole) / 100, ticks: marks, anchor: null };
}

/** `1.5 ms`, three significant digits; `unknown` for null. */
export function formatNs(ns) {
  if (ns === null || ns === undefined) return "unknown";
  const [size, unit] = UNITS.find(([size]) => Math.abs(ns) >= size) ?? [1, "ns"];
  const value = ns / size;
  return `${Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-US") : +value.toPrecision(3)} ${unit}`;
}

/** `1,234,567 ns`: exact. */
export function exactNs(ns) {
  return ns === null ? "unknown" : `${Math.round(ns).toLocaleString("en-US")} ns`;
}

/** `61.4 MB`, decimal; `unknown` for null. */
export function formatBytes(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  for (const [size, unit] of [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]])
    if (Math.abs(bytes) >= size) return `${+(bytes / size).toPrecision(3)} ${unit}`;
  return `${bytes} B`;
}

/** `12.3 %`. */
export function formatShare(share) {
  return `${(100 * share).toFixed(1)} %`;
}

/**
 * The step to look at first, that whose figures stand for the run, else the first, else the whole run:
 * {step, t0, t1, slowest}, from the first rank's start to the last one's end, `slowest` of one rank.
 */
export function mainStep({ steps, main_step: main, duration_ns: whole }) {
  const found = steps.find(([step]) => step === main) ?? steps[0] ?? [null, 0, whole, whole];
  const [step, t0, t1, slowest] = found;
  return { step, t0, t1: t1 > t0 ? t1 : whole, slowest };
}

/**
 * How each run lies on the common axis: axis = (t - origin) * scale. One run lies as it is. Two are
 * laid over each other at the start of their main step, its first forward (`F0`), or its first op
 * called `opName`; scale `norm` makes their main steps as long as the first one's.
 */
export function align(runs, mode, scale, opName = null) {
  if (runs.length === 1) return [{ origin: 0, scale: 1 }];
  const steps = runs.map((run) => mainStep(run.about));
  const length = (step) => Math.max(1, step.t1 - step.t0);
  return runs.map((run, k) => ({
    origin: anchorOf(run, steps[k].t0, mode, opName),
    scale: scale === "norm" ? length(steps[0]) / length(steps[k]) : 1,
  }));
}

function anchorOf(run, from, mode, opName) {
  if (mode === "step") return from;
  const { ops, kinds } = run.about;
  const forward = kinds.indexOf("forward");
  let first = Infinity;
  let named = Infinity;
  for (let i = 0; i < run.n; i++) {
    if (run.start[i] < from) continue;
    if (run.kind[i] === forward && run.start[i] < first) first = run.start[i];
    if (mode === "op" && run.start[i] < named && ops.name[run.op[i]] === opName)
      named = run.start[i];
  }
  const found = mode === "op" && named < Infinity ? named : first;
  return found < Infinity ? found : from;
}

/** The common axis from its first to its last moment, with a little air at both ends. */
export function limitsOf(runs, places) {
  const edges = runs.map((run, k) => [
    (0 - places[k].origin) * places[k].scale,
    (run.about.duration_ns - places[k].origin) * places[k].scale,
  ]);
  const t0 = Math.min(...edges.map((edge) => edge[0]));
  const t1 = Math.max(...edges.map((edge) => edge[1]));
  const air = Math.max(MIN_VIEW_NS / 2, (t1 - t0) * 0.01);
  return { t0: t0 - air, t1: t1 + air };
}

/** The first view: the main step of all runs. */
export function homeView(runs, places) {
  const edges = runs.map((run, k) => {
    const { t0, t1 } = mainStep(run.about);
    return [t0, t1].map((t) => (t - places[k].origin) * places[k].scale);
  });
  const t0 = Math.min(...edges.map((edge) => edge[0]));
  const t1 = Math.max(...edges.map((edge) => edge[1]));
  const air = Math.max(MIN_VIEW_NS / 2, (t1 - t0) * 0.01);
  return clampView({ t0: t0 - air, t1: t1 + air }, limitsOf(runs, places));
}
