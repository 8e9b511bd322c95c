// Playback: a line sweeps over the view in slow motion; with reduced motion it steps from op to op.

import { firstEndingAfter } from "./10_zs_core.mjs";
import { rowsBetween } from "./16_zs_layout.mjs";

const SWEEP_S = 20; // seconds that a whole view lasts at speed 1
const STEP_MS = 700;
const MAX_FRAME_S = 0.1;

/** Playback at rest: `at` is the axis time of the line, null if there is none. */
export const stopped = () => ({ playing: false, at: null, speed: 1, frame: 0 });

/** Starts, or pauses where it is. */
export function togglePlay(tl) {
  const { play } = tl;
  if (play.playing) return pause(tl);
  const inView = play.at !== null && play.at >= tl.view.t0 && play.at < tl.view.t1;
  if (!inView) play.at = Math.max(tl.view.t0, tl.limits.t0);
  play.playing = true;
  play.pace = (tl.view.t1 - tl.view.t0) / SWEEP_S;
  tl.saySpeed();
  if (tl.reducedMotion()) stepOn(tl);
  else sweep(tl, null);
}

/** Stops moving; the line stays. */
export function pause(tl) {
  const { play } = tl;
  play.playing = false;
  cancelAnimationFrame(play.frame);
  clearTimeout(play.timer);
  tl.saySpeed();
}

function sweep(tl, before) {
  tl.play.frame = requestAnimationFrame((now) => {
    if (!tl.play.playing) return;
    const seconds = before === null ? 0 : Math.min(MAX_FRAME_S, (now - before) / 1000);
    advance(tl, tl.play.at + seconds * tl.play.speed * tl.play.pace);
    if (tl.play.playing) sweep(tl, now);
  });
}

function advance(tl, t) {
  const end = tl.limits.t1;
  tl.play.at = Math.min(t, end);
  follow(tl);
  tl.sayNow();
  tl.request("over");
  if (t >= end) pause(tl);
}

function follow(tl) {
  const width = tl.view.t1 - tl.view.t0;
  if (tl.play.at > tl.view.t1) tl.show({ t0: tl.play.at - 0.05 * width, t1: tl.play.at + 0.95 * width });
}

function stepOn(tl) {
  tl.play.timer = setTimeout(() => {
    if (!tl.play.playing) return;
    advance(tl, nextEdge(tl, tl.play.at));
    if (tl.play.playing) stepOn(tl);
  }, STEP_MS / tl.play.speed);
}

/** The next start of a span after axis time `t` on a row in sight; the end of the run if none. */
export function nextEdge(tl, t) {
  let best = tl.limits.t1;
  for (const { run, row } of rowsBetween(tl.layout, tl.scrollY, tl.scrollY + tl.size.plotHeight)) {
    const { start, rowOffsets } = tl.runs[run];
    const { origin, scale } = tl.places[run];
    const local = tl.localTime(run, t);
    let i = firstEndingAfter(tl.runs[run], row, local);
    while (i < rowOffsets[row + 1] && start[i] <= local) i++;
    if (i < rowOffsets[row + 1]) best = Math.min(best, (start[i] - origin) * scale);
  }
  return best;
}
