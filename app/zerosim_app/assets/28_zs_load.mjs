// Fetches runs: timeline.json, then the bytes it names, from the same server.

import { decodeSamples, decodeSpans, makeRun } from "./10_zs_core.mjs";

/** The run behind `url` (…/timeline.json) with `ranks`. Throws Error with the server's sentence. */
export async function loadRun(url, ranks, signal) {
  const address = new URL(url, window.location.href);
  if (ranks) address.searchParams.set("ranks", ranks);
  const about = await (await get(address, signal)).json();
  const [spans, samples] = await Promise.all(
    [about.spans_url, about.samples_url].map(async (relative) =>
      (await get(new URL(relative, address), signal)).arrayBuffer(),
    ),
  );
  return makeRun(about, decodeSpans(spans), decodeSamples(samples));
}

async function get(address, signal) {
  let response;
  try {
    response = await fetch(address, { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("the server does not answer: is the dashboard still running?");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => null);
  throw new Error(said?.error ?? `the server answered ${response.status}: reload the page`);
}

/** Tells Dash: sets `data` of the store `id`, where there is a Dash. */
export function tell(id, data) {
  window.dash_clientside?.set_props?.(id, { data });
}
