// Finds timelines in the page (class `zs-tl`, attribute `data-cfg`), starts them, ends them, and
// offers `window.zsTimeline` to tests. Imported once: what it starts is told by `window.zsTimeline`.

import { groupOf, opField } from "./10_zs_core.mjs";
import { kindsOf, roleName } from "./18_zs_words.mjs";
import { listenToPointer } from "./24_zs_pointer.mjs";
import { listenToKeys } from "./25_zs_keys.mjs";
import { readAddress } from "./26_zs_address.mjs";
import { loadRun } from "./28_zs_load.mjs";
import { Timeline } from "./31_zs_timeline.mjs";
import { savePng } from "./32_zs_png.mjs";

const mounted = new Map();
let current = null;
let loaded;
let ready = new Promise((resolve) => (loaded = resolve));

function scan() {
  for (const [root, entry] of mounted) if (!root.isConnected) unmount(root, entry);
  for (const root of document.querySelectorAll(".zs-tl[data-cfg]")) {
    const text = root.dataset.cfg;
    const entry = mounted.get(root);
    if (entry?.text === text) continue;
    const cfg = parse(text);
    if (!cfg?.runs?.length) continue;
    if (entry) change(entry, text, cfg);
    else mount(root, text, cfg);
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function mount(root, text, cfg) {
  const address = cfg.address === false ? {} : readAddress(window.location.search);
  const tl = new Timeline(root, cfg, address);
  const ending = new AbortController();
  const entry = { tl, text, ending };
  mounted.set(root, entry);
  current = entry;
  tl.onRanks = () => load(entry, { keep: true });
  tl.onState = () => showState(tl);
  tl.savePng = () => savePng(tl);
  listenToPointer(tl, ending.signal);
  listenToKeys(tl, ending.signal);
  const resized = new ResizeObserver(() => tl.ready && root.isConnected && tl.resize());
  resized.observe(tl.stage);
  ending.signal.addEventListener("abort", () => resized.disconnect());
  load(entry, { view: address.view, sel: address.sel });
}

function unmount(root, entry) {
  mounted.delete(root);
  entry.ending.abort();
  entry.loading?.abort();
  entry.tl.stop();
  if (current === entry) {
    current = null;
    ready = new Promise((resolve) => (loaded = resolve));
  }
}

function change(entry, text, cfg) {
  const { tl } = entry;
  const urls = ({ runs }) => JSON.stringify(runs.map((run) => run.url));
  const same = urls(cfg) === urls(tl.cfg);
  const before = tl.cfg;
  entry.text = text;
  tl.cfg = cfg;
  if (!same || (cfg.ranks ?? tl.ranks) !== (before.ranks ?? tl.ranks)) {
    tl.ranks = cfg.ranks ?? tl.ranks;
    load(entry, { keep: same });
    return;
  }
  if (cfg.memory !== before.memory) tl.showsMemory = cfg.memory ?? true;
  tl.resize();
  if (cfg.align !== before.align || cfg.scale !== before.scale)
    tl.setAlign(cfg.align ?? "step", cfg.scale ?? "abs");
  showState(tl);
}

async function load(entry, options) {
  const { tl } = entry;
  entry.loading?.abort();
  const loading = (entry.loading = new AbortController());
  tl.root.dataset.state = "loading";
  try {
    const runs = await Promise.all(
      tl.cfg.runs.map((run) => loadRun(run.url, tl.ranks, loading.signal)),
    );
    if (loading.signal.aborted) return;
    tl.root.dataset.state = "ready";
    tl.setRuns(runs, options);
    tl.draw();
    showState(tl);
    if (options.keep) tl.settle();
    if (entry === current) loaded(window.zsTimeline);
  } catch (error) {
    if (error.name !== "AbortError" && !loading.signal.aborted) fail(tl, error);
  }
}

function fail(tl, error) {
  tl.root.dataset.state = "failed";
  const box = tl.root.querySelector('[data-part="problem"]');
  box.textContent = error.message;
}

// Buttons say what they will do; those that can do nothing are off.
function showState(tl) {
  const find = (name) => tl.root.querySelector(name);
  const ranks = find('[data-act="ranks"]');
  const play = find('[data-act="play"]');
  const memory = find('[data-act="memory"]');
  const folded = tl.runs.some((run) => run.about.groups.length < run.about.n_ranks);
  ranks.textContent = tl.ranks === "all" ? "Collapse ranks" : "Expand ranks";
  ranks.disabled = tl.ranks === "classes" && !folded;
  play.textContent = tl.play.playing ? "Pause" : "Play";
  memory.disabled = !tl.runs.some((run) => run.about.memory.length);
  memory.setAttribute("aria-pressed", String(tl.showsMemory && !memory.disabled));
  for (const [name, value] of Object.entries({ align: tl.align, scale: tl.scale, speed: tl.play.speed })) {
    const choice = find(`[data-choice="${name}"]`);
    if (choice) choice.value = value;
  }
}

function spanRecord(tl, run, i) {
  const spans = tl.runs[run];
  const field = (name) => opField(spans, i, name);
  return {
    run, i, span: spans.index[i], rank: groupOf(spans, i).rank, name: field("name"), kind: field("kind"),
    unit: field("unit"), start_ns: spans.start[i], duration_ns: spans.duration[i],
  };
}

function client(tl, { x, y, width, height }) {
  const box = tl.stage.getBoundingClientRect();
  return { x: x + box.left, y: y + box.top, width, height };
}

/**
 * The test hook; stable. Places are client pixels, `i` counts a run's spans in the order of spans.bin.
 * ready: resolves when drawn · count(run) · span(run, i) · screenRect(run, i), null if it has no row ·
 * spanAt(x, y): a span's record, `{run, row, shares: {role: share}}` for an aggregated pixel, or null ·
 * view(): {t0, t1} in whole ns as in the address · setView(t0, t1), drawn at once · reveal(run, i) ·
 * stats(): {drawMs of the last frame with spans, spans, rows} · timeline(): the object itself.
 */
function hook() {
  const tl = () => {
    if (!current?.tl.ready) throw new Error("no timeline is ready: await zsTimeline.ready");
    return current.tl;
  };
  return {
    get ready() { return ready; },
    timeline: tl,
    count: (run) => tl().runs[run].n,
    span: (run, i) => spanRecord(tl(), run, i),
    spanAt(x, y) {
      const box = tl().stage.getBoundingClientRect();
      const found = tl().shown(x - box.left, y - box.top);
      if (!found) return null;
      if (found.span !== undefined) return spanRecord(tl(), found.run, found.span);
      const run = tl().runs[found.run];
      const entries = [...found.shares].map((ns, role) => [roleName(run.about, role, kindsOf(run)), ns / (found.t1 - found.t0)]);
      return { run: found.run, row: found.row, shares: Object.fromEntries(entries.filter(([, s]) => s > 0)) };
    },
    screenRect(run, i) {
      const rect = tl().rectOf(run, i);
      return rect && client(tl(), rect);
    },
    view: () => tl().rounded(),
    setView(t0, t1) {
      tl().show({ t0, t1 });
      tl().draw();
    },
    reveal(run, i) {
      tl().reveal(run, i);
      tl().draw();
    },
    stats: () => ({
      drawMs: tl().drawMs,
      spans: tl().runs.reduce((sum, run) => sum + run.n, 0),
      rows: tl().layout.rows.length,
    }),
  };
}

if (!window.zsTimeline) {
  window.zsTimeline = hook();
  const start = () => {
    new MutationObserver(scan).observe(document.body, {
      subtree: true, childList: true, attributes: true, attributeFilter: ["data-cfg"],
    });
    new MutationObserver(() => mounted.forEach(({ tl }) => tl.setTheme())).observe(
      document.documentElement, { attributes: true, attributeFilter: ["data-mantine-color-scheme"] });
    scan();
  };
  if (document.body) start();
  else document.addEventListener("DOMContentLoaded", start);
}
