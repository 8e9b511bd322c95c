// Who feeds whom: the gather before a computation, the reduction after a backward. Pure: no DOM.

import { groupOf, opField } from "./10_zs_core.mjs";

const SEARCH = 5000; // spans looked at on each row: a frame must stay cheap
const COMPUTES = ["forward", "backward", "recompute"];
const REDUCTIONS = ["reduce_scatter", "all_reduce", "reduce"];
const GATHERS = ["all_gather", "broadcast"];

/** Arrows `[from, to]` between span `i` and the spans of its unit and rank that feed it or that it feeds. */
export function flowsOf(run, i) {
  const unit = opField(run, i, "unit");
  if (unit === null) return [];
  const kind = opField(run, i, "kind");
  if (GATHERS.includes(kind)) return arrows(i, null, next(run, i, COMPUTES));
  if (REDUCTIONS.includes(kind)) return arrows(i, previous(run, i, ["backward"]), null);
  if (!COMPUTES.includes(kind)) return [];
  const after = kind === "backward" ? next(run, i, REDUCTIONS) : null;
  return arrows(i, previous(run, i, GATHERS), after);
}

function arrows(i, before, after) {
  const out = [];
  if (before !== null) out.push([before, i]);
  if (after !== null) out.push([i, after]);
  return out;
}

// The first span of the same unit and rank, of one of `kinds`, that starts no earlier than i ends.
function next(run, i, kinds) {
  const from = run.start[i] + run.duration[i];
  let best = null;
  eachRow(run, i, (first, end) => {
    let k = lowerBound(run.start, first, end, from);
    for (const stop = Math.min(end, k + SEARCH); k < stop; k++)
      if (isOf(run, k, i, kinds)) {
        if (best === null || run.start[k] < run.start[best]) best = k;
        return;
      }
  });
  return best;
}

// The last span of the same unit and rank, of one of `kinds`, that ends no later than i starts.
function previous(run, i, kinds) {
  const until = run.start[i];
  let best = null;
  eachRow(run, i, (first, end) => {
    let k = lowerBound(run.start, first, end, until) - 1;
    for (const stop = Math.max(first, k - SEARCH); k >= stop; k--)
      if (run.start[k] + run.duration[k] <= until && isOf(run, k, i, kinds)) {
        if (best === null || run.start[k] > run.start[best]) best = k;
        return;
      }
  });
  return best;
}

function isOf(run, k, i, kinds) {
  return kinds.includes(opField(run, k, "kind")) && opField(run, k, "unit") === opField(run, i, "unit");
}

function eachRow(run, i, visit) {
  const { first_row: first, n_rows: count } = groupOf(run, i);
  for (let row = first; row < first + count; row++)
    visit(run.rowOffsets[row], run.rowOffsets[row + 1]);
}

function lowerBound(array, lo, hi, value) {
  while (lo < hi) {
    const mid = (lo + hi) >>> 1;
    if (array[mid] >= value) hi = mid;
    else lo = mid + 1;
  }
  return lo;
}
