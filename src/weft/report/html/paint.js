// Draws the rows of the graph that are in sight. The cost depends on the size of the window, not of the profile: nodes
// narrower than a pixel are drawn one for each pixel, and those that share it are skipped by bisection.

import { firstAfter } from "./layout.js";
import { origin, place } from "./format.js";

export const ROW = 20; // CSS pixels
const GAP = 1;
const PADDING = 5;
const LEGIBLE = 26; // narrower nodes have no label
const FONT = "12px ui-monospace, 'SF Mono', 'Cascadia Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace";

export class Painter {
  #canvas;
  #context;
  /** @type {Map<string, number>} */ #widths = new Map();

  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false });
  }

  /**
   * @param {object} scene
   * @param {import("./tree.js").Tree} scene.tree
   * @param {import("./layout.js").Layout} scene.layout
   * @param {import("./model.js").Calls} scene.calls
   * @param {string[]} scene.fills  per call
   * @param {Record<string, string>} scene.ink  colours of everything else
   * @param {Uint8Array | null} scene.matches  per call
   * @param {number} scene.zoomed  node that has the whole width
   * @param {number[]} scene.ancestors  of that node, by level
   * @param {boolean} scene.byLine
   * @param {(level: number) => number} scene.top  y of a level
   * @param {number} scene.width  CSS pixels, as the next
   * @param {number} scene.height
   */
  draw(scene) {
    this.#resize(scene.width, scene.height);
    const context = this.#context;
    context.fillStyle = scene.ink.paper;
    context.fillRect(0, 0, scene.width, scene.height);
    context.font = FONT;
    context.textBaseline = "middle";
    context.direction = "ltr";
    for (const level of scene.levels) {
      if (level < scene.ancestors.length) this.#node(scene, scene.ancestors[level], level, 0, scene.width);
      else this.#level(scene, level);
    }
  }

  /** The canvas has one pixel for each of the screen's, whatever the zoom of the browser. */
  #resize(width, height) {
    const ratio = window.devicePixelRatio;
    const [columns, rows] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.#canvas.width !== columns || this.#canvas.height !== rows) {
      this.#canvas.width = columns;
      this.#canvas.height = rows;
    }
    this.#context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  #level(scene, level) {
    const { tree, layout, zoomed, width } = scene;
    const from = layout.x[zoomed];
    const scale = width / tree.total[zoomed];
    const end = layout.start[level + 1];
    let i = firstAfter(layout, tree, level, from);
    while (i < end) {
      const node = layout.order[i];
      const left = (layout.x[node] - from) * scale;
      if (left >= width) return;
      const size = tree.total[node] * scale;
      if (size >= 1) {
        this.#node(scene, node, level, left, size);
        i += 1;
      } else {
        const pixel = Math.floor(left);
        this.#context.fillStyle = this.#fill(scene, node, level);
        this.#context.fillRect(pixel, scene.top(level), 1, ROW - GAP);
        i = Math.max(i + 1, firstAfter(layout, tree, level, from + (pixel + 1) / scale));
      }
    }
  }

  #node(scene, node, level, left, size) {
    const context = this.#context;
    const top = scene.top(level);
    const width = Math.max(size - (size > 3 ? GAP : 0), 0.5);
    context.fillStyle = this.#fill(scene, node, level);
    context.beginPath();
    context.roundRect(left, top, width, ROW - GAP, Math.min(2, width / 4));
    context.fill();
    if (node === scene.hovered) {
      context.fillStyle = scene.ink.hover;
      context.fill();
    }
    if (node === scene.outlined) {
      context.strokeStyle = scene.ink.accent;
      context.lineWidth = 2;
      context.strokeRect(left + 1, top + 1, Math.max(width - 2, 1), ROW - GAP - 2);
    }
    if (width >= LEGIBLE) this.#label(scene, node, level, left + PADDING, top, width - 2 * PADDING);
  }

  #fill(scene, node, level) {
    const call = scene.tree.call[node];
    if (call < 0 || level < scene.ancestors.length) return scene.matches?.[call] ? scene.ink.match : scene.ink.ancestor;
    if (scene.matches === null) return scene.fills[call];
    return scene.matches[call] ? scene.ink.match : scene.ink.dimmed;
  }

  #label(scene, node, level, left, top, room) {
    const { calls, ink } = scene;
    const call = scene.tree.call[node];
    const context = this.#context;
    const middle = top + (ROW - GAP) / 2 + 0.5;
    const name = call < 0 ? "all" : scene.byLine ? place(calls.name[call], calls.line[call]) : calls.name[call];
    const suffix = scene.tree.isOpen(node) ? " …" : "";
    const shown = this.#fit(name + suffix, room);
    const matched = call >= 0 && scene.matches?.[call];
    context.fillStyle = matched ? ink.matchText : ink.text;
    context.fillText(shown, left, middle);
    if (call < 0 || shown !== name + suffix || calls.file[call] === "") return;
    const used = this.#width(shown) + 10;
    const file = origin(calls.file[call]).short;
    const where = scene.byLine ? file : place(file, calls.line[call]);
    if (used + this.#width(where) > room) return;
    context.fillStyle = matched ? ink.matchText : ink.faint;
    context.fillText(where, left + used, middle);
  }

  /** As much of the text as there is room for, with an ellipsis where it was cut. */
  #fit(text, room) {
    const width = this.#width(text);
    if (width <= room) return text;
    let length = Math.floor((text.length * room) / width) - 1;
    while (length > 0 && this.#context.measureText(`${text.slice(0, length)}…`).width > room) length -= 1;
    return length > 0 ? `${text.slice(0, length)}…` : "";
  }

  #width(text) {
    let width = this.#widths.get(text);
    if (width === undefined) {
      width = this.#context.measureText(text).width;
      this.#widths.set(text, width);
    }
    return width;
  }
}
