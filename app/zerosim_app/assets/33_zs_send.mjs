// Sends files to the server in slices, one after the other; a slice that was lost is sent again.

const RETRIES = 4;
const PAUSE_MS = 700;

/**
 * Sends `files` ([{name, file}]) and returns the id under which the server keeps them.
 * `told({name, sent, total})` hears how far it is, in bytes of all files. Throws Error with a sentence,
 * or an AbortError once `signal` says so; then nothing stays on the server.
 */
export async function send(files, { signal, told = () => {}, ask = fetch, pause = wait }) {
  const total = files.reduce((sum, { file }) => sum + file.size, 0);
  const announced = files.map(({ name, file }) => ({ name, size: file.size }));
  const to = { ask, pause, signal };
  const begun = await answer(to, "/api/uploads", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ files: announced }),
  });
  // At once: a page that is being closed hears nothing more.
  signal?.addEventListener("abort", () => giveUp(begun.id, ask), { once: true });
  try {
    let before = 0;
    for (const [index, each] of files.entries()) {
      const way = { ...to, url: `/api/uploads/${begun.id}/${index}`, size: begun.slice_bytes };
      await sendOne(way, each, (sent) => told({ name: each.name, sent: before + sent, total }));
      before += each.file.size;
    }
  } catch (error) {
    if (!signal?.aborted) giveUp(begun.id, ask);
    throw error;
  }
  return begun.id;
}

/** Tells the server to delete what came; heard even if the page is being closed. */
export function giveUp(id, ask = fetch) {
  ask(`/api/uploads/${id}`, { method: "DELETE", keepalive: true }).catch(() => {});
}

async function sendOne(way, { name, file }, told) {
  let at = 0;
  told(at);
  while (at < file.size) {
    const body = file.slice(at, at + way.size);
    const { received } = await answer(way, `${way.url}?at=${at}`, { method: "PUT", body }, file);
    // Behind what was known: an answer was lost. Before it: the server never says so.
    if (!(received > at)) throw new Error(`'${name}' cannot be sent: drop it again`);
    at = received;
    told(at);
  }
}

/** What the server answers; asked again while it cannot be reached. */
async function answer({ ask, pause, signal }, url, request, file) {
  for (let tries = 0; ; tries++) {
    let response;
    try {
      response = await ask(url, { ...request, signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      if (file) await readable(file, request.body);
      if (tries === RETRIES)
        throw new Error("the server does not answer: is the dashboard still running?");
      await pause(PAUSE_MS * 2 ** tries, signal);
      continue;
    }
    const said = await response.json().catch(() => null);
    if (response.ok || said?.received !== undefined) return said;
    throw new Error(said?.error ?? `the server answered ${response.status}: reload the page`);
  }
}

// Browsers say of a file that was changed or moved only that nothing could be fetched.
async function readable(file, body) {
  try {
    await body.slice(0, 1).arrayBuffer();
  } catch {
    throw new Error(`'${file.name}' cannot be read any more: was it moved or changed? Drop it again`);
  }
}

function wait(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("given up", "AbortError"));
    });
  });
}
