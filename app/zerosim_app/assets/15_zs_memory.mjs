// The memory track: the range of a counter in each pixel, and its picture. Pure: no DOM.

import { pixelOf, mix } from "./13_zs_ink.mjs";
import { niceStep } from "./11_zs_time.mjs";

/** Views of the samples of one series of timeline.json's `memory`. */
export function seriesOf(run, record) {
  const slice = (array) => array.subarray(record.offset, record.offset + record.n);
  return { ...record, time: slice(run.samples.time), value: slice(run.samples.value) };
}

/** The series to show: that of `rank` if it has one, else the one with the highest peak, or null. */
export function chooseSeries(run, rank) {
  const all = run.about.memory;
  if (!all.length) return null;
  const own = all.find((record) => record.rank === rank);
  const peak = all.reduce((best, record) => (record.peak > best.peak ? record : best));
  return seriesOf(run, own ?? peak);
}

/** What is counted, in words: `in use`. */
export function counterName({ counter }) {
  return counter.replace(/^memory\./, "").replaceAll("_", " ");
}

/** Lowest and highest value in each pixel xa..xb into `low`, `high`; NaN before the first sample. */
export function envelope({ time, value }, t0, px, xa, xb, low, high) {
  let i = firstAfter(time, t0 + xa * px);
  let current = i > 0 ? value[i - 1] : NaN;
  for (let x = xa; x < xb; x++) {
    const until = t0 + (x + 1) * px;
    let lo = current;
    let hi = current;
    for (; i < time.length && time[i] < until; i++) {
      current = value[i];
      if (!(lo <= current)) lo = current;
      if (!(hi >= current)) hi = current;
    }
    low[x] = lo;
    high[x] = hi;
  }
}

/** How many of ascending `time` are at most `t`. */
export function firstAfter(time, t) {
  let lo = 0;
  let hi = time.length;
  while (lo < hi) {
    const mid = (lo + hi) >>> 1;
    if (time[mid] <= t) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

/** The value from time `t` on; null before the first sample. */
export function valueAt({ time, value }, t) {
  const after = firstAfter(time, t);
  return after > 0 ? value[after - 1] : null;
}

/** The top of the scale: a round number of at least `peak` bytes. */
export function scaleTop(peak) {
  return peak > 0 ? Math.ceil(peak / niceStep(peak / 4)) * niceStep(peak / 4) : 1;
}

/** Colours of the track in the run's own colour. */
export function memoryInk(colour, ink) {
  return {
    bed: ink.bedPixel,
    area: pixelOf(mix(colour, ink.bed, 0.16)),
    band: pixelOf(mix(colour, ink.bed, 0.42)),
    line: pixelOf(colour),
  };
}

/** Paints pixels xa..xb: area up to the lowest value, a band to the highest, a line on top of it. */
export function paintMemory({ pixels, stride }, series, view, colours, place) {
  const { y, height, xa, xb, low, high } = place;
  envelope(series, view.t0, view.px, xa, xb, low, high);
  const top = scaleTop(series.peak);
  const level = (value) => Math.round((1 - Math.max(0, value) / top) * (height - 2));
  for (let dy = 0; dy < height; dy++)
    pixels.fill(colours.bed, (y + dy) * stride + xa, (y + dy) * stride + xb);
  for (let x = xa; x < xb; x++) {
    if (Number.isNaN(high[x])) continue;
    const yHigh = level(high[x]);
    const yLow = level(low[x]);
    for (let dy = yHigh; dy < height; dy++) {
      const colour = dy < yHigh + 2 ? colours.line : dy <= yLow ? colours.band : colours.area;
      pixels[(y + dy) * stride + x] = colour;
    }
  }
}
