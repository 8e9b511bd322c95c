// Level of detail: what each pixel of a row shows. Its oracle is zerosim/analysis/lod.py. Pure.
// A span of a pixel or more owns the pixels it rounds to; shorter ones become shares of a pixel.

import { BLOCK, firstEndingAfter } from "./10_zs_core.mjs";

/** Adds the clipped time of each role in [a, b) ns of `row` to `out`, in ns. */
export function sharesBetween(run, row, a, b, out) {
  const { start, duration, role, rowOffsets } = run;
  const end = rowOffsets[row + 1];
  for (let i = firstEndingAfter(run, row, a); i < end && start[i] < b; i++)
    out[role[i]] += Math.min(b, start[i] + duration[i]) - Math.max(a, start[i]);
  return out;
}

/**
 * Adds to `acc` (width x nRoles) the ns of each role in each pixel from `xa` to `xb`, for spans
 * shorter than `limit` ns; pixel x stands for [t0 + x*px, t0 + (x+1)*px). `touched[x]` gets the bit
 * of each role that was added.
 */
export function addShares(run, row, t0, px, xa, xb, limit, acc, touched) {
  const { start, duration, role, nRoles, blockShare } = run;
  const end = run.rowOffsets[row + 1] | 0;
  const from = t0 + xa * px;
  const until = t0 + xb * px;
  let i = firstEndingAfter(run, row, from);
  let x = xa;
  let edge = from + px;
  while (i < end) {
    const s = start[i];
    if (s >= until) return;
    if (s >= edge) {
      x = Math.floor((s - t0) / px);
      if (x >= xb) x = xb - 1;
      edge = t0 + (x + 1) * px;
    }
    if ((i & (BLOCK - 1)) === 0 && i + BLOCK <= end && s >= from
        && start[i + BLOCK - 1] + duration[i + BLOCK - 1] <= edge) {
      addBlock(acc, touched, x, blockShare, i / BLOCK, nRoles);
      i += BLOCK;
      continue;
    }
    const ns = duration[i];
    const k = role[i];
    i++;
    if (ns >= limit) continue;
    const e = s + ns;
    if (e <= edge && s >= from) {
      acc[x * nRoles + k] += ns;
      touched[x] |= 1 << k;
    } else {
      x = spread(acc, touched, nRoles, k, s < from ? from : s, e, t0, px, x, xb);
      edge = t0 + (x + 1) * px;
    }
  }
}

function addBlock(acc, touched, x, blockShare, block, nRoles) {
  for (let k = 0; k < nRoles; k++) {
    const ns = blockShare[block * nRoles + k];
    if (ns === 0) continue;
    acc[x * nRoles + k] += ns;
    touched[x] |= 1 << k;
  }
}

// Adds [s, e) pixel by pixel from pixel x on; the answer is the last pixel reached.
function spread(acc, touched, nRoles, role, s, e, t0, px, x, xb) {
  let left = s;
  for (; ; x++) {
    const edge = t0 + (x + 1) * px;
    const right = e < edge ? e : edge;
    if (right > left) {
      acc[x * nRoles + role] += right - left;
      touched[x] |= 1 << role;
    }
    if (e <= edge || x + 1 >= xb) return x;
    left = edge;
  }
}

/** The first and the after-last pixel of a span that owns pixels. */
export function ownedPixels(startNs, durationNs, t0, px) {
  return [
    Math.floor((startNs - t0) / px + 0.5),
    Math.floor((startNs + durationNs - t0) / px + 0.5),
  ];
}

/** What a pixel of `row` shows: `{span}`, `{shares, t0, t1}` (ns by role) or null for idle. */
export function shownAt(run, row, t, column, px, reach) {
  const { start, duration, rowOffsets } = run;
  const i = firstEndingAfter(run, row, t);
  if (i < rowOffsets[row + 1] && start[i] <= t && duration[i] >= px) return { span: i };
  const shares = sharesBetween(run, row, column, column + px, new Float64Array(run.nRoles));
  const near = nearestOwner(run, row, t, px, reach);
  if (shares.some((ns) => ns > 0) && !(near >= 0 && ownsColumn(run, near, column, px)))
    return { shares, t0: column, t1: column + px };
  return near >= 0 ? { span: near } : null;
}

function ownsColumn(run, i, column, px) {
  const [a, b] = ownedPixels(run.start[i], run.duration[i], column, px);
  return a <= 0 && b >= 1;
}

function nearestOwner(run, row, t, px, reach) {
  const { start, duration, rowOffsets } = run;
  let best = -1;
  let distance = reach;
  const after = firstEndingAfter(run, row, t);
  for (let i = after; i < rowOffsets[row + 1] && start[i] - t <= distance; i++)
    if (duration[i] >= px) {
      distance = Math.max(0, start[i] - t);
      best = i;
      break;
    }
  for (let i = after - 1; i >= rowOffsets[row] && t - start[i] - duration[i] < distance; i--)
    if (duration[i] >= px) return i;
  return best;
}

/** Calls `found(i, a, b)` for spans of `row` at least `least` pixels wide that are in [0, width). */
export function eachWide(run, row, t0, px, width, least, found) {
  const { start, duration, rowOffsets, blockLongest } = run;
  const end = rowOffsets[row + 1];
  const until = t0 + width * px;
  const shortest = least * px;
  let i = firstEndingAfter(run, row, t0);
  while (i < end && start[i] < until) {
    if (i % BLOCK === 0 && blockLongest[i / BLOCK] < shortest) {
      i += BLOCK;
      continue;
    }
    if (duration[i] >= shortest) found(i, ...ownedPixels(start[i], duration[i], t0, px));
    i++;
  }
}
