// The difference: a flame graph whose widths are the time, or memory, of one side, and whose colours tell what has changed.
// Stacks are columns in which callers come before what they call, so every walk is a loop: no stack is too deep.

"use strict";

const ROW = 20; // CSS pixels
const MOST_LEVELS = 400; // that the graph shows; deeper ones come with a zoom
const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const { parent, function: called } = data.stacks;
const { name, file, change } = data.functions;
const own = { before: data.stacks.before, after: data.stacks.after };
const total = { before: sums(own.before), after: sums(own.after) };
const level = new Int32Array(parent.length);
for (let i = 1; i < parent.length; i++) level[i] = level[parent[i]] + 1;

let side = "after";
let zoomed = 0;
let selected = 0;
let left = layout();
let sought = "";

function sums(column) {
  const sum = Float64Array.from(column);
  for (let i = sum.length - 1; i > 0; i--) sum[parent[i]] += sum[i];
  return sum;
}

/** Where each node begins, as a part of all time: the widest child of each caller first. */
function layout() {
  const width = total[side];
  const order = Array.from(parent.keys()).slice(1).sort((a, b) => width[b] - width[a] || a - b);
  const place = new Float64Array(parent.length); // of each node within its caller
  const used = new Float64Array(parent.length);
  for (const i of order) {
    place[i] = used[parent[i]];
    used[parent[i]] += width[i];
  }
  for (let i = 1; i < parent.length; i++) place[i] += place[parent[i]];
  return place;
}

const isSure = (low, high) => low > 0 || high < 0;

/** Whether a function's time has changed by more than noise, its own or with all that it calls. */
function isNews(number) {
  const figures = change[number];
  return figures !== null && (isSure(figures[2], figures[3]) || isSure(figures[6], figures[7]));
}

const news = called.map((number) => number >= 0 && change[number] !== null && isSure(change[number][6], change[number][7]));

/** Red for more, blue for less, the stronger the larger the change is for the node itself; grey for noise. */
function fill(node, ink) {
  if (sought && matches(node)) return ink.match;
  const [before, after] = [total.before[node], total.after[node]];
  if (!news[node] || before === after) return ink.noise;
  const strength = Math.max(0.25, Math.abs(after - before) / Math.max(before, after));
  return `color-mix(in oklab, ${after > before ? ink.more : ink.less} ${Math.round(100 * strength)}%, ${ink.noise})`;
}

function matches(node) {
  const number = called[node];
  return number >= 0 && `${name[number]} ${file[number]}`.toLowerCase().includes(sought);
}

const label = (node) => (node === 0 ? "all" : name[called[node]]);
const percent = (part) => `${(100 * part).toFixed(1)} %`;
const signed = (part) => `${part < 0 ? "-" : "+"}${(100 * Math.abs(part)).toFixed(1)} %`;

function figure(part) {
  if (data.unit === "") return percent(part);
  const [step, ...units] = data.unit === "ns" ? [1000, "ns", "µs", "ms", "s"] : [1024, "B", "KiB", "MiB", "GiB"];
  let value = part * data.whole;
  while (value >= step && units.length > 1) {
    value /= step;
    units.shift();
  }
  return `${Number(value.toPrecision(3))} ${units[0]}${data.per}`;
}

const canvas = $("graph");
const context = canvas.getContext("2d", { alpha: false });
let shown = []; // boxes on the screen: [node, x, y, width]

function draw() {
  const style = getComputedStyle(document.documentElement);
  const ink = {};
  for (const key of ["paper", "text", "more", "less", "noise", "match", "accent"]) {
    ink[key] = style.getPropertyValue(`--${key}`).trim();
  }
  const inside = within(zoomed);
  const deepest = inside.reduce((most, node) => Math.max(most, level[node]), 0) - level[zoomed];
  const width = canvas.clientWidth;
  const height = (Math.min(deepest, MOST_LEVELS) + 1) * ROW;
  const ratio = devicePixelRatio;
  canvas.style.height = `${height}px`;
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = ink.paper;
  context.fillRect(0, 0, width, height);
  context.font = "12px ui-monospace, 'DejaVu Sans Mono', monospace";
  context.textBaseline = "middle";
  const scale = total[side][zoomed] > 0 ? width / total[side][zoomed] : 0;
  shown = inside.map((node) => [node, (left[node] - left[zoomed]) * scale, (level[node] - level[zoomed]) * ROW, total[side][node] * scale]);
  shown = shown.filter(([, , y, size]) => size >= 0.3 && y < height);
  for (const [node, x, y, size] of shown) box(node, x, y, size, ink);
  $("out").disabled = zoomed === 0;
  tell(selected);
}

/** The node and all that it calls, callers first. */
function within(root) {
  const nodes = [root];
  const isIn = new Uint8Array(parent.length);
  isIn[root] = 1;
  for (let i = root + 1; i < parent.length; i++) {
    if (isIn[parent[i]]) {
      isIn[i] = 1;
      nodes.push(i);
    }
  }
  return nodes;
}

function box(node, x, y, size, ink) {
  context.fillStyle = fill(node, ink);
  context.fillRect(x, y, Math.max(size - 1, 0.5), ROW - 1);
  if (node === selected) {
    context.strokeStyle = ink.accent;
    context.lineWidth = 2;
    context.strokeRect(x + 1, y + 1, Math.max(size - 3, 1), ROW - 3);
  }
  if (size < 30) return;
  context.save();
  context.beginPath();
  context.rect(x, y, size - 4, ROW);
  context.clip();
  context.fillStyle = ink.text;
  context.fillText(label(node), x + 4, y + ROW / 2);
  context.restore();
}

function tell(node) {
  const number = called[node];
  const [before, after] = [total.before[node], total.after[node]];
  const words = [`${label(node)}${node && file[number] ? ` (${file[number]})` : ""}: here ${figure(before)} before, ${figure(after)} after, ${signed(after - before)}.`];
  if (node && change[number]) {
    const figures = change[number];
    const [low, high] = figures.slice(6, 8);
    words.push(`In all ${figure(figures[4])} before, ${figure(figures[5])} after, ${signed(figures[5] - figures[4])}`);
    words.push(low || high ? `(between ${signed(low)} and ${signed(high)})` : "(too rare to tell)");
    if (!news[node]) words.push("- not told apart from noise");
  }
  $("told").textContent = words.join(" ");
}

function nodeAt(event) {
  const bounds = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - bounds.left, event.clientY - bounds.top];
  const hit = shown.find(([, start, top, size]) => x >= start && x < start + size && y >= top && y < top + ROW);
  return hit ? hit[0] : -1;
}

function zoom(node) {
  zoomed = node;
  selected = node;
  draw();
}

/** By arrow keys: up to the caller, down to the widest callee, left and right to what it calls besides. */
function move(key) {
  const siblings = (of) => shown.filter(([node]) => node && parent[node] === of).sort((a, b) => a[1] - b[1]).map(([node]) => node);
  const beside = siblings(parent[selected]);
  const at = beside.indexOf(selected);
  const to = {
    ArrowUp: selected === zoomed ? -1 : parent[selected],
    ArrowDown: siblings(selected)[0] ?? -1,
    ArrowLeft: at > 0 ? beside[at - 1] : -1,
    ArrowRight: at >= 0 && at + 1 < beside.length ? beside[at + 1] : -1,
  }[key];
  if (to >= 0) selected = to;
}

canvas.addEventListener("click", (event) => {
  const node = nodeAt(event);
  if (node >= 0) zoom(node);
});
canvas.addEventListener("mousemove", (event) => {
  const node = nodeAt(event);
  tell(node >= 0 ? node : selected);
});
canvas.addEventListener("keydown", (event) => {
  if (event.key.startsWith("Arrow")) move(event.key);
  else if (event.key === "Enter") zoomed = selected;
  else if (event.key === "Escape") zoomed = Math.max(0, parent[zoomed]);
  else return;
  event.preventDefault();
  draw();
});
$("out").addEventListener("click", () => zoom(0));
$("search").addEventListener("input", () => {
  sought = $("search").value.trim().toLowerCase();
  draw();
});
for (const choice of document.querySelectorAll("[name=side]")) {
  choice.addEventListener("change", () => {
    side = choice.value;
    left = layout();
    draw();
  });
}
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

function cell(text, kind = "") {
  const made = document.createElement("td");
  made.textContent = text;
  made.className = kind;
  return made;
}

function changeCell(before, after, low, high) {
  if (!isSure(low, high)) return cell("noise");
  const made = cell(signed(after - before), after > before ? "more" : "less");
  made.title = `between ${signed(low)} and ${signed(high)}`;
  return made;
}

function fillTable() {
  const rows = change.map((figures, number) => [number, figures]).filter(([number]) => isNews(number));
  const size = ([, figures]) => Math.max(Math.abs(figures[1] - figures[0]), Math.abs(figures[5] - figures[4]));
  rows.sort((a, b) => size(b) - size(a));
  for (const [number, figures] of rows.slice(0, 200)) {
    const row = document.createElement("tr");
    for (const part of [figures.slice(0, 4), figures.slice(4, 8)]) {
      row.append(cell(figure(part[0])), cell(figure(part[1])), changeCell(...part));
    }
    const button = document.createElement("button");
    button.textContent = name[number];
    button.addEventListener("click", () => {
      $("search").value = name[number];
      sought = name[number].toLowerCase();
      draw();
    });
    const last = cell("");
    const where = document.createElement("small");
    where.textContent = file[number];
    last.append(button, " ", where);
    row.append(last);
    $("rows").append(row);
  }
  $("none").hidden = rows.length > 0;
  document.querySelector("table").hidden = rows.length === 0;
}

$("headline").textContent = data.headline;
for (const note of data.notes) {
  const item = document.createElement("li");
  item.textContent = note;
  $("notes").append(item);
}
$("closing").textContent = data.closing.join("\n");
fillTable();
draw();
