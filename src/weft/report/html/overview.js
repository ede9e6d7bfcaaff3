// The strip above all views: what the chosen threads did over the whole recording. A drag over it chooses a time range.

import { time } from "./format.js";
import { STATE_COUNT } from "./lanes.js";
import { fitCanvas } from "./paint.js";
import { STATES } from "./model.js";

const SHORTEST = 3; // pixels; a drag below it clears the range
const KEY_STEP = 0.02; // of the recording

/** Lets pointers choose a range of time: calls back with ns while they move, and once more when they let go. */
export function brush(element, timeAt, onMove, onDone) {
  let begin = null;
  const rangeTo = (event) => {
    const [a, b] = [timeAt(begin), timeAt(event.clientX)];
    return Math.abs(event.clientX - begin) < SHORTEST ? null : [Math.min(a, b), Math.max(a, b)];
  };
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !event.isPrimary) return;
    begin = event.clientX;
  });
  element.addEventListener("pointermove", (event) => {
    if (begin === null || !event.isPrimary) return;
    const range = rangeTo(event);
    if (range === null) return;
    element.setPointerCapture(event.pointerId);
    onMove(range);
  });
  element.addEventListener("pointerup", (event) => {
    if (begin === null || !event.isPrimary) return;
    const range = rangeTo(event);
    begin = null;
    onDone(range, event);
  });
  element.addEventListener("pointercancel", () => (begin = null));
}

export class Overview {
  #box;
  #canvas;
  #model;
  #lanes;
  #scene = { threads: new Set(), states: new Set(), range: null, ink: null };

  /** @param {(range: [number, number] | null) => void} onRange */
  constructor(box, model, lanes, onRange) {
    this.#box = box;
    this.#canvas = box.querySelector("canvas");
    this.#model = model;
    this.#lanes = lanes;
    const timeAt = (x) => {
      const area = box.getBoundingClientRect();
      return Math.min(Math.max((x - area.left) / area.width, 0), 1) * this.#model.end;
    };
    const preview = (range) => {
      this.#scene.range = range;
      this.#draw();
    };
    brush(box, timeAt, preview, onRange);
    box.addEventListener("keydown", (event) => this.#key(event, onRange));
    new ResizeObserver(() => this.#draw()).observe(box);
  }

  /** From now on it is of this model. */
  renew(model, lanes) {
    this.#model = model;
    this.#lanes = lanes;
  }

  show(threads, states, range, ink) {
    Object.assign(this.#scene, { threads, states, range, ink });
    const words = range ? `${time(range[0])} to ${time(range[1])} chosen` : "all of it chosen";
    this.#box.setAttribute("aria-valuetext", words);
    this.#draw();
  }

  #key(event, onRange) {
    const { end } = this.#model;
    const [from, to] = this.#scene.range ?? [0, end];
    const step = end * KEY_STEP;
    const moves = {
      ArrowLeft: event.shiftKey ? [from, to - step] : [from - step, to - step],
      ArrowRight: event.shiftKey ? [from, to + step] : [from + step, to + step],
      "[": [from + step, to],
      "]": [from, to - step],
    };
    if (!(event.key in moves) && event.key !== "Delete" && event.key !== "Backspace") return;
    event.preventDefault();
    const [a, b] = moves[event.key] ?? [0, end];
    if (b - a < step / 2 || a < 0 || b > end) return;
    onRange(a <= 0 && b >= end ? null : [a, b]);
  }

  #draw() {
    const { ink, threads, states, range } = this.#scene;
    const { clientWidth: width, clientHeight: height } = this.#box;
    if (!ink || width === 0) return;
    const context = fitCanvas(this.#canvas, width, height);
    context.fillStyle = ink.sheet;
    context.fillRect(0, 0, width, height);
    const count = Math.max(1, Math.round(width));
    const sums = new Float64Array(count * STATE_COUNT);
    for (const thread of threads) {
      const bins = this.#lanes.of(thread, 0, this.#model.end, count);
      for (let i = 0; i < bins.length; i++) sums[i] += bins[i];
    }
    const shown = STATES.filter(({ state }) => states.has(state));
    let most = 0;
    for (let bin = 0; bin < count; bin++) {
      most = Math.max(most, shown.reduce((sum, { state }) => sum + sums[bin * STATE_COUNT + state], 0));
    }
    for (let bin = 0; most > 0 && bin < count; bin++) {
      let y = height;
      for (const { state } of shown) {
        const size = (sums[bin * STATE_COUNT + state] / most) * (height - 3);
        context.fillStyle = ink.states[state];
        context.fillRect((bin * width) / count, y - size, width / count, size);
        y -= size;
      }
    }
    if (range) paintRange(context, ink, range.map((at) => (at / this.#model.end) * width), width, height);
  }
}

/** Veils what is not chosen. */
export function paintRange(context, ink, [left, right], width, height) {
  context.fillStyle = ink.veil;
  context.fillRect(0, 0, Math.max(left, 0), height);
  context.fillRect(right, 0, Math.max(width - right, 0), height);
  context.fillStyle = ink.accent;
  context.fillRect(left - 1, 0, 2, height);
  context.fillRect(right - 1, 0, 2, height);
}
