// What an area holds: how long its ranks computed and communicated, and what nothing hid. Pure.
// As everywhere in zerosim: busy is the union over streams; exposed is communication's union less
// that of compute.

import { firstEndingAfter } from "./10_zs_core.mjs";
import { formatShare } from "./11_zs_time.mjs";

/** Mean shares of [a, b) over the ranks shown: `{compute, communication, exposed}`. */
export function busyIn(run, a, b) {
  const sum = { compute: 0, communication: 0, exposed: 0 };
  let ranks = 0;
  for (const group of run.about.groups) {
    const weight = membersIn(group);
    const compute = union(run, group, "compute", a, b);
    const communication = union(run, group, "communication", a, b);
    const hidden = overlap(compute, communication);
    sum.compute += weight * length(compute);
    sum.communication += weight * length(communication);
    sum.exposed += weight * (length(communication) - hidden);
    ranks += weight;
  }
  const whole = Math.max(1, ranks) * (b - a);
  return Object.fromEntries(Object.entries(sum).map(([name, ns]) => [name, ns / whole]));
}

/** `compute 83.1 %, communication 41.0 %, exposed 9.5 %` in [a, b) of the run. */
export function areaSentence(run, a, b) {
  return Object.entries(busyIn(run, a, b))
    .map(([name, share]) => `${name} ${formatShare(share)}`)
    .join(", ");
}

/** How many ranks a group stands for. */
export function membersIn(group) {
  return group.members.reduce((sum, [first, last]) => sum + last - first + 1, 0);
}

// Disjoint ascending [start, end, start, end, …] of a group's spans of a class, clipped to [a, b).
function union(run, group, wanted, a, b) {
  const { start, duration, kind, rowOffsets, about } = run;
  const found = [];
  for (let row = group.first_row; row < group.first_row + group.n_rows; row++)
    for (let i = firstEndingAfter(run, row, a); i < rowOffsets[row + 1] && start[i] < b; i++)
      if (about.kind_class[kind[i]] === wanted)
        found.push([Math.max(a, start[i]), Math.min(b, start[i] + duration[i])]);
  found.sort((x, y) => x[0] - y[0]);
  const merged = [];
  for (const [from, to] of found) {
    if (merged.length && from <= merged.at(-1)) merged.push(Math.max(merged.pop(), to));
    else merged.push(from, to);
  }
  return merged;
}

function length(merged) {
  let sum = 0;
  for (let k = 0; k < merged.length; k += 2) sum += merged[k + 1] - merged[k];
  return sum;
}

function overlap(x, y) {
  let sum = 0;
  for (let i = 0, j = 0; i < x.length && j < y.length; ) {
    sum += Math.max(0, Math.min(x[i + 1], y[j + 1]) - Math.max(x[i], y[j]));
    if (x[i + 1] < y[j + 1]) i += 2;
    else j += 2;
  }
  return sum;
}
