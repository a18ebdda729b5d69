// Drawing: tables, films of a run, and the pebble game on a canvas. Colours are those of the page.
"use strict";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const plain = (number) => number.toLocaleString("en-US");

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function fillTable(table, columns, rows) {
  const head = element("thead"), top = element("tr"), body = element("tbody");
  columns.forEach((name, column) => {
    const number = rows.length && rows[0].cells[column] instanceof Node && rows[0].cells[column].className === "number";
    const cell = element("th", name, number ? "number" : ""); cell.scope = "col"; top.append(cell);
  });
  head.append(top);
  for (const { cells, className } of rows) {
    const row = element("tr", null, className);
    for (const cell of cells) row.append(cell instanceof Node ? cell : element("td", cell));
    body.append(row);
  }
  table.replaceChildren(head, body);
}

// Groups of a list as cards: what it is, the number, and what is said about it.
function fillCards(list, cards, inside = false) {
  list.replaceChildren(...cards.flatMap(([className, name, value, more]) => {
    const card = element("div", null, className);
    card.append(element("dt", name), element("dd", value, more === undefined ? "" : "large"), ...(more === undefined ? [] : [element("dd", more)]));
    return inside ? [...card.children] : card;
  }));
}

// A bar in a cell, with its number for those who do not see it.
function track(share, told) {
  const cell = element("td", null, "track"), ink = element("span", "", "bar");
  ink.style.width = `${Math.max(0.5, Math.min(100, 100 * share))}%`; ink.setAttribute("role", "img"); ink.setAttribute("aria-label", told);
  cell.append(ink);
  return cell;
}

// A film: buttons that a keyboard reaches, a status that is read out, and frames drawn one by one.
class Film {
  constructor(name, draw, tell) {
    this.canvas = document.getElementById(name);
    this.status = document.getElementById(`${name}-step`);
    this.width = this.canvas.width; this.height = this.canvas.height;
    const sharp = Math.min(3, window.devicePixelRatio || 1);
    this.canvas.width *= sharp; this.canvas.height *= sharp; this.canvas.getContext("2d").scale(sharp, sharp);
    this.draw = draw; this.tell = tell; this.frames = []; this.at = 0; this.timer = null;
    const buttons = document.getElementById(`${name}-buttons`);
    for (const [label, act] of [["First", () => this.show(0)], ["Back", () => this.show(this.at - 1)],
      ["Play", () => this.toggle()], ["Next", () => this.show(this.at + 1)], ["Last", () => this.show(this.frames.length - 1)]]) {
      const button = element("button", label); button.type = "button";
      button.addEventListener("click", () => { if (label !== "Play") this.stop(); act(); });
      if (label === "Play") this.play = button;
      buttons.append(button);
    }
  }
  load(frames, first) { this.stop(); this.frames = frames; this.show(first); }
  show(number) {
    if (!this.frames.length) return;
    this.at = Math.max(0, Math.min(this.frames.length - 1, number));
    const brush = this.canvas.getContext("2d");
    brush.clearRect(0, 0, this.width, this.height);
    this.draw(brush, this.at);
    this.status.textContent = `${this.at + 1} of ${this.frames.length}: ${this.tell(this.at)}`;
  }
  toggle() {
    if (this.timer) return this.stop();
    this.play.textContent = "Stop";
    this.timer = setInterval(() => (this.at + 1 < this.frames.length ? this.show(this.at + 1) : this.stop()), 400);
  }
  stop() { clearInterval(this.timer); this.timer = null; this.play.textContent = "Play"; }
}

function drawRows(brush, frame, rows) {
  const kinds = { Q: "query", K: "key", V: "value", O: "output" }, held = new Map(frame.resident);
  brush.font = "16px system-ui, sans-serif"; brush.textAlign = "center";
  Object.keys(kinds).forEach((operand, column) => {
    const x = 60 + column * 140, cell = Math.min(20, 240 / rows[operand]);
    brush.strokeStyle = colour("soft"); brush.lineWidth = 1;
    brush.strokeRect(x, 30, 80, cell * rows[operand]);
    brush.fillStyle = colour(kinds[operand]);
    for (const row of held.get(operand) || []) if (row < rows[operand]) brush.fillRect(x + 1, 31 + row * cell, 78, cell - 2);
    if (frame.operand === operand && frame.rows.length && Math.max(...frame.rows) < rows[operand]) {
      brush.strokeStyle = colour("ink"); brush.lineWidth = 3;
      brush.strokeRect(x - 4, 28 + Math.min(...frame.rows) * cell, 88, frame.rows.length * cell + 2);
    }
    brush.fillStyle = colour("ink"); brush.fillText(operand, x + 40, 20);
  });
}

// Vertices in layers by how far they are from the inputs.
function layered(graph) {
  const depth = graph.vertices.map(() => 0);
  for (let again = 0; again < graph.vertices.length; again++) {
    let moved = false;
    graph.parents.forEach((needs, vertex) => {
      const least = needs.length ? 1 + Math.max(...needs.map((each) => depth[each])) : 0;
      if (least > depth[vertex]) { depth[vertex] = least; moved = true; }
    });
    if (!moved) break;
  }
  const layers = [];
  depth.forEach((level, vertex) => (layers[level] = layers[level] || []).push(vertex));
  const places = [];
  layers.forEach((layer, level) => layer.forEach((vertex, number) => {
    places[vertex] = [20 + (600 * level) / Math.max(1, layers.length - 1), (300 * (number + 1)) / (layer.length + 1)];
  }));
  return places;
}

function drawGame(brush, game, number) {
  const red = new Set(), blue = new Set();
  for (const frame of game.frames.slice(0, number + 1)) {
    frame.red_removed.forEach((each) => red.delete(each)); frame.red_added.forEach((each) => red.add(each));
    frame.blue_removed.forEach((each) => blue.delete(each)); frame.blue_added.forEach((each) => blue.add(each));
  }
  brush.strokeStyle = colour("line"); brush.lineWidth = 1;
  game.graph.parents.forEach((needs, vertex) => needs.forEach((parent) => {
    brush.beginPath(); brush.moveTo(...game.places[parent]); brush.lineTo(...game.places[vertex]); brush.stroke();
  }));
  game.places.forEach(([x, y], vertex) => {
    brush.beginPath(); brush.arc(x, y, 6, 0, 7); brush.fillStyle = red.has(vertex) ? colour("red") : colour("paper");
    brush.fill(); brush.lineWidth = blue.has(vertex) ? 4 : 1; brush.strokeStyle = blue.has(vertex) ? colour("blue") : colour("soft"); brush.stroke();
  });
}
