// Paints rows into a pixel buffer: spans, waiting, share stacks. Pure: no DOM.
// `target` is {pixels: Uint32Array, stride}; x counts device pixels from the left of the plot.

import { BLOCK, firstEndingAfter } from "./10_zs_core.mjs";
import { addShares, ownedPixels } from "./12_zs_lod.mjs";

const GAP_FROM = 4; // a narrower span has no gap after it, or it would look idle
const HATCH = 5;

/** Reusable memory for one row of `width` pixels. */
export function makeScratch(width, nRoles) {
  return {
    nRoles,
    acc: new Float64Array(width * nRoles),
    touched: new Uint32Array(width),
    waits: [],
  };
}

/**
 * Paints pixels xa..xb of `row`, `height` high from `y`. `view`: {t0, px, phase}, ns of the run;
 * `phase` is how far the picture has moved since the hatch began, so that the hatch moves with it.
 */
export function paintRow(target, scratch, run, row, view, ink, place) {
  const { pixels, stride } = target;
  const { y, height, xa, xb } = place;
  const line = y * stride;
  pixels.fill(ink.bedPixel, line + xa, line + xb);
  scratch.waits.length = 0;
  const brief = paintOwners(pixels, line, scratch.waits, run, row, view, ink, xa, xb);
  for (let k = 1; k < height; k++)
    pixels.copyWithin(line + k * stride + xa, line + xa, line + xb);
  for (let k = 0; k < scratch.waits.length; k += 3)
    paintHatch(target, scratch.waits, k, y, height, view.phase, ink);
  if (!brief) return;
  const { t0, px } = view;
  addShares(run, row, t0, px, xa, xb, px, scratch.acc, scratch.touched);
  paintShares(target, scratch, px, ink, place);
}

function paintOwners(pixels, line, waits, run, row, view, ink, xa, xb) {
  const { start, duration, role, collective, transfer, rowOffsets, blockLongest } = run;
  const { t0, px } = view;
  const end = rowOffsets[row + 1];
  const until = t0 + xb * px;
  let brief = false;
  let i = firstEndingAfter(run, row, t0 + xa * px);
  while (i < end && start[i] < until) {
    if (i % BLOCK === 0 && blockLongest[i / BLOCK] < px) {
      brief = true;
      i += BLOCK;
      continue;
    }
    if (duration[i] < px) brief = true;
    else {
      const [a, b] = clipped(start[i], duration[i], t0, px, xa, xb);
      if (b > a) pixels.fill(ink.rolePixel[role[i]], line + a, line + b);
      const c = collective[i];
      if (c >= 0 && transfer[c] > start[i]) {
        const w = Math.min(b, Math.floor((transfer[c] - t0) / px + 0.5));
        if (w > a) waits.push(a, w, role[i]);
      }
    }
    i++;
  }
  return brief;
}

function clipped(startNs, durationNs, t0, px, xa, xb) {
  const [a, b] = ownedPixels(startNs, durationNs, t0, px);
  const end = b - a >= GAP_FROM ? b - 1 : b;
  return [a < xa ? xa : a, end > xb ? xb : end];
}

function paintHatch({ pixels, stride }, waits, k, y, height, phase, ink) {
  const [a, b, role] = [waits[k], waits[k + 1], waits[k + 2]];
  const pale = ink.palePixel[role];
  const dark = ink.hatchPixel[role];
  for (let dy = 0; dy < height; dy++) {
    const at = (y + dy) * stride;
    for (let x = a; x < b; x++)
      pixels[at + x] = (((x + phase + dy) % HATCH) + HATCH) % HATCH === 0 ? dark : pale;
  }
}

// Stacked from the bottom in the order of roles; the top pixel is blended, so that heights are exact.
function paintShares({ pixels, stride }, { acc, touched, nRoles }, px, ink, place) {
  const { y, height, xa, xb } = place;
  const { rolePixel, blend, blendSteps, bedPixel } = ink;
  const tall = height / px;
  for (let x = xa; x < xb; x++) {
    let roles = touched[x];
    if (roles === 0) continue;
    touched[x] = 0;
    let at = (y + height - 1) * stride + x;
    const free = pixels[y * stride + x] === bedPixel;
    let top = 0;
    let drawn = 0;
    while (roles !== 0) {
      const role = 31 - Math.clz32(roles & -roles);
      roles &= roles - 1;
      top += acc[x * nRoles + role] * tall;
      acc[x * nRoles + role] = 0;
      if (!free) continue;
      for (; drawn + 0.5 <= top && drawn < height; drawn++, at -= stride)
        pixels[at] = rolePixel[role];
      if (drawn < height && drawn < top)
        pixels[at] = blend[role * blendSteps + (((top - drawn) * blendSteps) | 0)];
    }
  }
}
