// Draws the rows of a flame graph that are in sight, on a canvas or as SVG (svg.js). The cost depends on the size of the
// window, not of the profile: nodes narrower than a pixel are drawn one for each pixel, and those that share it are
// skipped by bisection.

import { firstAfter } from "./layout.js";
import { origin, place } from "./format.js";
import { COUNTED, OPEN } from "./model.js";
import { Sketch } from "./sketch.js";

export const ROW = 20; // CSS pixels
export const FONT = "12px ui-monospace, 'SF Mono', 'Cascadia Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace";
const GAP = 1;
const PADDING = 5;
const LEGIBLE = 26; // narrower nodes have no label
const ROUND = 8; // wider boxes have round corners, and seams
const BAR_MOVING = 3; // while sight moves, narrower nodes are drawn one for each so many pixels
const MOST_WIDTHS = 20_000; // of texts that are remembered

const widths = new Map();
const sketch = new Sketch();

/** Gives a canvas one pixel for each of the screen's, whatever the zoom of the browser; returns where to draw. */
export function fitCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio;
  const [columns, rows] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== columns || canvas.height !== rows) {
    canvas.width = columns;
    canvas.height = rows;
  }
  const context = canvas.getContext("2d", { alpha: false });
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/**
 * @param {CanvasRenderingContext2D | import("./svg.js").SvgContext} context
 * @param {object} scene
 * @param {import("./tree.js").Tree} scene.tree
 * @param {import("./layout.js").Layout} scene.layout
 * @param {import("./model.js").Calls} scene.calls
 * @param {string[]} scene.fills  per call
 * @param {Record<string, string>} scene.ink  colours of everything else
 * @param {Uint8Array | null} scene.matches  per call
 * @param {{from: number, span: number}} scene.sight  ns that are in sight
 * @param {number} scene.zoomed  node that was zoomed into: what is above it is drawn faintly
 * @param {boolean} scene.byLine
 * @param {boolean} scene.isMoving  on a canvas: it is drawn less finely
 * @param {number[]} scene.levels  that are in sight
 * @param {(level: number) => number} scene.top  y of a level
 * @param {number} scene.width  CSS pixels, as the next
 * @param {number} scene.height
 */
export function paintGraph(context, scene) {
  context.font = FONT;
  context.textBaseline = "middle";
  context.direction = "ltr";
  if (scene.isMoving) {
    paintMoving(context, scene);
    return;
  }
  context.fillStyle = scene.ink.paper;
  context.fillRect(0, 0, scene.width, scene.height);
  for (const level of scene.levels) {
    const y = scene.top(level);
    findBoxes(scene, level, 1, (node, left, size) => {
      if (size >= 1) {
        paintNode(context, scene, node, y, left, size);
        return;
      }
      context.fillStyle = fillOf(scene, node);
      context.fillRect(left, y, 1, ROW - GAP);
    });
  }
}

/** What can be done sixty times a second: the boxes as a sketch, and what is written on them. */
function paintMoving(context, scene) {
  sketch.begin(context.canvas, scene.ink.paper);
  const inked = [];
  for (const level of scene.levels) {
    const y = scene.top(level);
    findBoxes(scene, level, BAR_MOVING, (node, left, size) => {
      const right = boxEnd(scene, left, size);
      sketch.box(left, right, fillOf(scene, node));
      if (right - left > ROUND) inked.push([node, y, left, right]);
    });
    sketch.row(y, ROW - GAP);
  }
  sketch.put(context);
  for (const [node, y, left, right] of inked) paintMarks(context, scene, node, y, Math.max(left, -2), right);
}

/** Tells of the boxes of a level that are in sight: found(node, left, size); narrower than `bar`, of one for each bar. */
function findBoxes(scene, level, bar, found) {
  const { tree, layout, sight, width } = scene;
  const scale = width / sight.span;
  const end = layout.start[level + 1];
  let i = firstAfter(layout, tree, level, sight.from);
  while (i < end) {
    const node = layout.order[i];
    const left = (layout.x[node] - sight.from) * scale;
    if (left >= width) return;
    const size = tree.total[node] * scale;
    if (size >= bar) {
      found(node, left, size);
      i += 1;
    } else {
      const pixel = Math.floor(left / bar) * bar;
      found(node, pixel, bar === 1 ? 0 : bar);
      i = firstAfter(layout, tree, level, sight.from + (pixel + bar) / scale, i + 1);
    }
  }
}

function boxEnd(scene, left, size) {
  return Math.min(left + size - (size > 3 ? GAP : 0), scene.width + 2);
}

function paintNode(context, scene, node, y, nodeLeft, size) {
  const left = Math.max(nodeLeft, -2);
  const right = boxEnd(scene, nodeLeft, size);
  paintBox(context, left, right, y, fillOf(scene, node));
  paintMarks(context, scene, node, y, left, right);
}

/** What is drawn on a box: whether it is under the pointer or chosen, its seam and its name. */
function paintMarks(context, scene, node, y, left, right) {
  if (node === scene.hovered) paintHover(context, scene, left, right, y);
  if (node === scene.outlined) {
    context.strokeStyle = scene.ink.accent;
    context.lineWidth = 2;
    context.strokeRect(left + 1, y + 1, Math.max(right - left - 2, 1), ROW - GAP - 2);
  }
  if (scene.tree.seam[node] > 0 && right - left > ROUND) paintSeam(context, scene, node, Math.max(left, 0), y);
  const from = Math.max(left, 0) + PADDING;
  const room = Math.min(right, scene.width) - PADDING - from;
  if (room >= LEGIBLE - 2 * PADDING) paintLabel(context, scene, node, from, y, room);
}

/** A box of any graph. */
export function paintBox(context, left, right, y, fill) {
  const width = Math.max(right - left, 0.5);
  context.fillStyle = fill;
  if (width > ROUND) {
    context.beginPath();
    context.roundRect(left, y, width, ROW - GAP, 2);
    context.fill();
  } else {
    const from = Math.round(left); // whole pixels are drawn several times faster than parts of them
    context.fillRect(from, y, Math.max(Math.round(right) - from, 1), ROW - GAP);
  }
}

export function paintHover(context, scene, left, right, y) {
  context.fillStyle = scene.ink.hover;
  context.fillRect(left, y, Math.max(right - left, 0.5), ROW - GAP);
}

/** A stitch at the left edge: solid where the seam is proven, cut where it is counted, and in another colour if open. */
function paintSeam(context, scene, node, left, y) {
  const proofs = scene.tree.seam[node];
  const isOpen = (proofs & OPEN) !== 0;
  context.fillStyle = isOpen ? scene.ink.open : proofs & COUNTED ? scene.ink.counted : scene.ink.proven;
  const parts = isOpen || proofs & COUNTED ? [2, 8, 14] : [2];
  for (const part of parts) context.fillRect(left, y + part, 2.5, parts.length > 1 ? 3 : ROW - GAP - 4);
}

function fillOf(scene, node) {
  const call = scene.tree.call[node];
  const isMatch = call >= 0 && scene.matches?.[call];
  if (call < 0 || scene.layout.depth[node] < scene.layout.depth[scene.zoomed]) {
    return isMatch ? scene.ink.match : scene.ink.ancestor;
  }
  return fillOfCall(scene, call);
}

export function fillOfCall(scene, call) {
  if (scene.matches === null) return scene.fills[call];
  return scene.matches[call] ? scene.ink.match : scene.ink.dimmed;
}

function paintLabel(context, scene, node, left, y, room) {
  const suffix = scene.tree.isOpen(node) ? " …" : "";
  paintName(context, scene, scene.tree.call[node], left, y, room, suffix);
}

/** The name of a call, and where it is if there is room. */
export function paintName(context, scene, call, left, y, room, suffix = "") {
  const { calls, ink } = scene;
  const middle = y + (ROW - GAP) / 2 + 0.5;
  const name = call < 0 ? "all" : scene.byLine ? place(calls.name[call], calls.line[call]) : calls.name[call];
  const shown = fit(context, name + suffix, room);
  const isMatch = call >= 0 && scene.matches?.[call];
  context.fillStyle = isMatch ? ink.matchText : ink.text;
  context.fillText(shown, left, middle);
  if (call < 0 || shown !== name + suffix || calls.file[call] === "") return;
  const used = measure(context, shown) + 10;
  const file = origin(calls.file[call]).short;
  const where = scene.byLine ? file : place(file, calls.line[call]);
  if (used + measure(context, where) > room) return;
  context.fillStyle = isMatch ? ink.matchText : ink.faint;
  context.fillText(where, left + used, middle);
}

/** As much of the text as there is room for, with an ellipsis where it was cut. */
export function fit(context, text, room) {
  const width = measure(context, text);
  if (width <= room) return text;
  let length = Math.floor((text.length * room) / width) - 1;
  while (length > 0 && measure(context, `${text.slice(0, length)}…`) > room) length -= 1;
  return length > 0 ? `${text.slice(0, length)}…` : "";
}

function measure(context, text) {
  let width = widths.get(text);
  if (width === undefined) {
    if (widths.size > MOST_WIDTHS) widths.clear();
    width = context.measureText(text).width;
    widths.set(text, width);
  }
  return width;
}
