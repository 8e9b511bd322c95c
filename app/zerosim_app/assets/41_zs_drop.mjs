// The zone for dropping files (class `zs-drop`, attribute `data-drop` with its ids): takes files, sends
// them, says how far that is, and tells Dash the id of what was sent.

import { dropped, chosen } from "./34_zs_dropped.mjs";
import { send } from "./33_zs_send.mjs";

let sending = null;

function scan() {
  const zone = document.querySelector(".zs-drop");
  if (zone && !zone.querySelector("input")) mount(zone);
  if (sending && !sending.zone.isConnected) sending.ending.abort();
}

function mount(zone) {
  const input = document.createElement("input");
  Object.assign(input, { type: "file", multiple: true });
  input.setAttribute("aria-label", "Choose trace files");
  zone.append(input);
  input.addEventListener("change", () => {
    const files = chosen(input.files);
    input.value = ""; // the same file may be chosen again
    take(zone, Promise.resolve(files));
  });
  let inside = 0;
  const active = (by) => {
    inside = Math.max(0, by ? inside + by : 0);
    zone.classList.toggle("zs-drop-active", inside > 0);
  };
  zone.addEventListener("dragenter", () => active(1));
  zone.addEventListener("dragleave", () => active(-1));
  zone.addEventListener("drop", (event) => {
    active(0);
    take(zone, dropped(event.dataTransfer));
  });
}

async function take(zone, finding) {
  if (sending) return;
  const ending = new AbortController();
  sending = { zone, ending };
  show(true);
  try {
    say("Looking at what was dropped …");
    const files = await finding;
    if (!files.length) throw new Error("nothing was dropped: choose at least one file");
    const id = await send(files, { signal: ending.signal, told });
    say("");
    set("runs-progress", { children: "" });
    window.dash_clientside.set_props("runs-upload", { data: id });
  } catch (error) {
    say(error.name === "AbortError" ? "Nothing was sent." : error.message, error.name !== "AbortError");
  } finally {
    sending = null;
    show(false);
  }
}

function told({ name, sent, total }) {
  const share = total ? Math.floor((100 * sent) / total) : 100;
  if (share === sending.share && name === sending.name) return;
  Object.assign(sending, { share, name });
  set("runs-bar", { value: String(share) });
  say(`Sending ${name}: ${share} % of ${size(total)} …`);
}

function size(nbytes) {
  const [unit, of] = [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]].find(([, of]) => nbytes >= of) ?? ["B", 1];
  return `${Number((nbytes / of).toPrecision(3))} ${unit}`;
}

function show(busy) {
  set("runs-sending", { hidden: !busy });
  set("runs-bar", { value: "0" });
  const input = document.querySelector(".zs-drop input");
  if (input) input.disabled = busy;
  document.querySelector(".zs-drop")?.classList.toggle("zs-drop-busy", busy);
}

function say(text, failed = false) {
  const span = { className: failed ? "zs-failed" : "", children: text };
  set("runs-sent", {
    children: text && { type: "Span", namespace: "dash_html_components", props: span },
  });
}

// Answers may come after another page was opened: it has none of these parts.
function set(id, props) {
  if (document.getElementById(id)) window.dash_clientside.set_props(id, props);
}

if (!window.zsDrop) {
  window.zsDrop = true;
  const start = () => {
    new MutationObserver(scan).observe(document.body, { subtree: true, childList: true });
    scan();
  };
  // A file that misses the zone would be opened in the place of the page.
  for (const kind of ["dragover", "drop"])
    window.addEventListener(kind, (event) => {
      if (document.querySelector(".zs-drop") && event.dataTransfer?.types.includes("Files"))
        event.preventDefault();
    });
  window.addEventListener("beforeunload", (event) => sending && event.preventDefault());
  window.addEventListener("pagehide", () => sending?.ending.abort());
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("#runs-cancel")) sending?.ending.abort();
  });
  if (document.body) start();
  else document.addEventListener("DOMContentLoaded", start);
}
