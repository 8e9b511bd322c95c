// The timeline: one or two runs on one axis. What one can do with it: select, measure, play, share.

import { findIndex, firstEndingAfter, groupOf, opField, rowOf } from "./10_zs_core.mjs";
import * as time from "./11_zs_time.mjs";
import { rowsBetween } from "./16_zs_layout.mjs";
import { sentenceOf } from "./18_zs_words.mjs";
import { areaSentence } from "./19_zs_area.mjs";
import { spansAt } from "./23_zs_over.mjs";
import { replaceAddress } from "./26_zs_address.mjs";
import * as playback from "./27_zs_play.mjs";
import { tell } from "./28_zs_load.mjs";
import { drawTip } from "./29_zs_tip.mjs";
import { View } from "./30_zs_view.mjs";

const SETTLE_MS = 120;

export class Timeline extends View {
  restore({ run, index, rank }) {
    if (run >= this.runs.length) return;
    const i = findIndex(this.runs[run], index, rank);
    if (i >= 0) this.select(run, i);
  }

  setHover(place) {
    if (!place && !this.hover) return;
    const track = place && this.trackUnder(place.y);
    this.hover = place && { ...place, ...(this.shown(place.x, place.y) ?? {}), track };
    drawTip(this);
    this.request("over");
  }

  selectAt(x, y) {
    const found = this.shown(x, y);
    if (found?.span !== undefined) this.select(found.run, found.span);
    else this.clear();
  }

  select(run, span) {
    const spans = this.runs[run];
    this.selected = { run, span };
    this.area = null;
    this.memoryRank = groupOf(spans, span).rank;
    this.say(sentenceOf(spans, span));
    if (this.align === "op" && this.runs.length > 1) this.setAlign("op", this.scale);
    this.tellSelected();
    this.request("plot", "gutter", "over");
    this.settle();
  }

  tellSelected() {
    const { run, span } = this.selected;
    const spans = this.runs[run];
    const field = (name) => opField(spans, span, name);
    this.tellStore("sel", {
      type: "span", run, run_id: spans.about.id, span: spans.index[span],
      rank: groupOf(spans, span).rank, name: field("name"), kind: field("kind"), unit: field("unit"),
      start_ns: spans.start[span], duration_ns: spans.duration[span],
    });
  }

  clear() {
    if (this.selected || this.area) this.tellStore("sel", null);
    this.selected = this.area = null;
    if (this.play.playing) playback.pause(this);
    this.play.at = null;
    this.say("");
    this.now.textContent = "";
    this.request("over");
    this.settle();
  }

  fitSelected() {
    const target = this.area ?? this.axisSpan(this.selected);
    const air = Math.max(time.MIN_VIEW_NS, target.t1 - target.t0) * (this.area ? 0.05 : 1.5);
    this.show({ t0: target.t0 - air, t1: target.t1 + air });
    if (this.selected) this.reveal(this.selected.run, this.selected.span);
  }

  axisSpan({ run, span }) {
    const { start, duration } = this.runs[run];
    return { t0: this.toAxis(run, start[span]), t1: this.toAxis(run, start[span] + duration[span]) };
  }

  /** Moves view and rows just so far that span `i` is in sight. */
  reveal(run, i) {
    const { t0, t1 } = this.axisSpan({ run, span: i });
    const width = this.view.t1 - this.view.t0;
    if (t1 < this.view.t0 + width * 0.02 || t0 > this.view.t1 - width * 0.02)
      this.show({ t0: (t0 + t1 - width) / 2, t1: (t0 + t1 + width) / 2 });
    const place = this.placeOfRow(run, rowOf(this.runs[run], i));
    if (place.y < this.scrollY) this.scrollBy(place.y - this.scrollY - 8);
    const below = place.y + place.height - this.scrollY - this.size.plotHeight;
    if (below > 0) this.scrollBy(below + 8);
  }

  firstInSight() {
    for (const { run, row } of rowsBetween(this.layout, this.scrollY, this.scrollY + this.size.plotHeight)) {
      const span = firstEndingAfter(this.runs[run], row, this.localTime(run, this.view.t0));
      if (span < this.runs[run].rowOffsets[row + 1]) return { run, span };
    }
    return null;
  }

  spansAt(t) {
    return spansAt(this, t);
  }

  setArea(area) {
    this.area = area;
    this.selected = null;
    this.request("over");
  }

  /** Says what the measured area holds, and tells the page. */
  sayArea() {
    const { t0, t1 } = this.area;
    const parts = this.runs.map((run, k) => {
      const name = this.runs.length > 1 ? `${"AB"[k]}: ` : "";
      return `${name}${areaSentence(run, this.localTime(k, t0), this.localTime(k, t1))}`;
    });
    this.say(`Area of ${time.exactNs(t1 - t0)} (${time.formatNs(t1 - t0)}). Busy: ${parts.join("; ")}`);
    const runs = this.runs.map((run, k) => ({
      run_id: run.about.id, t0_ns: Math.round(this.localTime(k, t0)), t1_ns: Math.round(this.localTime(k, t1)),
    }));
    this.tellStore("sel", { type: "area", runs });
  }

  setRanks(ranks) {
    this.ranks = ranks;
    this.onRanks?.();
  }

  setAlign(align, scale) {
    const at = this.view;
    const home = time.homeView(this.runs, this.places);
    const wasHome = Math.abs(at.t0 - home.t0) + Math.abs(at.t1 - home.t1) < 1;
    Object.assign(this, { align, scale });
    if (this.selected) this.alignOp = opField(this.runs[this.selected.run], this.selected.span, "name");
    this.place();
    this.strips.clear();
    this.layoutVersion++;
    this.show(wasHome ? time.homeView(this.runs, this.places) : at);
  }

  toggleMemory() {
    this.showsMemory = !this.showsMemory;
    this.resize();
    this.onState?.();
  }

  togglePlay() {
    playback.togglePlay(this);
  }

  setSpeed(speed) {
    if (speed > 0 && speed <= 16) this.play.speed = speed;
    this.saySpeed();
  }

  reducedMotion() {
    return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  saySpeed() {
    const { playing, pace, speed } = this.play;
    this.onState?.();
    if (playing) this.say(`Playing: one second shows ${time.formatNs(pace * speed)}`);
  }

  sayNow() {
    const names = this.spansAt(this.play.at).slice(0, 12).map(({ run, span }) => opField(this.runs[run], span, "name"));
    this.now.textContent = `${time.formatNs(this.play.at)}   ${[...new Set(names)].join(" · ")}`;
  }

  say(sentence) {
    this.live.textContent = sentence;
  }

  /** After a pause in the movement, writes the view into the address and tells the page. */
  settle() {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.publish(), SETTLE_MS);
  }

  publish() {
    if (!this.root.isConnected) return;
    const sel = this.selected && {
      run: this.selected.run,
      index: this.runs[this.selected.run].index[this.selected.span],
      rank: groupOf(this.runs[this.selected.run], this.selected.span).rank,
    };
    const { align, scale, ranks, view } = this;
    if (this.cfg.address !== false)
      replaceAddress({ view, sel, align, scale, ranks, compares: this.runs.length > 1 });
    this.tellStore("view", { ...this.rounded(), ranks, align, scale, runs: this.windows() });
  }

  /** The view in whole ns, as it stands in the address. */
  rounded() {
    return { t0: Math.round(this.view.t0), t1: Math.round(this.view.t1) };
  }

  windows() {
    return this.runs.map((run, k) => ({
      run_id: run.about.id,
      t0_ns: Math.round(this.localTime(k, this.view.t0)),
      t1_ns: Math.round(this.localTime(k, this.view.t1)),
    }));
  }

  tellStore(part, data) {
    tell(`${this.cfg.prefix}-${part}`, data);
  }

  stop() {
    playback.pause(this);
    this.ready = false;
    clearTimeout(this.settling);
    cancelAnimationFrame(this.frame);
  }
}
