// What is in sight: layers, layout, theme, the window on the axis, and when to draw it.

import * as time from "./11_zs_time.mjs";
import { inksOf } from "./13_zs_ink.mjs";
import { layout, SIZES } from "./16_zs_layout.mjs";
import { Geometry } from "./20_zs_geometry.mjs";
import { drawGutter, drawHead, headHeight } from "./22_zs_frame.mjs";
import { drawOverlay } from "./23_zs_over.mjs";
import { drawPlot } from "./21_zs_plot.mjs";
import { stopped } from "./27_zs_play.mjs";
import { drawLegend } from "./29_zs_tip.mjs";

const LEAST_PLOT = 120;
const LAYERS = ["gutter", "head", "plot", "over"];

export class View extends Geometry {
  constructor(root, cfg, address) {
    super();
    const find = (part) => root.querySelector(`[data-part="${part}"]`);
    Object.assign(this, { root, cfg, stage: find("stage"), tip: null, legend: find("legend") });
    Object.assign(this, { live: find("live"), now: find("now"), runs: [], ready: false });
    this.align = address.align ?? cfg.align ?? "step";
    this.scale = address.scale ?? cfg.scale ?? "abs";
    this.ranks = address.ranks ?? cfg.ranks ?? "classes";
    Object.assign(this, { showsMemory: cfg.memory ?? true, memoryRank: null, alignOp: null });
    Object.assign(this, { selected: null, area: null, hover: null, dragging: null, scrollY: 0 });
    Object.assign(this, { play: stopped(), strips: new Map(), layoutVersion: 0 });
    Object.assign(this, { dirty: new Set(), frame: 0, drawMs: 0, owed: 0 });
    this.font = getComputedStyle(root).fontFamily;
    this.makeLayers();
  }

  makeLayers() {
    this.layers = {};
    for (const name of LAYERS) {
      const canvas = document.createElement("canvas");
      canvas.className = `zs-tl-layer zs-tl-${name}`;
      canvas.setAttribute("aria-hidden", "true");
      // The plot is written pixel by pixel: a picture kept in memory spares the way to a GPU and back.
      const context = canvas.getContext("2d", { willReadFrequently: name === "plot" });
      this.layers[name] = { canvas, context };
    }
    this.tip = document.createElement("div");
    this.tip.className = "zs-tl-tip";
    this.tip.hidden = true;
    this.stage.replaceChildren(...LAYERS.map((name) => this.layers[name].canvas), this.tip);
  }

  /** Shows `runs`; keeps the view if `keep`, else opens at `view` or at the main step. */
  setRuns(runs, { view, sel, keep = false } = {}) {
    this.runs = runs;
    this.selected = this.area = this.hover = null;
    this.plot = undefined;
    this.place();
    this.setTheme();
    this.resize();
    if (!keep || !this.view) this.view = time.homeView(runs, this.places);
    if (view) this.view = time.clampView(view, this.limits);
    this.ready = true;
    if (sel) this.restore(sel);
    this.request("plot", "head", "gutter", "over");
  }

  place() {
    this.places = time.align(this.runs, this.align, this.scale, this.alignOp);
    this.limits = time.limitsOf(this.runs, this.places);
  }

  setTheme() {
    const scheme = document.documentElement.getAttribute("data-mantine-color-scheme");
    this.theme = scheme === "dark" ? "dark" : "light";
    if (!this.runs.length) return;
    this.inks = inksOf(this.runs[0].about, this.theme);
    drawLegend(this);
    this.request("plot", "head", "gutter", "over");
  }

  resize() {
    if (!this.runs.length) return;
    this.dpr = Math.min(3, window.devicePixelRatio || 1);
    const head = headHeight(this.runs.length);
    const room = Math.max(LEAST_PLOT, (this.cfg.height ?? 520) - head);
    this.layout = layout(this.runs, room, { memory: this.showsMemory });
    const plotWidth = Math.max(100, Math.floor(this.stage.clientWidth) - SIZES.gutter - SIZES.scrollbar);
    this.size = { plotWidth, plotHeight: Math.min(room, this.layout.height), head };
    this.layoutVersion++;
    this.strips.clear();
    this.scrollY = Math.max(0, Math.min(this.scrollY, this.layout.height - this.size.plotHeight));
    this.stage.style.height = `${head + this.size.plotHeight}px`;
    const wide = plotWidth + SIZES.gutter + SIZES.scrollbar;
    this.fit("gutter", 0, head, SIZES.gutter, this.size.plotHeight);
    this.fit("head", 0, 0, wide, head);
    this.fit("plot", SIZES.gutter, head, plotWidth, this.size.plotHeight);
    this.fit("over", 0, 0, wide, head + this.size.plotHeight);
    this.request("plot", "head", "gutter", "over");
  }

  fit(name, x, y, width, height) {
    const { canvas } = this.layers[name];
    canvas.width = Math.round(width * this.dpr);
    canvas.height = Math.round(height * this.dpr);
    canvas.style.cssText = `left:${x}px;top:${y}px;width:${width}px;height:${height}px`;
  }

  /** Asks for layers to be drawn in the next frame, once however often it is asked. */
  request(...layers) {
    for (const layer of layers) this.dirty.add(layer);
    if (!this.frame) this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (!this.ready) return;
    const began = performance.now();
    if (this.dirty.has("plot")) drawPlot(this);
    if (this.dirty.has("head")) drawHead(this);
    if (this.dirty.has("gutter")) drawGutter(this);
    if (this.dirty.has("over")) drawOverlay(this);
    if (this.dirty.has("plot")) this.drawMs = performance.now() - began;
    this.dirty.clear();
  }

  show(view) {
    this.view = time.clampView(view, this.limits);
    this.request("plot", "head", "over");
    this.settle();
  }

  home() {
    this.show(time.homeView(this.runs, this.places));
  }

  zoomAt(x, factor) {
    this.show(time.zoom(this.view, this.axisTime(x), factor, this.limits));
  }

  /** Moves by whole device pixels, so that only the new columns are painted; keeps the rest owed. */
  panBy(cssPixels) {
    const wanted = cssPixels * this.dpr + this.owed;
    const whole = Math.round(wanted);
    this.owed = wanted - whole;
    const px = (this.view.t1 - this.view.t0) / this.layers.plot.canvas.width;
    if (whole) this.show(time.pan(this.view, whole * px, this.limits));
  }

  scrollBy(dy) {
    const most = Math.max(0, this.layout.height - this.size.plotHeight);
    const to = Math.max(0, Math.min(most, Math.round(this.scrollY + dy)));
    if (to === this.scrollY) return;
    this.scrollY = to;
    this.request("plot", "gutter", "over");
  }

  runName(k) {
    return this.cfg.runs[k]?.label ?? this.runs[k].about.name;
  }

  bandText(k) {
    const { about } = this.runs[k];
    const { step, slowest } = time.mainStep(about);
    const [n, all] = [about.n_ranks, about.world_size];
    return [
      about.source,
      `${all > n ? `${n} of ${all}` : n} ${n === 1 ? "rank" : "ranks"}`,
      step === null ? `lasts ${time.formatNs(about.duration_ns)}` : `step ${step}: ${time.formatNs(slowest)}`,
      about.aligned ? null : "clocks not aligned",
      about.finished ? null : "unfinished",
      about.hidden.instant ? `${about.hidden.instant} instant ops in the table only` : null,
      about.hidden.crowded ? `${about.hidden.crowded} overlapping ops in the table only` : null,
    ].filter((part) => part !== null).join("  ·  ");
  }
}
