// The page: choices to an address and back, requests to the worker, answers to the page. The address has every choice.
"use strict";

const form = document.getElementById("choices"), at = (id) => document.getElementById(id);
const worker = new Worker("worker.js");
const defaults = { n: "128K", d: "64", machine: "attenio-512k" };
let latest = null, sent = 0, rows = {}, game = null, pending = null;
const film = new Film("film", (brush, k) => drawRows(brush, film.frames[k], rows), (k) => {
  const frame = film.frames[k], span = frame.rows.length ? `rows ${frame.rows[0]} to ${frame.rows[frame.rows.length - 1]} of ` : "";
  const what = frame.kind === "compute" ? `compute ${frame.step}` : `${frame.kind} ${span}${frame.operand}, ${frame.words} words`;
  return `${what}; so far ${frame.loaded_words} words loaded, ${frame.stored_words} stored`;
});
const pebbles = new Film("game", (brush, k) => drawGame(brush, game, k), (k) => {
  const frame = game.frames[k];
  return `${frame.move}; ${frame.cost_words} words moved, ${frame.red_words} red`;
});

function address() {
  const said = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value.trim() && defaults[name] !== value.trim()) said.set(name, value.trim());
  if (said.has("fast")) said.delete("machine");
  return said.toString();
}

function read(query) {
  const said = new URLSearchParams(query);
  for (const field of form.elements) {
    if (!field.name) continue;
    const value = said.get(field.name) ?? defaults[field.name] ?? "";
    if (field.type === "checkbox") field.checked = ["1", "true", "on"].includes(value);
    else if (field.tagName === "SELECT" && value && ![...field.options].some((each) => each.value === value)) {
      const unknown = element("option", `${value} (unknown)`); unknown.value = value; field.append(unknown); field.value = value;
    } else field.value = value;
  }
  slide();
}

function slide() {
  const size = (text) => { const m = /^([\d.]+)\s*([KMGT]?)I?B?$/i.exec(text.trim()); return m ? m[1] * 1024 ** " KMGT".indexOf(m[2].toUpperCase() || " ") : NaN; };
  const n = Math.log2(size(form.elements.n.value)), fast = Math.log2(size(form.elements.fast.value));
  if (Number.isFinite(n)) at("n-slider").value = n;
  if (Number.isFinite(fast)) at("fast-slider").value = fast;
}

function ask(query = address(), unknown = null) {
  const url = query ? `?${query}` : location.pathname;
  if (location.search.slice(1) !== query) history.replaceState(null, "", url);
  sent = performance.now(); latest = unknown ?? query;
  worker.postMessage({ view: "plan", address: latest });
  clearTimeout(pending);
  pending = setTimeout(() => ["curve", "frames", "timeline", "pebbles"].forEach((view) => worker.postMessage({ view, address: latest })), 60);
}

const shown = {
  ready() { at("status").textContent = "Ready."; worker.postMessage({ view: "choices", address: "" }); },
  broken(answer) { problem(`The page could not start: ${answer.error}`); },
  choices(answer) {
    for (const machine of answer.machines) { const each = element("option", machine.name); each.value = machine.name; each.title = machine.what; form.elements.machine.append(each); }
    for (const model of answer.models) form.elements.model.append(element("option", model));
    form.elements.model.querySelectorAll("option:not(:first-child)").forEach((each) => (each.value = each.textContent));
    const all = [...new Set([...answer.dataflows.forward, ...answer.dataflows.backward])];
    for (const name of all) { const each = element("option", name); each.value = name; form.elements.dataflow.append(each); }
    const query = location.search.slice(1);
    read(query); ask(query);
  },
  plan(answer) {
    at("answer").hidden = false; at("title").textContent = answer.title;
    fillList(at("numbers"), [
      ["must move", `${plain(answer.bound.words)} words (${answer.bound.bytes}), ${answer.bound.theorem}, ${answer.bound.strength}`],
      ["plan moves", `${plain(answer.plan.words)} words (${answer.plan.bytes})`], ["gap", answer.gap_text],
      ["plan", `${answer.plan.dataflow}, ${answer.plan.tiles}`], ["covers", answer.bound.covers]]);
    at("tiles").innerHTML = answer.tiles_svg;
    fillTable(at("flows"), ["dataflow", "words moved", "over the bound", "tiles are", "tiles"], answer.dataflows.map((row) => ({
      className: row.chosen ? "chosen" : "",
      cells: [row.dataflow, element("td", row.words === null ? "does not fit" : plain(row.words), "number"), element("td", row.over, "number"), row.rule, row.reason || row.tiles],
    })));
    const longest = Math.max(...answer.times.map((each) => each.plan_seconds), 1e-30);
    fillTable(at("times"), ["resource", "at least", "with this plan", "share of the longest"], answer.times.map((each) => {
      const bar = element("td"), ink = element("span", "", "bar"); ink.style.width = `${(100 * each.plan_seconds) / longest}%`;
      ink.setAttribute("role", "img"); ink.setAttribute("aria-label", `${((100 * each.plan_seconds) / longest).toFixed(1)} percent`); bar.append(ink);
      return { className: each.binds ? "chosen" : "", cells: [each.resource + (each.binds ? " (binds)" : ""), element("td", each.least ?? "unknown", "number"), element("td", each.plan, "number"), bar] };
    }));
    at("python").textContent = answer.python; at("command").textContent = answer.command;
    at("answer").dataset.json = JSON.stringify(answer.json, null, 2);
  },
  curve(answer) { at("curve").innerHTML = answer.svg || ""; if (answer.note) at("curve").append(element("p", answer.note)); },
  frames(answer) { rows = answer.rows; at("film-note").textContent = answer.title; film.load(answer.frames); },
  timeline(answer) {
    at("timeline-note").textContent = answer.note || ""; fillList(at("timeline-facts"), Object.entries(answer.facts || {}));
    at("timeline").innerHTML = answer.svg || "";
  },
  pebbles(answer) { game = { ...answer, places: layered(answer.graph) }; at("game-note").textContent = answer.title; pebbles.load(answer.frames); },
};

const notes = { curve: "curve", frames: "film-note", timeline: "timeline-note", pebbles: "game-note", choices: "problem" };

function problem(text) {
  at("problem").hidden = !text; at("problem").textContent = text || "";
  if (text) at("status").textContent = "";
}

worker.onmessage = ({ data }) => {
  const { view, answer = {}, milliseconds } = data;
  if (data.address !== undefined && view !== "choices" && data.address !== latest) return; // an answer to an older question
  if (answer.error) {
    if (view === "plan" || view === "broken") { problem(answer.error); at("answer").hidden = true; document.body.dataset.answered = data.address ?? ""; }
    else at(notes[view]).textContent = answer.error;
    return;
  }
  shown[view](answer);
  if (view === "plan") {
    problem(""); at("status").textContent = `Planned in ${milliseconds.toFixed(0)} ms, shown after ${(performance.now() - sent).toFixed(0)} ms.`;
    document.body.dataset.answered = data.address;
  }
};

form.addEventListener("input", (event) => {
  const field = event.target, power = (value) => { const size = Math.round(2 ** value); return size >= 1024 && size % 1024 === 0 ? `${size / 1024}K` : String(size); };
  if (field.id === "n-slider") form.elements.n.value = power(field.value);
  else if (field.id === "fast-slider") form.elements.fast.value = power(field.value);
  else slide();
  ask();
});
form.addEventListener("submit", (event) => event.preventDefault());
addEventListener("popstate", () => { read(location.search.slice(1)); ask(location.search.slice(1)); });

function save(name, type, text) {
  const link = element("a"); link.download = name; link.href = URL.createObjectURL(new Blob([text], { type }));
  link.click(); setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
at("save-json").addEventListener("click", () => save("plan.json", "application/json", at("answer").dataset.json));
at("save-svg").addEventListener("click", () => save("tiles.svg", "image/svg+xml", at("tiles").innerHTML));
at("copy-link").addEventListener("click", async () => {
  try { await navigator.clipboard.writeText(location.href); at("status").textContent = "The link is copied."; }
  catch { at("status").textContent = `The link is ${location.href}`; }
});
