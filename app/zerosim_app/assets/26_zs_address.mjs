// The view in the address bar: t0, t1, sel, ranks, align, scale. Pure but for the last function.

const ALIGNS = ["step", "F0", "op"];
const SCALES = ["abs", "norm"];
const RANKS = /^(all|classes|\d+(-\d+)?(,\d+(-\d+)?)*)$/;

/** What a query string says of the view; what is unknown or malformed is left out. */
export function readAddress(query) {
  const params = new URLSearchParams(query);
  const [t0, t1] = ["t0", "t1"].map((name) => whole(params.get(name)));
  const sel = /^([01])\.(\d{1,10})\.(\d{1,9})$/.exec(params.get("sel") ?? "");
  const pick = (name, known) => (known.includes(params.get(name)) ? params.get(name) : undefined);
  const ranks = params.get("ranks");
  return {
    view: t0 !== null && t1 !== null && t1 > t0 ? { t0, t1 } : undefined,
    sel: sel ? { run: +sel[1], index: +sel[2], rank: +sel[3] } : undefined,
    align: pick("align", ALIGNS),
    scale: pick("scale", SCALES),
    ranks: ranks && RANKS.test(ranks) ? ranks : undefined,
  };
}

function whole(text) {
  if (text === null || !/^-?\d{1,16}$/.test(text)) return null;
  return Number(text);
}

/** `query` with the view written into it; other parameters stay, defaults are left out. */
export function writeAddress(query, { view, sel, align, scale, ranks, compares }) {
  const params = new URLSearchParams(query);
  const set = (name, value, fallback) =>
    value === undefined || value === null || value === fallback
      ? params.delete(name)
      : params.set(name, value);
  set("t0", view ? Math.round(view.t0) : null);
  set("t1", view ? Math.round(view.t1) : null);
  set("sel", sel ? `${sel.run}.${sel.index}.${sel.rank}` : null);
  set("ranks", ranks, "classes");
  set("align", compares ? align : null, "step");
  set("scale", compares ? scale : null, "abs");
  const text = params.toString();
  return text ? `?${text}` : "";
}

/** Puts the view into the address bar without a new page. */
export function replaceAddress(state) {
  const { pathname, search, hash } = window.location;
  const next = writeAddress(search, state);
  if (next !== search) window.history.replaceState(window.history.state, "", pathname + next + hash);
}
