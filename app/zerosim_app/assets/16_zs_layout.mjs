// Where things stand: bands, rows and memory tracks of one or two runs, top to bottom. Pure: no DOM.
// All lengths are CSS pixels, whole ones; the painter multiplies them by the device's ratio.

export const SIZES = {
  gutter: 176,
  band: 26,
  ruler: 24,
  strip: 26,
  stripGap: 4,
  lane: 24,
  leastLane: 5,
  scrolledLane: 9,
  memory: 56,
  scrollbar: 10,
};

/**
 * Lays out `runs` for a viewport `room` px high: `{bands, groups, rows, memories, height}`. A row is
 * {run, row, group, y, height}. Lanes shrink until all fits; what cannot fit is scrolled, and then its
 * lanes are made readable instead.
 */
export function layout(runs, room, { memory = true } = {}) {
  const tracks = runs.filter((run) => memory && run.about.memory.length).length;
  const free = room - runs.length * (SIZES.band + 4) - tracks * (SIZES.memory + 8) - 6;
  const styles = runs.map((run) => ({
    laneGap: run.rowCount > 32 ? 1 : 2,
    groupGap: run.about.groups.length > 16 ? 4 : 8,
  }));
  const lanes = laneHeights(runs, styles, free);
  return stack(runs, styles, lanes, memory);
}

// Small runs first: what they do not need of their equal part is left to the bigger ones.
function laneHeights(runs, styles, free) {
  const heights = new Array(runs.length);
  const order = runs.map((_, k) => k).sort((a, b) => runs[a].rowCount - runs[b].rowCount);
  let left = free;
  order.forEach((k, done) => {
    const rows = Math.max(1, runs[k].rowCount);
    const gaps = rows * styles[k].laneGap + runs[k].about.groups.length * styles[k].groupGap;
    const fitting = Math.floor((left / (order.length - done) - gaps) / rows);
    heights[k] = fitting < SIZES.leastLane ? SIZES.scrolledLane : Math.min(SIZES.lane, fitting);
    left -= heights[k] * rows + gaps;
  });
  return heights;
}

function stack(runs, styles, lanes, memory) {
  const out = { bands: [], groups: [], rows: [], memories: [], firstOf: [] };
  let y = 0;
  runs.forEach((run, k) => {
    const { laneGap, groupGap } = styles[k];
    out.firstOf.push(out.rows.length); // a run's rows stand in their own order, none left out
    out.bands.push({ run: k, y, height: SIZES.band });
    y += SIZES.band + 4;
    run.about.groups.forEach((group, g) => {
      const top = y;
      for (let row = group.first_row; row < group.first_row + group.n_rows; row++) {
        out.rows.push({ run: k, row, group: g, y, height: lanes[k] });
        y += lanes[k] + laneGap;
      }
      out.groups.push({ run: k, group: g, y: top, height: y - laneGap - top, lane: lanes[k] });
      y += groupGap;
    });
    if (memory && run.about.memory.length) {
      out.memories.push({ run: k, y, height: SIZES.memory });
      y += SIZES.memory + 8;
    }
  });
  return { ...out, height: y };
}

/** The row at height `y` of the content, or null in a gap. */
export function rowAt({ rows }, y) {
  let lo = 0;
  let hi = rows.length;
  while (lo < hi) {
    const mid = (lo + hi) >>> 1;
    if (rows[mid].y + rows[mid].height <= y) lo = mid + 1;
    else hi = mid;
  }
  return lo < rows.length && rows[lo].y <= y ? rows[lo] : null;
}

/** The rows that are at least partly between `top` and `bottom`. */
export function rowsBetween({ rows }, top, bottom) {
  return rows.filter((row) => row.y + row.height > top && row.y < bottom);
}

/** The place of row `row` of run `run`. */
export function placeOf({ rows, firstOf }, run, row) {
  return rows[firstOf[run] + row] ?? null;
}

/** How lanes are called beside their rows. */
export function laneName(lane, sub) {
  if (sub > 0) return "";
  return lane.replaceAll("_", "-");
}
