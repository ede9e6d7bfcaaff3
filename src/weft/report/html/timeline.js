// The time line: a track for the GIL, and one for each thread with its states; opened, a thread's stacks in time order.

import { rowAfter } from "./lanes.js";
import { brush, paintRange } from "./overview.js";
import { fillOfCall, fit, fitCanvas, FONT, paintBox, paintHover, paintName, ROW } from "./paint.js";
import { Sight } from "./sight.js";
import { AXIS, LANE, NAME, paintAxis, paintGil, paintStates, PART, threadColour } from "./tracks.js";

const BETWEEN = 9;
const TALLEST = 80; // levels of an opened track
const FEWEST = 8; // levels of one that leaves room for the others
const TALL = 0.62; // of the window: as high as the style sheet lets the time line be
const READABLE = 26;

export class Timeline {
  #box;
  #canvas;
  #spacer;
  #model;
  #lanes;
  #pending = false;
  #open = new Set();
  #some = new Set(); // of those, with as many levels only as leave all tracks in sight
  #isOpened = false; // the busiest thread has been, which is open at first
  #tracks = [];
  #scene = { range: null, hovered: null, track: 0 };
  #sight = new Sight(() => this.redraw());

  /** @param {object} on  what to tell: range(range), hovered(what, event), selected(node) */
  constructor(box, model, lanes, on) {
    this.#box = box;
    [this.#canvas, this.#spacer] = box.children;
    this.on = on;
    this.renew(model, lanes);
    this.#sight.listen(box, false);
    const preview = (range) => {
      this.#scene.range = range;
      this.redraw();
    };
    brush(this.#canvas, (x) => this.#timeAt(x), preview, (range, event) =>
      range ? on.range(range) : this.#click(event),
    );
    box.addEventListener("scroll", () => this.redraw());
    box.addEventListener("focus", () => this.redraw());
    box.addEventListener("blur", () => this.redraw());
    box.addEventListener("keydown", (event) => this.#key(event));
    this.#canvas.addEventListener("pointermove", (event) => this.#hover(event));
    this.#canvas.addEventListener("pointerleave", (event) => this.#hover(event, true));
    new ResizeObserver(() => this.#resized()).observe(box);
  }

  /** From now on it is of this model. What is in sight stays, if that is not all of the time. */
  renew(model, lanes) {
    const { isWhole } = this.#sight;
    this.#model = model;
    this.#lanes = lanes;
    this.#scene.hovered = null;
    this.#sight.bound(0, model.end);
    if (isWhole) this.#sight.go(0, model.end, false);
    if (!this.#isOpened && model.threads.length > 0) {
      const busiest = this.#busiest();
      this.#open.add(busiest);
      this.#some.add(busiest);
    }
    this.#isOpened ||= model.threads.length > 0;
  }

  /** @param {object} scene  threads, states, range; tree (with nodeOf), calls, fills, ink, matches, byLine */
  show(scene) {
    Object.assign(this.#scene, scene);
    this.#place();
    this.redraw();
  }

  /** Brings a range, or all, into sight. */
  look(range) {
    const [from, to] = range ?? [0, this.#model.end];
    this.#sight.go(from, to);
  }

  zoom(factor) {
    this.#sight.zoom(factor, 0.5);
  }

  get sight() {
    return [this.#sight.from, this.#sight.from + this.#sight.span];
  }

  redraw() {
    if (this.#pending) return;
    this.#pending = true;
    requestAnimationFrame(() => {
      this.#pending = false;
      const { clientWidth: width, clientHeight: height } = this.#box;
      if (width === 0 || !this.#scene.ink) return;
      this.#draw(fitCanvas(this.#canvas, width, height), width, height, this.#box.scrollTop);
    });
  }

  export(makeContext) {
    const [width, height] = [this.#box.clientWidth, this.#height()];
    const context = makeContext(width, height);
    this.#draw(context, width, height, 0);
    return context;
  }

  #busiest() {
    const { rows, firstRow, threads } = this.#model;
    const busy = threads.map((_, thread) => {
      let sum = 0;
      for (let i = firstRow[thread]; i < firstRow[thread + 1]; i++) if (rows.state[i] === 0) sum += rows.weight[i];
      return sum;
    });
    return busy.reduce((best, ns, thread) => (ns > busy[best] ? thread : best), 0);
  }

  #place() {
    const { threads, tree } = this.#scene;
    const deepest = new Map([...this.#open].map((thread) => [thread, this.#levels(thread, tree)]));
    let y = AXIS;
    const hasGil = this.#model.mode === "gil" || this.#model.waits.weight.length > 0 || this.#waits();
    this.#tracks = hasGil ? [{ thread: -1, y, levels: 0 }] : [];
    if (hasGil) y += NAME + LANE + BETWEEN;
    const { firstRow } = this.#model;
    const seen = [...threads].sort((a, b) => a - b).filter((thread) => firstRow[thread] < firstRow[thread + 1]);
    const room = innerHeight * TALL - y - seen.length * (NAME + LANE + BETWEEN) - 4;
    const some = Math.max(FEWEST, Math.floor(room / ROW));
    for (const thread of seen) {
      const deep = deepest.get(thread) ?? 0;
      const levels = Math.min(deep, this.#some.has(thread) ? some : TALLEST);
      this.#tracks.push({ thread, y, levels, deepest: deep });
      y += NAME + LANE + (levels > 0 ? levels * ROW + 4 : 0) + BETWEEN;
    }
    this.#scene.height = y;
    this.#scene.track = Math.min(this.#scene.track, Math.max(this.#tracks.length - 1, 0));
    this.#resized();
  }

  #waits() {
    return this.#model.rows.state.some((state) => state === 1);
  }

  #levels(thread, tree) {
    const { rows, firstRow } = this.#model;
    const depth = new Int32Array(tree.parent.length);
    for (let i = 1; i < depth.length; i++) depth[i] = depth[tree.parent[i]] + 1;
    let most = 0;
    for (let i = firstRow[thread]; i < firstRow[thread + 1]; i++) {
      const node = tree.nodeOf[rows.stack[i]];
      if (node > 0 && depth[node] > most) most = depth[node];
    }
    return most;
  }

  #height() {
    return Math.max(this.#scene.height ?? 0, this.#box.clientHeight);
  }

  #resized() {
    if (this.#box.clientHeight === 0) return;
    this.#box.style.setProperty("--height", `${this.#scene.height ?? 0}px`);
    this.#canvas.style.height = `${this.#box.clientHeight}px`;
    this.#spacer.style.height = `${this.#height() - this.#box.clientHeight}px`;
    this.redraw();
  }

  #timeAt(x) {
    const area = this.#box.getBoundingClientRect();
    return this.#sight.from + Math.min(Math.max((x - area.left) / this.#box.clientWidth, 0), 1) * this.#sight.span;
  }

  #x(at, width) {
    return ((at - this.#sight.from) / this.#sight.span) * width;
  }

  #draw(context, width, height, scrolled) {
    const { ink, range } = this.#scene;
    context.fillStyle = ink.paper;
    context.fillRect(0, 0, width, height);
    context.font = FONT;
    context.textBaseline = "middle";
    context.direction = "ltr";
    this.#tracks.forEach((track, number) => {
      const y = track.y - scrolled;
      const size = NAME + LANE + track.levels * ROW;
      if (y > height || y + size < 0) return;
      if (track.thread < 0) paintGil(context, this.#scene, this.#model, this.#lanes, this.#parts(width), y, width);
      else this.#drawThread(context, track, y, width, height);
      if (number === this.#scene.track && this.#box.matches(":focus-visible")) {
        context.strokeStyle = ink.accent;
        context.lineWidth = 2;
        context.strokeRect(1, y - 1, width - 2, NAME + LANE + 2);
      }
    });
    if (range) paintRange(context, ink, range.map((at) => this.#x(at, width)), width, height);
    paintAxis(context, ink, this.#sight, width);
  }

  /** What is in sight as parts of whole pixels, so that edges are sharp; the last may stick out. */
  #parts(width) {
    const [from, to] = this.sight;
    const count = Math.max(1, Math.ceil(width / PART));
    return { from, to: from + ((to - from) / width) * count * PART, count };
  }

  #drawThread(context, track, y, width, height) {
    const { ink } = this.#scene;
    const { thread, levels } = track;
    context.fillStyle = threadColour(thread, ink);
    context.fillRect(0, y + 3, 3, NAME - 5);
    context.fillStyle = ink.plain;
    const { name, tid, process } = this.#model.threads[thread];
    const of = this.#model.processes.length > 1 ? `, process ${this.#model.processes[process].pid}` : "";
    const mark = levels > 0 ? "▾" : "▸";
    const cut = levels < track.deepest && levels > 0 ? `  ${levels} of its ${track.deepest.toLocaleString("en")} levels` : "";
    const more = this.#some.has(thread) && cut ? ", click for more" : "";
    context.fillText(fit(context, `${mark} ${name || "thread"} (${tid}${of})${cut}${more}`, width - 12), 7, y + NAME / 2);
    const parts = this.#parts(width);
    const bottom = y + NAME + LANE;
    const bins = this.#lanes.of(thread, parts.from, parts.to, parts.count);
    paintStates(context, this.#scene, this.#model, bins, parts, bottom, width);
    if (levels > 0) this.#drawStacks(context, thread, bottom + 2, width, Math.min(levels, Math.ceil((height - bottom) / ROW)));
  }

  /** What of a thread's stacks is in sight: the node that each stretch of pixels shows; -1: none that is chosen. */
  #stretches(thread, width) {
    const { states, range, tree } = this.#scene;
    const { rows, firstRow } = this.#model;
    const [from, to] = this.sight;
    const scale = width / (to - from);
    const last = firstRow[thread + 1];
    const found = [];
    let i = rowAfter(this.#model, thread, from);
    while (i < last && rows.start[i] < to) {
      const end = rows.start[i] + rows.lasts[i];
      const left = (rows.start[i] - from) * scale;
      let right = (end - from) * scale;
      const isChosen =
        states.has(rows.state[i]) && (!range || (rows.start[i] < range[1] && end > range[0]));
      const node = isChosen ? tree.nodeOf[rows.stack[i]] : -1;
      // Of those narrower than a pixel that share a part, the one at its beginning is drawn.
      let next = i + 1;
      if (right - left < 1) {
        right = (Math.floor(left / PART) + 1) * PART;
        next = Math.max(next, rowAfter(this.#model, thread, from + right / scale));
      }
      const before = found.at(-1);
      if (before && before.node === node && left - before.right < 1) before.right = right;
      else found.push({ left, right, node });
      i = next;
    }
    return found.filter(({ node }) => node > 0);
  }

  #drawStacks(context, thread, top, width, levels) {
    const scene = this.#scene;
    const { tree } = scene;
    const stretches = this.#stretches(thread, width).map((one) => ({ ...one, path: tree.path(one.node) }));
    for (let level = 0; level < levels; level++) {
      for (let i = 0; i < stretches.length; ) {
        const node = stretches[i].path[level];
        if (node === undefined) {
          i += 1;
          continue;
        }
        const left = stretches[i].left;
        let { right } = stretches[i];
        for (i += 1; i < stretches.length && stretches[i].path[level] === node && stretches[i].left - right < 1; i++) {
          right = stretches[i].right;
        }
        const y = top + level * ROW;
        const [a, b] = [Math.max(left, -2), Math.min(right - (right - left > 3 ? 1 : 0), width + 2)];
        const isHovered = scene.hovered?.node === node && scene.hovered?.thread === thread;
        paintBox(context, a, b, y, fillOfCall(scene, tree.call[node]));
        if (isHovered) paintHover(context, scene, a, b, y);
        if (b - a > READABLE) paintName(context, scene, tree.call[node], Math.max(a, 0) + 5, y, b - Math.max(a, 0) - 10);
      }
    }
  }

  /** What lies at a place: {track, at, thread, state?, node?}. */
  #under(event) {
    const area = this.#box.getBoundingClientRect();
    const y = event.clientY - area.top + this.#box.scrollTop;
    const number = this.#tracks.findLastIndex((track) => track.y <= y);
    if (number < 0) return null;
    const track = this.#tracks[number];
    const at = this.#timeAt(event.clientX);
    const found = { track: number, thread: track.thread, at, y: y - track.y };
    if (track.thread < 0) return found;
    const row = rowAfter(this.#model, track.thread, at);
    const { rows, firstRow } = this.#model;
    if (row < firstRow[track.thread + 1] && rows.start[row] <= at) {
      found.state = rows.state[row];
      const level = Math.floor((y - track.y - NAME - LANE - 2) / ROW);
      const node = this.#scene.tree.nodeOf[rows.stack[row]];
      if (level >= 0 && node > 0 && this.#scene.states.has(found.state)) found.node = this.#scene.tree.path(node)[level];
    }
    return found;
  }

  #hover(event, isOut = false) {
    if (event.buttons > 0) return;
    const found = isOut ? null : this.#under(event);
    this.#scene.hovered = found;
    this.redraw();
    this.on.hovered(found, event);
  }

  #click(event) {
    const found = this.#under(event);
    if (found === null) return;
    this.#scene.track = found.track;
    if (found.node !== undefined) this.on.selected(found.node);
    else if (found.y < NAME && found.thread >= 0) this.#toggle(found.thread);
    else if (this.#scene.range) this.on.range(null);
    this.redraw();
  }

  #toggle(thread) {
    const { levels, deepest } = this.#tracks.find((track) => track.thread === thread);
    const isCut = this.#some.delete(thread) && levels < deepest;
    if (!isCut && !this.#open.delete(thread)) this.#open.add(thread);
    this.#place();
    this.redraw();
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.#box) return;
    const step = (by) => {
      this.#scene.track = Math.min(Math.max(this.#scene.track + by, 0), this.#tracks.length - 1);
      const { y } = this.#tracks[this.#scene.track];
      this.#box.scrollTop = Math.min(Math.max(this.#box.scrollTop, y + 60 - this.#box.clientHeight), y - AXIS);
      this.redraw();
    };
    const moves = {
      ArrowUp: () => step(-1),
      ArrowDown: () => step(1),
      ArrowLeft: () => this.#sight.pan(-0.1),
      ArrowRight: () => this.#sight.pan(0.1),
      Enter: () => this.#tracks[this.#scene.track]?.thread >= 0 && this.#toggle(this.#tracks[this.#scene.track].thread),
      Home: () => this.look(null),
      "+": () => this.zoom(0.7),
      "-": () => this.zoom(1.4),
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    moves[event.key]();
  }
}
