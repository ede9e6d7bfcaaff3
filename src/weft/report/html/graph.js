// The flame graph: what is zoomed, selected and hovered, and how pointer and keys change it.
//
// The box scrolls a spacer as high as the graph; the canvas stays in sight and is only as large as the box.

import { layOut, firstAfter, nodeAt } from "./layout.js";
import { fitCanvas, paintGraph, ROW } from "./paint.js";
import { Sight } from "./sight.js";

const STILL_MS = 90;
const LEVELS_ABOVE = 3; // of the callers, that stay in sight when a node is zoomed into

export class FlameGraph {
  #box;
  #canvas;
  #spacer;
  #pending = false;
  #scene = { hovered: -1, selected: 0, zoomed: 0, matches: null, byLine: false };
  #rootAtBottom = false;
  #sight = new Sight(() => this.#moved());
  #stillness = 0;

  /**
   * @param {HTMLElement} box  with a canvas and a spacer in it
   * @param {object} on  what to tell: zoomed(), selected(), hovered(node, event), opened(node)
   */
  constructor(box, on) {
    this.on = on;
    this.#box = box;
    [this.#canvas, this.#spacer] = box.children;
    this.#sight.listen(box, true);
    box.addEventListener("scroll", () => this.#scrolled());
    box.addEventListener("focus", () => this.redraw());
    box.addEventListener("blur", () => this.redraw());
    box.addEventListener("keydown", (event) => this.#key(event));
    this.#canvas.addEventListener("pointermove", (event) => this.#hover(this.#under(event), event));
    this.#canvas.addEventListener("pointerleave", (event) => this.#hover(-1, event));
    this.#canvas.addEventListener("click", (event) => this.#click(this.#under(event)));
    new ResizeObserver(() => this.#resized()).observe(box);
  }

  get tree() {
    return this.#scene.tree;
  }

  get zoomed() {
    return this.#scene.zoomed;
  }

  get selected() {
    return this.#scene.selected;
  }

  /**
   * Shows another tree, zoomed to the node that `path` leads to.
   * @param {number[]} path  calls
   * @param {Record<number, number[]> | null} keep  the tree is the one that was shown, grown: what is in sight stays. If
   *   frames have become others, which ones
   */
  show(tree, calls, byLine, path, keep = null) {
    const place = keep && this.#scene.tree ? this.#place(keep) : null;
    Object.assign(this.#scene, { tree, calls, byLine, hovered: -1 });
    const nodes = (place?.paths ?? [path]).map((one) => this.#find(place ? callsOf(calls, one) : one));
    this.#scene.layout = layOut(tree);
    this.#sight.bound(0, tree.total[0]);
    this.#box.style.setProperty("--levels", this.#scene.layout.height[0] + 1);
    this.zoom(nodes[0], false);
    if (place) this.#return(place, nodes);
  }

  /** The node that a path leads to, also where the tree has to grow for it. */
  #find(path) {
    const { tree } = this.#scene;
    let node = tree.find(path);
    while (tree.isOpen(node) && tree.grow(node)) node = tree.find(path);
    return node;
  }

  /** What is in sight: shares of a node's width, and frames that lead to what is zoomed, to that node, and selected. */
  #place(renamed) {
    const { tree, layout, calls, zoomed, selected } = this.#scene;
    const [from, span] = this.#sight.goal;
    const isWithin = (node, slack = 0) =>
      layout.x[node] <= from + slack && layout.x[node] + tree.total[node] >= from + span - slack;
    let anchor = zoomed;
    const isZoomed = isWithin(zoomed, span * 1e-6) && span >= tree.total[zoomed] * (1 - 1e-6);
    if (!isZoomed) {
      anchor = 0; // by wheel or fingers: the innermost node that fills what is in sight
      for (let next = 0; next >= 0 && isWithin(next); ) {
        anchor = next;
        next = nodeAt(layout, tree, layout.depth[anchor] + 1, from + span / 2);
      }
    }
    const width = Math.max(tree.total[anchor], 1);
    const frames = (node) => tree.path(node).flatMap((i) => renamed[calls.sample[tree.call[i]]] ?? [calls.sample[tree.call[i]]]);
    const scrolled = this.#rootAtBottom ? this.#height() - this.#box.scrollTop : this.#box.scrollTop;
    const paths = [zoomed, anchor, selected].map(frames);
    return { paths, from: (from - layout.x[anchor]) / width, span: span / width, scrolled };
  }

  #return({ from, span, scrolled }, [, anchor, selected]) {
    const { tree, layout } = this.#scene;
    const left = layout.x[anchor] + from * tree.total[anchor];
    this.#sight.go(left, left + span * tree.total[anchor], false);
    this.#box.scrollTop = this.#rootAtBottom ? this.#height() - scrolled : scrolled;
    this.#scene.selected = selected;
    this.on.selected();
  }

  /** Colours of calls, and of all else. */
  paint(fills, ink) {
    Object.assign(this.#scene, { fills, ink });
    this.redraw();
  }

  /** @param {Uint8Array | null} matches  per call */
  mark(matches) {
    this.#scene.matches = matches;
    this.redraw();
  }

  stand(rootAtBottom) {
    this.#rootAtBottom = rootAtBottom;
    if (this.#scene.tree) this.zoom(this.#scene.zoomed, false);
  }

  zoom(node, glide = true) {
    const scene = this.#scene;
    if (scene.tree.grow(node)) scene.layout = layOut(scene.tree);
    scene.zoomed = node;
    scene.selected = node;
    this.#sight.go(scene.layout.x[node], scene.layout.x[node] + scene.tree.total[node], glide);
    this.#spacer.style.height = `${this.#height() - this.#box.clientHeight}px`;
    const row = Math.max(scene.layout.depth[node] - LEVELS_ABOVE, 0) * ROW;
    this.#box.scrollTop = this.#rootAtBottom ? this.#height() - this.#box.clientHeight - row : row;
    this.on.zoomed();
    this.on.selected();
    this.redraw();
  }

  select(node) {
    this.#scene.selected = node;
    const top = this.#top(this.#scene.layout.depth[node]);
    const beneath = top + ROW - this.#box.clientHeight;
    if (top < 0) this.#box.scrollTop += top;
    else if (beneath > 0) this.#box.scrollTop += beneath;
    this.on.selected();
    this.redraw();
  }

  redraw() {
    if (this.#pending) return;
    this.#pending = true;
    requestAnimationFrame(() => {
      this.#pending = false;
      const { clientWidth: width, clientHeight: height } = this.#box;
      if (width > 0 && this.#scene.tree && this.#scene.ink) {
        paintGraph(fitCanvas(this.#canvas, width, height), this.#drawing(width, height, this.#levelsInSight()));
      }
    });
  }

  /** What is in sight, drawn whole elsewhere: all its levels, however far the box is scrolled. */
  export(makeContext) {
    const levels = Array.from({ length: this.#levels() }, (_, level) => level);
    const [width, height] = [this.#box.clientWidth, Math.max(levels.length, 1) * ROW];
    const top = (level) => (this.#rootAtBottom ? levels.length - 1 - level : level) * ROW;
    const context = makeContext(width, height);
    paintGraph(context, { ...this.#drawing(width, height, levels), top, isMoving: false, hovered: -1, outlined: -1 });
    return context;
  }

  #drawing(width, height, levels) {
    const { selected, zoomed } = this.#scene;
    const outlined = selected !== zoomed || this.#box.matches(":focus-visible") ? selected : -1;
    const isMoving = this.#stillness !== 0;
    const top = (level) => this.#top(level);
    return { ...this.#scene, outlined, width, height, levels, sight: this.#sight, isMoving, top };
  }

  /** Draws less finely until sight has come to rest. */
  #moved() {
    clearTimeout(this.#stillness);
    this.#stillness = setTimeout(() => {
      this.#stillness = 0;
      this.redraw();
    }, STILL_MS);
    this.redraw();
  }

  #scrolled() {
    this.#hover(-1);
    this.redraw();
  }

  #resized() {
    if (!this.#scene.tree || this.#box.clientHeight === 0) return;
    this.#canvas.style.height = `${this.#box.clientHeight}px`;
    this.#spacer.style.height = `${this.#height() - this.#box.clientHeight}px`;
    this.redraw();
  }

  #levels() {
    const { layout, tree, zoomed } = this.#scene;
    return tree.total[0] > 0 ? layout.depth[zoomed] + layout.height[zoomed] + 1 : 0;
  }

  #height() {
    return Math.max(this.#levels() * ROW, this.#box.clientHeight);
  }

  #top(level) {
    const top = this.#rootAtBottom ? this.#height() - (level + 1) * ROW : level * ROW;
    return top - this.#box.scrollTop;
  }

  #levelAt(y) {
    const from = y + this.#box.scrollTop;
    return Math.floor((this.#rootAtBottom ? this.#height() - from : from) / ROW);
  }

  #levelsInSight() {
    const ends = [this.#levelAt(0), this.#levelAt(this.#box.clientHeight)];
    const last = Math.min(Math.max(...ends), this.#levels() - 1);
    const levels = [];
    for (let level = Math.max(Math.min(...ends), 0); level <= last; level++) levels.push(level);
    return levels;
  }

  #under(event) {
    const { tree, layout } = this.#scene;
    const level = this.#levelAt(event.offsetY);
    if (level < 0 || level >= this.#levels()) return -1;
    const share = event.offsetX / this.#box.clientWidth;
    return nodeAt(layout, tree, level, this.#sight.from + share * this.#sight.span);
  }

  #hover(node, event) {
    if (node !== this.#scene.hovered) {
      this.#scene.hovered = node;
      this.redraw();
    }
    this.on.hovered(node, event);
  }

  #click(node) {
    if (node < 0) return;
    this.#hover(-1);
    this.zoom(node);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const outwards = this.#rootAtBottom ? "ArrowDown" : "ArrowUp";
    const inwards = this.#rootAtBottom ? "ArrowUp" : "ArrowDown";
    const { tree, selected, zoomed } = this.#scene;
    const moves = {
      [outwards]: () => this.select(Math.max(tree.parent[selected], 0)),
      [inwards]: () => this.select(this.#firstCallee(selected)),
      ArrowLeft: () => this.select(this.#beside(selected, -1)),
      ArrowRight: () => this.select(this.#beside(selected, 1)),
      Home: () => this.select(zoomed),
      Enter: () => this.zoom(selected),
      "+": () => this.#sight.zoom(0.8, 0.5),
      "-": () => this.#sight.zoom(1.25, 0.5),
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    if (tree.total[0] > 0) moves[event.key]();
  }

  /** The heaviest child in sight, or the node itself. */
  #firstCallee(node) {
    const { tree, layout, zoomed } = this.#scene;
    if (layout.height[node] === 0) return node;
    const left = Math.max(layout.x[node], layout.x[zoomed]);
    const callee = layout.order[firstAfter(layout, tree, layout.depth[node] + 1, left)];
    return tree.parent[callee] === node ? callee : node; // callees without time are as good as none
  }

  /** The next node of the level that is within the zoomed one and at least a pixel wide, or the node itself. */
  #beside(node, step) {
    const { tree, layout, zoomed } = this.#scene;
    const least = tree.total[zoomed] / this.#box.clientWidth;
    const level = layout.depth[node];
    const right = layout.x[zoomed] + tree.total[zoomed];
    for (let i = layout.rank[node] + step; i >= layout.start[level] && i < layout.start[level + 1]; i += step) {
      const next = layout.order[i];
      if (layout.x[next] >= right || layout.x[next] + tree.total[next] <= layout.x[zoomed]) return node;
      if (tree.total[next] >= least) return next;
    }
    return node;
  }
}

function callsOf(calls, frames) {
  return frames.map((frame) => calls.of[frame]).filter((call) => call >= 0);
}
