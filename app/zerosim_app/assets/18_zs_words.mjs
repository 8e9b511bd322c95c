// What the timeline says: the facts of a span and of a pixel's shares; sentences. Pure.

import { firstEndingAfter, groupOf, issuedOf, membersOf, opField, rowOf, waitingOf } from "./10_zs_core.mjs";
import { exactNs, formatBytes, formatNs, formatShare } from "./11_zs_time.mjs";

const FLAGS = [
  [1, "has no time of its own"],
  [2, "never ended"],
  [4, "launched before the recording"],
  [8, "mended"],
];

/** How a kind is written: `all-gather`. */
export const kindName = (kind) => kind.replaceAll("_", "-");

/** `{title, kind, role, facts: [[label, value]]}` of span `i`: everything known of it. */
export function factsOf(run, i) {
  const field = (name) => opField(run, i, name);
  const row = run.about.rows[rowOf(run, i)];
  const facts = [
    ["rank", groupOf(run, i).label],
    ["stream", kindName(field("stream") ?? row.lane)],
    ["unit", field("unit") ?? "unknown"],
    ["start", exactNs(run.start[i])],
    ["duration", withShort(run.duration[i])],
    ["issued", issuedText(run, i)],
  ];
  if (run.collective[i] >= 0 || field("group") !== null) facts.push(...collectiveFacts(run, i));
  const flags = FLAGS.filter(([bit]) => run.flags[i] & bit).map(([, text]) => text);
  if (flags.length) facts.push(["note", flags.join(", ")]);
  return { title: field("name"), kind: kindName(field("kind")), role: run.role[i], facts };
}

function withShort(ns) {
  return ns >= 1000 ? `${exactNs(ns)} (${formatNs(ns)})` : exactNs(ns);
}

function issuedText(run, i) {
  const issued = issuedOf(run, i);
  if (issued === null) return "unknown";
  const ahead = run.start[i] - issued;
  return ahead > 0 ? `${exactNs(issued)} (${formatNs(ahead)} ahead)` : exactNs(issued);
}

function collectiveFacts(run, i) {
  const wire = opField(run, i, "wire_bytes");
  const dtype = opField(run, i, "dtype");
  return [
    ["waiting", run.collective[i] < 0 ? "unknown" : withShortOrUnknown(waitingOf(run, i))],
    ["bytes", `${formatBytes(opField(run, i, "nbytes"))}${dtype ? ` of ${dtype}` : ""}`],
    ["sent", formatBytes(wire)],
    ["group", opField(run, i, "group") ?? "unknown"],
  ];
}

const withShortOrUnknown = (ns) => (ns === null ? "unknown" : withShort(ns));

/** One sentence on span `i`, for the details line and for those who listen. */
export function sentenceOf(run, i) {
  const unit = opField(run, i, "unit");
  const waited = waitingOf(run, i);
  const members = membersOf(run, i).length;
  const bytes = opField(run, i, "nbytes");
  return [
    `${opField(run, i, "name")}: ${kindName(opField(run, i, "kind"))}`,
    unit === null ? null : `unit ${unit}`,
    groupOf(run, i).label,
    `starts at ${exactNs(run.start[i])}`,
    `takes ${withShort(run.duration[i])}`,
    waited ? `of which ${formatNs(waited)} waiting for the last rank` : null,
    bytes === null ? null : formatBytes(bytes),
    members > 1 ? `${members} members outlined` : null,
  ]
    .filter((part) => part !== null)
    .join(", ");
}

/** `{title, facts, parts: [[role, share]]}` of one pixel that shows shares instead of spans. */
export function shareFacts(run, row, { shares, t0, t1 }) {
  const parts = [...shares]
    .map((ns, role) => [role, ns / (t1 - t0)])
    .filter(([, share]) => share > 0)
    .sort((a, b) => b[1] - a[1]);
  const n = countBetween(run, row, t0, t1);
  return {
    title: `${n} ${n === 1 ? "span" : "spans"} in ${formatNs(t1 - t0)}`,
    facts: parts.map(([role, share]) => [roleName(run.about, role, kindsOf(run)), formatShare(share)]),
    parts,
    n,
  };
}

function countBetween(run, row, a, b) {
  const { start, rowOffsets } = run;
  let lo = firstEndingAfter(run, row, a);
  const first = lo;
  let hi = rowOffsets[row + 1];
  while (lo < hi) {
    const mid = (lo + hi) >>> 1;
    if (start[mid] >= b) hi = mid;
    else lo = mid + 1;
  }
  return lo - first;
}

/** The kinds that occur in a run. */
export function kindsOf(run) {
  return (run.kinds ??= new Set(run.kind));
}

/**
 * How a role is called in full: `all-gather`. One that stands for others alone has their names: what
 * is drawn as an all-reduce, or as a forward, must not be called one.
 */
export function roleName(about, role, kinds) {
  const { key } = about.roles[role];
  if (key === "idle") return "waiting, host";
  const drawn = [...kinds].filter((kind) => about.kind_role[kind] === role).map((kind) => about.kinds[kind]);
  if (!drawn.length || drawn.includes(key)) return kindName(key);
  return drawn.map((kind) => (kind === "other" ? "compute" : kindName(kind))).join(", ");
}
