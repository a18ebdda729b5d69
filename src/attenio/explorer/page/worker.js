// Python in a worker: one request after the other, the newest of a kind first to be answered and older ones dropped.
importScripts("pyodide/pyodide.js");

let respond = null, prepare = null;
const waiting = new Map();

async function bytes(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
}

async function start() {
  const [python, numpy, attenio] = await Promise.all([
    loadPyodide({ indexURL: "pyodide/" }), bytes("numpy.zip"), bytes("attenio.zip"),
  ]);
  const place = { extractDir: "/lib/python3.12/site-packages" };
  python.unpackArchive(numpy, "zip", place);
  python.unpackArchive(attenio, "zip", place);
  python.runPython("import sys; sys.dont_write_bytecode = True\nfrom attenio.explorer import accept_wide_counts, prepare, respond\naccept_wide_counts()");
  respond = python.globals.get("respond");
  prepare = python.globals.get("prepare");
  postMessage({ view: "ready" });
  work();
}

function work() {
  if (respond === null) return;
  for (const [view, request] of waiting) {
    waiting.delete(view);
    const begin = performance.now();
    let answer;
    try {
      answer = JSON.parse(respond(JSON.stringify({ view, address: request.address })));
    } catch (problem) {
      answer = { error: `Python stopped: ${String(problem.message).trim().split("\n").pop()}` };
    }
    postMessage({ view, address: request.address, answer, milliseconds: performance.now() - begin });
    setTimeout(work, 0); // let newer requests in
    return;
  }
  if (prepare !== null) { prepare(); prepare = null; } // once, when there is nothing to answer
}

onmessage = (event) => {
  waiting.delete(event.data.view);
  waiting.set(event.data.view, event.data);
  work();
};

start().catch((problem) => postMessage({ view: "broken", answer: { error: String(problem.message).trim().split("\n").pop() } }));
