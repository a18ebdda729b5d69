// The page: choices to an address and back, requests to the worker, answers to the page. The address has every choice.
"use strict";

const form = document.getElementById("choices"), at = (id) => document.getElementById(id);
// One Python plans, and a second one draws what belongs to the plan: a moved slider never waits for a picture.
const planner = new Worker("worker.js"), pictures = ["whole", "curve", "frames", "timeline", "pebbles"];
let painter = null;
const defaults = { n: "128K", d: "64", machine: "attenio-512k" };
let latest = null, sent = 0, rows = {}, game = null, pending = null, before = "attenio-512k", binds = ["…", ""];
const words = (count) => `${count} ${count === 1 ? "word" : "words"}`;
const film = new Film("film", (brush, k) => drawRows(brush, film.frames[k], rows), (k) => {
  const frame = film.frames[k], span = frame.rows.length ? `rows ${frame.rows[0]} to ${frame.rows[frame.rows.length - 1]} of ` : "";
  const what = frame.kind === "compute" ? `compute ${frame.step}` : `${frame.kind} ${span}${frame.operand}, ${words(frame.words)}`;
  return `${what}; so far ${words(frame.loaded_words)} loaded, ${frame.stored_words} stored`;
});
const pebbles = new Film("game", (brush, k) => drawGame(brush, game, k), (k) => {
  const frame = game.frames[k];
  return `${frame.move}; ${words(frame.cost_words)} moved, ${frame.red_words} red`;
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
  if (said.get("fast")) form.elements.machine.value = "";
  settle(); slide();
}

// A model has its own widths and heads, so these cannot be chosen beside it.
function settle() {
  const model = form.elements.model.value !== "";
  for (const name of ["d", "heads", "kv_heads"]) { form.elements[name].disabled = model; const slider = at(`${name}-slider`); if (slider) slider.disabled = model; }
}

function slide() {
  const size = (text) => { const m = /^([\d.]+)\s*([KMGT]?)I?B?$/i.exec(text.trim()); return m ? m[1] * 1024 ** " KMGT".indexOf(m[2].toUpperCase() || " ") : NaN; };
  const n = Math.log2(size(form.elements.n.value)), fast = Math.log2(size(form.elements.fast.value));
  if (Number.isFinite(n)) at("n-slider").value = n;
  if (Number.isFinite(fast)) at("fast-slider").value = fast;
  at("d-slider").value = size(form.elements.d.value) || 64; at("heads-slider").value = size(form.elements.heads.value) || 1;
  const told = { "n-slider": "n", "fast-slider": "fast", "d-slider": "d", "heads-slider": "heads" }; // what a screen reader says
  for (const [slider, name] of Object.entries(told)) at(slider).setAttribute("aria-valuetext", form.elements[name].value || form.elements[name].placeholder);
}

function ask(query = address(), unknown = null) {
  const url = query ? `?${query}` : location.pathname;
  if (location.search.slice(1) !== query) history.replaceState(null, "", url);
  sent = performance.now(); latest = unknown ?? query;
  at("save-json").disabled = true; // until it is the plan's own
  clearTimeout(pending);
  planner.postMessage({ view: "plan", address: latest });
}

const paint = () => pictures.forEach((view) => painter.postMessage({ view, address: latest }));
// Pictures come after the plan, when the slider rests: a computer of two cores plans at full speed while it moves.
const paintLater = () => { clearTimeout(pending); if (painter) pending = setTimeout(paint, 60); };

const shown = {
  ready() { at("status").textContent = "Ready."; planner.postMessage({ view: "choices", address: "" }); },
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
    fillCards(at("numbers"), [
      ["", "must move", answer.bound.bytes, `${plain(answer.bound.words)} words; ${answer.bound.theorem}, ${answer.bound.strength}`],
      ["ours", "this plan moves", answer.plan.bytes, `${plain(answer.plan.words)} words`], ["ours", "gap", answer.gap_text, `${answer.plan.dataflow}, ${answer.plan.tiles}`],
      ["binds", "what binds", ...binds]]);
    at("covers").textContent = `The bound is for ${answer.bound.covers}.`;
    at("tiles").innerHTML = answer.tiles_svg;
    const most = Math.log(Math.max(...answer.dataflows.map((row) => row.words ?? 0)) / answer.bound.words) || 1;
    fillTable(at("flows"), ["dataflow", "words moved", "over the bound", "on a logarithmic scale", "tiles are", "tiles"], answer.dataflows.map((row) => ({
      className: row.chosen ? "chosen" : "",
      cells: [row.dataflow, element("td", row.words === null ? "does not fit" : plain(row.words), "number"), element("td", row.over, "number"),
        row.words === null ? element("td", "", "track") : track(Math.log(row.words / answer.bound.words) / most, row.over), row.rule, element("td", row.reason || row.tiles, "tiles")],
    })));
    at("python").textContent = answer.python; at("command").textContent = answer.command;
  },
  whole(answer) {
    const longest = Math.max(...answer.times.map((each) => each.plan_seconds), 1e-30);
    fillTable(at("times"), ["resource", "at least", "with this plan", "share of the longest"], answer.times.map((each) => {
      const share = each.plan_seconds / longest, bar = track(share, `${(100 * share).toFixed(1)} percent`);
      return { className: each.binds ? "chosen" : "", cells: [each.resource + (each.binds ? " (binds)" : ""), element("td", each.least ?? "unknown", "number"), element("td", each.plan, "number"), bar] };
    }));
    const binding = answer.times.find((each) => each.binds);
    binds = binding ? [binding.resource, `${binding.plan} with this plan`] : ["–", "no rates are known"];
    const card = document.querySelector("#numbers .binds"); if (card) fillCards(card, [["", "what binds", ...binds]], true);
    drawing("roofline", answer.roofline);
    at("answer").dataset.json = JSON.stringify(answer.json, null, 2); at("answer").dataset.whole = latest; at("save-json").disabled = false;
  },
  curve(answer) { drawing("curve", answer); },
  frames(answer) { rows = answer.rows; at("film-note").textContent = answer.title; film.load(answer.frames, Math.floor(answer.frames.length / 3)); },
  timeline(answer) {
    at("timeline-note").textContent = answer.note || ""; fillCards(at("timeline-facts"), Object.entries(answer.facts || {}).map(([name, value]) => ["", name.replaceAll("_", " "), value]));
    drawing("timeline", { svg: answer.svg });
  },
  pebbles(answer) { game = { ...answer, places: layered(answer.graph) }; at("game-note").textContent = answer.title; pebbles.load(answer.frames, fullest(answer.frames)); },
};

// Where fast memory has the most: there is something to see.
const fullest = (frames) => frames.reduce((best, frame, k) => (frame.red_words > frames[best].red_words ? k : best), 0);

function drawing(name, { svg, note }) {
  at(name).innerHTML = svg || ""; document.querySelector(`[data-svg=${name}]`).hidden = !svg;
  if (note) at(name).append(element("p", note));
}

const notes = { curve: "curve", whole: "roofline", frames: "film-note", timeline: "timeline-note", pebbles: "game-note", choices: "problem" };

function problem(text) {
  at("problem").hidden = !text; at("problem").textContent = text || "";
  if (text) at("status").textContent = "";
}

function heard({ data }) {
  const { view, answer = {}, milliseconds } = data;
  if (data.address !== undefined && view !== "choices" && data.address !== latest) return; // an answer to an older question
  if (view === "plan") paintLater();
  if (answer.error) {
    if (view === "plan" || view === "broken") { problem(answer.error); at("answer").hidden = true; document.body.dataset.answered = data.address ?? ""; }
    else at(notes[view]).textContent = answer.error;
    return;
  }
  if (data.by === painter && view === "ready") return paint();
  shown[view](answer);
  if (view === "plan") {
    const asked = sent, tell = () => { at("status").textContent = `Planned in ${milliseconds.toFixed(0)} ms, drawn after ${(performance.now() - asked).toFixed(0)} ms.`; document.body.dataset.answered = data.address; };
    problem(""); requestAnimationFrame(() => setTimeout(tell)); // after the browser has painted
    if (painter === null) { painter = new Worker("worker.js"); painter.onmessage = ({ data }) => heard({ data: { ...data, by: painter } }); }
  }
}
planner.onmessage = heard;

form.addEventListener("input", (event) => {
  const field = event.target, power = (value) => { const size = Math.round(2 ** value); return size >= 1024 && size % 1024 === 0 ? `${size / 1024}K` : String(size); };
  if (field.id === "n-slider") form.elements.n.value = power(field.value);
  else if (field.id === "fast-slider") form.elements.fast.value = power(field.value);
  else if (field.id === "d-slider") form.elements.d.value = field.value;
  else if (field.id === "heads-slider") form.elements.heads.value = field.value;
  // either a machine or a fast memory
  if (field.name === "machine") { before = field.value; form.elements.fast.value = ""; }
  else form.elements.machine.value = form.elements.fast.value ? "" : form.elements.machine.value || before;
  settle(); slide(); ask();
});
form.addEventListener("submit", (event) => event.preventDefault());
addEventListener("popstate", () => { read(location.search.slice(1)); ask(location.search.slice(1)); });

function save(name, type, text) {
  const link = element("a"); link.download = name; link.href = URL.createObjectURL(new Blob([text], { type }));
  link.click(); setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
at("save-json").addEventListener("click", () => save("plan.json", "application/json", at("answer").dataset.json));
for (const button of document.querySelectorAll("[data-svg]")) {
  const name = button.dataset.svg;
  button.addEventListener("click", () => save(`${name}.svg`, "image/svg+xml", at(name).innerHTML));
}
at("more").open = innerWidth > 800;
at("copy-link").addEventListener("click", async () => {
  try { await navigator.clipboard.writeText(location.href); at("status").textContent = "The link is copied."; }
  catch { at("status").textContent = `The link is ${location.href}`; }
});
