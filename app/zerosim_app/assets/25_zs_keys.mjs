// What the keys and the toolbar's buttons do; keys count only while the timeline has the focus.

import { rowOf } from "./10_zs_core.mjs";

const PAN = 0.12;
const ZOOM = 1.35;

const KEYS = {
  w: (tl) => tl.zoomAt(tl.pointerX(), 1 / ZOOM),
  s: (tl) => tl.zoomAt(tl.pointerX(), ZOOM),
  a: (tl) => tl.panBy(-PAN * tl.size.plotWidth),
  d: (tl) => tl.panBy(PAN * tl.size.plotWidth),
  "+": (tl) => tl.zoomAt(tl.middleX(), 1 / ZOOM),
  "=": (tl) => tl.zoomAt(tl.middleX(), 1 / ZOOM),
  "-": (tl) => tl.zoomAt(tl.middleX(), ZOOM),
  ArrowLeft: (tl) => tl.panBy(-PAN * tl.size.plotWidth),
  ArrowRight: (tl) => tl.panBy(PAN * tl.size.plotWidth),
  ArrowUp: (tl) => tl.scrollBy(-40),
  ArrowDown: (tl) => tl.scrollBy(40),
  PageUp: (tl) => tl.scrollBy(-tl.size.plotHeight),
  PageDown: (tl) => tl.scrollBy(tl.size.plotHeight),
  Home: (tl) => tl.home(),
  ",": (tl) => stepOnRow(tl, -1),
  ".": (tl) => stepOnRow(tl, 1),
  f: (tl) => (tl.selected || tl.area ? tl.fitSelected() : tl.home()),
  " ": (tl) => tl.togglePlay(),
  Escape: (tl) => tl.clear(),
};

const ACTS = {
  fit: (tl) => tl.home(),
  whole: (tl) => tl.show(tl.limits),
  in: KEYS["+"],
  out: KEYS["-"],
  ranks: (tl) => tl.setRanks(tl.ranks === "all" ? "classes" : "all"),
  memory: (tl) => tl.toggleMemory(),
  play: (tl) => tl.togglePlay(),
  png: (tl) => tl.savePng(),
};

const CHOICES = {
  speed: (tl, value) => tl.setSpeed(Number(value)),
  align: (tl, value) => tl.setAlign(value, tl.scale),
  scale: (tl, value) => tl.setAlign(tl.align, value),
};

/** Listens to keys on the focused root and to its toolbar until `signal` ends. */
export function listenToKeys(tl, signal) {
  const options = { signal };
  tl.root.addEventListener("keydown", (event) => key(tl, event), options);
  tl.root.addEventListener("click", (event) => {
    const act = event.target.closest?.("[data-act]")?.dataset.act;
    if (tl.ready && act in ACTS) ACTS[act](tl);
  }, options);
  tl.root.addEventListener("change", (event) => {
    const choice = event.target.dataset?.choice;
    if (tl.ready && choice in CHOICES) CHOICES[choice](tl, event.target.value);
  }, options);
}

function key(tl, event) {
  if (!tl.ready || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target !== tl.root) return;
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (!Object.hasOwn(KEYS, name)) return;
  event.preventDefault();
  KEYS[name](tl);
}

// The neighbour on the row; without a selection, the first span in sight.
function stepOnRow(tl, by) {
  if (!tl.selected) {
    const first = tl.firstInSight();
    if (first) tl.select(first.run, first.span);
    return;
  }
  const { run, span } = tl.selected;
  const { rowOffsets } = tl.runs[run];
  const row = rowOf(tl.runs[run], span);
  const to = Math.min(rowOffsets[row + 1] - 1, Math.max(rowOffsets[row], span + by));
  tl.select(run, to);
  tl.reveal(run, to);
}
