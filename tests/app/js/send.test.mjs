// Sending: slices in order, what is lost sent again, what is refused told in the server's sentence.

import assert from "node:assert/strict";
import { test } from "node:test";
import { send } from "../../../app/zerosim_app/assets/33_zs_send.mjs";
import { chosen, dropped } from "../../../app/zerosim_app/assets/34_zs_dropped.mjs";

const file = (name, text) => ({ name, file: Object.assign(new Blob([text]), { name }) });
const json = (said, status = 200) => new Response(JSON.stringify(said), { status });

/** A server with slices of 4 bytes; `odd(url, nth)` may answer, or throw, in its place. */
function server(odd = () => undefined) {
  const came = [];
  const asked = [];
  async function ask(url, request) {
    request.signal?.throwIfAborted();
    asked.push(`${request.method} ${url}`);
    const strange = odd(url, asked.length);
    if (strange) return strange;
    if (request.method === "POST") {
      came.push(...JSON.parse(request.body).files.map(() => ""));
      return json({ id: "u", slice_bytes: 4 }, 201);
    }
    if (request.method === "DELETE") return json({});
    const [, index, at] = url.match(/(\d+)\?at=(\d+)$/).map(Number);
    if (at !== came[index].length) return json({ error: "no", received: came[index].length }, 409);
    came[index] += await request.body.text();
    return json({ received: came[index].length });
  }
  return { ask, came, asked };
}

const pause = async () => {};

test("files come whole, in slices, and progress counts the bytes of all", async () => {
  const { ask, came, asked } = server();
  const heard = [];
  const told = ({ name, sent, total }) => heard.push(`${name} ${sent}/${total}`);
  assert.equal(await send([file("a", "abcdefghij"), file("b", ""), file("c", "xy")], { ask, told }), "u");
  assert.deepEqual(came, ["abcdefghij", "", "xy"]);
  assert.deepEqual(asked.slice(1), [
    "PUT /api/uploads/u/0?at=0", "PUT /api/uploads/u/0?at=4", "PUT /api/uploads/u/0?at=8",
    "PUT /api/uploads/u/2?at=0",
  ]);
  assert.deepEqual(heard, ["a 0/12", "a 4/12", "a 8/12", "a 10/12", "b 10/12", "c 10/12", "c 12/12"]);
});

test("a slice is sent again while the server cannot be reached", async () => {
  const { ask, came } = server((url, nth) => {
    if (nth === 3 || nth === 4) throw new TypeError("Failed to fetch");
  });
  await send([file("a", "abcdefgh")], { ask, pause });
  assert.deepEqual(came, ["abcdefgh"]);
});

test("a slice whose answer was lost is not put twice", async () => {
  const lost = server();
  let first = true;
  const ask = async (url, request) => {
    const answer = await lost.ask(url, request);
    if (request.method === "PUT" && first) {
      first = false;
      throw new TypeError("Failed to fetch");
    }
    return answer;
  };
  await send([file("a", "abcdefgh")], { ask, pause });
  assert.deepEqual(lost.came, ["abcdefgh"]);
});

test("a server that is gone is told, and not asked for ever", async () => {
  let asked = 0;
  const ask = async () => {
    asked++;
    throw new TypeError("Failed to fetch");
  };
  await assert.rejects(send([file("a", "ab")], { ask, pause }), /is the dashboard still running/);
  assert.equal(asked, 5);
});

test("what the server refuses is told in its words, and what came is given up", async () => {
  const { ask, asked } = server((url) =>
    url.includes("at=4") ? json({ error: "'a' is longer than announced" }, 400) : undefined);
  await assert.rejects(send([file("a", "abcdefgh")], { ask }), /'a' is longer than announced/);
  assert.equal(asked.at(-1), "DELETE /api/uploads/u");
});

test("a file that cannot be read any more is told by its name", async () => {
  const { ask } = server((url) => {
    if (url.includes("at=0")) throw new TypeError("Failed to fetch");
  });
  const gone = { size: 4, name: "a", slice: () => gone, arrayBuffer: async () => { throw new Error("gone"); } };
  await assert.rejects(send([{ name: "a", file: gone }], { ask, pause }), /'a' cannot be read any more/);
});

test("who cancels leaves nothing behind", async () => {
  const ending = new AbortController();
  const { ask, asked } = server((url) => void (url.includes("at=4") && ending.abort()));
  const sending = send([file("a", "abcdefghijkl")], { ask, signal: ending.signal });
  await assert.rejects(sending, { name: "AbortError" });
  assert.equal(asked.filter((each) => each === "DELETE /api/uploads/u").length, 1);
  assert.equal(asked.at(-1), "DELETE /api/uploads/u");
});

const entry = (path, inner) => {
  const name = path.split("/").at(-1);
  if (!inner) return { isFile: true, name, fullPath: path, file: (found) => found(new Blob([name])) };
  const some = [inner.slice(0, 1), inner.slice(1), []];
  return {
    isFile: false, name, fullPath: path,
    createReader: () => ({ readEntries: (found) => found(some.shift()) }),
  };
};

test("a dropped folder is its files in order, hidden ones left out, called by their place", async () => {
  const folder = entry("/run", [
    entry("/run/b.json"), entry("/run/.hidden"), entry("/run/a", [entry("/run/a/0.json")]),
    entry("/run/.git", [entry("/run/.git/x")]),
  ]);
  const items = [folder, entry("/lone.json")].map((each) => ({ webkitGetAsEntry: () => each }));
  const names = (await dropped({ items })).map(({ name }) => name);
  assert.deepEqual(names, ["run/a/0.json", "run/b.json", "lone.json"]);
});

test("files that were chosen bear their names", () => {
  assert.deepEqual(chosen([{ name: "a.json" }]).map(({ name }) => name), ["a.json"]);
});
