// The profile as columns, and the questions that the page asks of it.
//
// Stacks are a prefix tree in preorder: a stack's callers have lower numbers than it, and the stacks that it calls
// follow it directly. Every walk here is a loop over numbers, so a stack of 100,000 frames is like any other.

/** States of a thread, as src/weft/sample.py numbers them. */
export const RUNNING = 0;
export const GIL = 1;
export const BLOCKED = 2;
export const RUNNABLE = 3;
export const IO = 4;
export const SLEEPING = 5;
export const LOCK = 6;

/**
 * @typedef {object} Model
 * @property {string[]} strings  safe to show: Python has escaped what cannot be printed
 * @property {{function: number[], file: number[], line: number[], first: number[]}} frames
 * @property {Int32Array} parent  of each stack; -1 at the outermost frame
 * @property {Int32Array} frame  of each stack: its innermost one
 * @property {Int32Array} depth  of each stack; 0 at the outermost frame
 * @property {{thread: number[], stack: number[], state: number[], weight: number[], ticks: number[]}} totals
 *   weights in ns
 * @property {{name: string, tid: number, process: number}[]} threads
 * @property {{pid: number}[]} processes
 */

/**
 * @typedef {object} Calls  What frames are merged into: functions, or lines of functions.
 * @property {Int32Array} of  the call of each frame
 * @property {string[]} name  of each call, as everything below
 * @property {string[]} file
 * @property {Int32Array} line  the executing line, or the function's first one; 0: none
 */

/**
 * @typedef {object} Selection  What the chosen threads and states leave of each stack.
 * @property {Float64Array} weight  ns spent with exactly this stack
 * @property {Float64Array} ticks  samples that had exactly this stack
 */

/** @returns {Model} */
export function readModel(raw) {
  const { back, frame } = raw.stacks;
  const parent = new Int32Array(back.length);
  const depth = new Int32Array(back.length);
  for (let i = 0; i < back.length; i++) {
    parent[i] = back[i] === 0 ? -1 : i - back[i];
    depth[i] = back[i] === 0 ? 0 : depth[parent[i]] + 1;
  }
  return { ...raw, parent, depth, frame: Int32Array.from(frame) };
}

/** @returns {Calls} */
export function mergeFrames(model, byLine) {
  const { function: names, file: files, line: lines, first } = model.frames;
  const calls = { of: new Int32Array(names.length), name: [], file: [], line: [] };
  const known = new Map();
  for (let i = 0; i < names.length; i++) {
    // A function is its name, file and first line; line by line, its first line no longer tells calls apart.
    const line = byLine ? lines[i] : first[i];
    const key = `${names[i]} ${files[i]} ${line}`;
    let call = known.get(key);
    if (call === undefined) {
      call = known.size;
      known.set(key, call);
      calls.name.push(model.strings[names[i]]);
      calls.file.push(model.strings[files[i]]);
      calls.line.push(line);
    }
    calls.of[i] = call;
  }
  return { ...calls, line: Int32Array.from(calls.line) };
}

/**
 * @param {Set<number>} threads
 * @param {Set<number>} states
 * @returns {Selection}
 */
export function select(model, threads, states) {
  const weight = new Float64Array(model.parent.length);
  const ticks = new Float64Array(model.parent.length);
  const { totals } = model;
  for (let i = 0; i < totals.stack.length; i++) {
    if (!threads.has(totals.thread[i]) || !states.has(totals.state[i])) continue;
    weight[totals.stack[i]] += totals.weight[i];
    ticks[totals.stack[i]] += totals.ticks[i];
  }
  return { weight, ticks };
}

/** Time and samples by one column of the totals ("thread" or "state"), of the rows that `keep` lets through. */
export function sumBy(model, column, keep) {
  const sums = new Map();
  const { totals } = model;
  for (let i = 0; i < totals.stack.length; i++) {
    if (keep(i)) sums.set(totals[column][i], (sums.get(totals[column][i]) ?? 0) + totals.weight[i]);
  }
  return sums;
}

/** Per stack: its own column plus that of every stack that it calls. */
export function withCallees(model, column) {
  const sum = column.slice();
  for (let i = sum.length - 1; i >= 0; i--) {
    if (model.parent[i] >= 0) sum[model.parent[i]] += sum[i];
  }
  return sum;
}

/**
 * Time of each call: `self`, and `total` in which recursion counts once.
 * @param {Selection} selection
 */
export function rank(model, calls, selection) {
  const count = calls.name.length;
  const self = new Float64Array(count);
  const total = new Float64Array(count);
  const ticks = new Float64Array(count);
  const sum = withCallees(model, selection.weight);
  const sumTicks = withCallees(model, selection.ticks);
  const active = new Int32Array(count); // how often each call is on the path to the stack at hand
  const path = [];
  for (let i = 0; i < sum.length; i++) {
    while (path.length > model.depth[i]) active[path.pop()] -= 1;
    const call = calls.of[model.frame[i]];
    self[call] += selection.weight[i];
    if (active[call] === 0) {
      total[call] += sum[i];
      ticks[call] += sumTicks[i];
    }
    active[call] += 1;
    path.push(call);
  }
  return { self, total, ticks };
}

/**
 * Time whose stack has a matching call anywhere, in ns.
 * @param {Uint8Array} matches  per call
 */
export function matchedWeight(model, calls, selection, matches) {
  const within = new Uint8Array(model.parent.length);
  let sum = 0;
  for (let i = 0; i < within.length; i++) {
    const caller = model.parent[i];
    within[i] = matches[calls.of[model.frame[i]]] || (caller >= 0 && within[caller]) ? 1 : 0;
    if (within[i]) sum += selection.weight[i];
  }
  return sum;
}
