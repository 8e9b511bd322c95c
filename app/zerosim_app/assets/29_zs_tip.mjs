// The box at the pointer and the legend: DOM from facts, text only.

import { formatBytes, formatNs } from "./11_zs_time.mjs";
import { chooseSeries, counterName, valueAt } from "./15_zs_memory.mjs";
import { factsOf, kindsOf, roleName, shareFacts } from "./18_zs_words.mjs";

const AWAY = 16;

const element = (tag, className, text) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};

/** Shows, moves or hides the box, by what is under the pointer. */
export function drawTip(tl) {
  const { hover, tip } = tl;
  const content = hover && !tl.dragging ? contentOf(tl, hover) : null;
  tip.hidden = content === null;
  if (!content) return;
  tip.replaceChildren(...content);
  const box = tl.stage.getBoundingClientRect();
  const flip = hover.x + AWAY + tip.offsetWidth > box.width;
  const x = flip ? hover.x - AWAY - tip.offsetWidth : hover.x + AWAY;
  const lowest = window.innerHeight - box.top - tip.offsetHeight - 8;
  const y = hover.y + AWAY <= lowest ? hover.y + AWAY : Math.max(-box.top, hover.y - AWAY - tip.offsetHeight);
  tip.style.transform = `translate(${Math.round(Math.max(2, x))}px, ${Math.round(y)}px)`;
}

function contentOf(tl, hover) {
  if (hover.track) return memoryContent(tl, hover);
  if (hover.span !== undefined) {
    const { title, kind, role, facts } = factsOf(tl.runs[hover.run], hover.span);
    return [heading(tl, role, title, kind), list(facts)];
  }
  if (hover.shares) {
    const { title, facts, parts } = shareFacts(tl.runs[hover.run], hover.row, hover);
    return [heading(tl, parts[0][0], title, "shares of this pixel"), list(facts)];
  }
  return null;
}

function memoryContent(tl, { track, x }) {
  const series = chooseSeries(tl.runs[track.run], tl.memoryRank);
  const t = tl.localTime(track.run, tl.axisTime(x));
  const head = element("div", "zs-tl-tip-head");
  head.append(element("strong", "", "memory"), element("span", "", `${counterName(series)}, rank ${series.rank}`));
  const facts = [
    ["at", formatNs(t)],
    ["bytes", formatBytes(valueAt(series, t))],
    ["peak", formatBytes(series.peak)],
  ];
  return [head, list(facts)];
}

function heading(tl, role, title, kind) {
  const head = element("div", "zs-tl-tip-head");
  const chip = element("i", "zs-tl-chip");
  chip.style.background = tl.inks.roles[role];
  head.append(chip, element("strong", "", title), element("span", "", kind));
  return head;
}

function list(facts) {
  const box = element("dl", "zs-tl-facts");
  for (const [label, value] of facts)
    box.append(element("dt", "", label), element("dd", "", String(value)));
  return box;
}

/** Fills the legend with the roles that occur, and waiting. */
export function drawLegend(tl) {
  const { about } = tl.runs[0];
  const kinds = new Set(tl.runs.flatMap((run) => [...kindsOf(run)]));
  const used = new Set([...kinds].map((kind) => about.kind_role[kind]));
  const entries = [...used]
    .sort((a, b) => a - b)
    .map((role) => legendEntry(tl, about, role, kinds));
  tl.legend.replaceChildren(...entries, ...waitingEntry(tl));
}

function legendEntry(tl, about, role, kinds) {
  const entry = element("span", "zs-tl-key");
  const { label, key } = about.roles[role];
  const own = label !== "-" && [...kinds].some((kind) => about.kinds[kind] === key);
  const chip = element("i", "zs-tl-chip zs-tl-chip-label", own ? label : "");
  chip.style.background = tl.inks.roles[role];
  chip.style.color = tl.inks.onRole[role];
  entry.append(chip, element("span", "", roleName(about, role, kinds)));
  return entry;
}

function waitingEntry(tl) {
  const waits = tl.runs.some((run) => run.collective.some((c, i) => c >= 0 && run.transfer[c] > run.start[i]));
  if (!waits) return [];
  const entry = element("span", "zs-tl-key");
  entry.append(element("i", "zs-tl-chip zs-tl-chip-wait"), element("span", "", "waiting for a rank"));
  return [entry];
}
