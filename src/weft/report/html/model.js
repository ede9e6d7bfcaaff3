// The profile as columns, and the questions that the page asks of it. docs/design/0007-the-page.md lists the columns.
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
export const STATES = [
  { state: RUNNING, name: "Running", ink: "--running" },
  { state: RUNNABLE, name: "Waiting for a CPU", ink: "--ready" },
  { state: GIL, name: "Waiting for the GIL", ink: "--gil" },
  { state: LOCK, name: "Waiting for a lock", ink: "--lock" },
  { state: IO, name: "Waiting for I/O", ink: "--io" },
  { state: SLEEPING, name: "Sleeping", ink: "--sleeping" },
  { state: BLOCKED, name: "Blocked", ink: "--blocked" },
];

/** Kinds of frames, as content.py numbers them. */
export const KINDS = ["Python", "C, C++", "missing frames", "Cython", "kernel", "Rust", "interpreter"];
export const CYTHON = 3;
export const PYTHON = 0;
const IS_NATIVE = [false, true, false, false, true, true, true];

/** Flags of frames, as content.py numbers them. */
export const PROVEN = 1;
export const COUNTED = 2;
export const OPEN = 4;
export const PROOFS = PROVEN | COUNTED | OPEN;
export const HIDDEN = 8;
export const WRAPPER = 16;

/**
 * @typedef {object} Model  The head of the data, and:
 * @property {string[]} strings  safe to show: Python has escaped what cannot be printed
 * @property {Record<string, ArrayLike<number>>} frames  function, file, module (strings), kind, flags, line, first,
 *   endLine, column, endColumn
 * @property {Int32Array} parent  of each stack; -1 at the outermost frame
 * @property {Int32Array} frame  of each stack: its innermost one
 * @property {Int32Array} depth  of each stack; 0 at the outermost frame
 * @property {{start: Float64Array, lasts: Float64Array, weight: Float64Array, ticks: ArrayLike<number>,
 *   state: ArrayLike<number>, stack: Int32Array}} rows  one thread's after another's, each in the order of time; ns since the
 *   beginning. A weight is time, which a row lasts but where samples are not evenly spaced, or bytes: then it is of a moment
 * @property {{thread: ArrayLike<number>, stack: Int32Array, state: ArrayLike<number>, weight: Float64Array,
 *   ticks: ArrayLike<number>} | null} totals  what all time adds up to, where the rows tell some stacks coarsely
 * @property {Int32Array} firstRow  of each thread, and one past the last
 * @property {number} end  ns
 */

/** @returns {Model} */
export function readModel({ head, column }) {
  const back = column("stack.back");
  const count = back.length;
  const parent = new Int32Array(count);
  const depth = new Int32Array(count);
  for (let i = 0; i < count; i++) {
    parent[i] = back[i] === 0 ? -1 : i - back[i];
    depth[i] = back[i] === 0 ? 0 : depth[parent[i]] + 1;
  }
  const names = ["function", "file", "module", "kind", "flags", "line", "first", "endLine", "column", "endColumn"];
  const frames = Object.fromEntries(names.map((name) => [name, column(`frame.${name}`)]));
  const waits = ["waiter", "waiterStack", "holder", "holderStack", "weight"];
  const weights = head.unit === "bytes" ? (bytes) => Float64Array.from(bytes) : nanoseconds;
  return {
    ...head,
    frames,
    parent,
    depth,
    frame: new Int32Array(column("stack.frame")),
    ...readRows(column, head.durationUs * 1000, weights, head.sliceUs === 0 ? head.spacingUs * 1000 : 0),
    totals: head.sliceUs > 0 ? readTotals(column, weights) : null,
    waits: Object.fromEntries(waits.map((name) => [name, column(`wait.${name}`)])),
  };
}

function readTotals(column, weights) {
  return {
    thread: column("total.thread"),
    state: column("total.state"),
    stack: new Int32Array(column("total.stack")),
    weight: weights(column("total.weight")),
    ticks: column("total.ticks"),
  };
}

function nanoseconds(microseconds) {
  const ns = new Float64Array(microseconds.length);
  for (let i = 0; i < ns.length; i++) ns[i] = microseconds[i] * 1000;
  return ns;
}

/** @param {number} spacing  ns: what is less after another row of its thread lasts since that one's end */
function readRows(column, duration, weights, spacing) {
  const counts = column("row.count");
  const firstRow = new Int32Array(counts.length + 1);
  for (let i = 0; i < counts.length; i++) firstRow[i + 1] = firstRow[i] + counts[i];
  const gap = column("row.gap");
  const weight = weights(column("row.weight"));
  const lasts = weights === nanoseconds ? weight.slice() : new Float64Array(weight.length);
  const start = new Float64Array(gap.length);
  let end = duration;
  for (let thread = 0; thread < counts.length; thread++) {
    let at = 0;
    for (let i = firstRow[thread]; i < firstRow[thread + 1]; i++) {
      start[i] = at + gap[i] * 1000;
      const before = at;
      at = start[i] + lasts[i];
      if (lasts[i] > 0 && i > firstRow[thread] && start[i] - before < spacing && at > before) {
        start[i] = before;
        lasts[i] = at - before;
      }
    }
    end = Math.max(end, weights === nanoseconds ? at : at + 1); // a moment lies before the end
  }
  const stack = new Int32Array(column("row.stack"));
  return { rows: { start, lasts, weight, ticks: column("row.ticks"), state: column("row.state"), stack }, firstRow, end };
}

/**
 * @typedef {object} Calls  What frames are merged into: functions, lines of functions, or modules.
 * @property {Int32Array} of  the call of each frame; -1: it is not shown
 * @property {string[]} name  of each call, as everything below
 * @property {string[]} file
 * @property {number[]} line  the executing line, or the function's first one; 0: none
 * @property {number[]} kind
 * @property {number[]} sample  a frame of it, which tells the call again when frames are merged in another way
 * @property {boolean[]} folded  whether it is a whole module
 */

/**
 * @param {{byLine: boolean, native: boolean, internals: boolean, folded: Set<string>}} choice
 * @param {(frame: number) => string} groupOf  the module of a frame
 * @returns {Calls}
 */
export function mergeFrames(model, choice, groupOf) {
  const { function: names, file: files, line: lines, first, kind, flags } = model.frames;
  const calls = { of: new Int32Array(names.length), name: [], file: [], line: [], kind: [], sample: [], folded: [] };
  const known = new Map();
  const places = new Map(); // numbers as keys are several times faster than texts
  const placeOf = (file, line, of) => {
    const key = (file * 2 ** 21 + Math.min(line, 2 ** 21 - 1)) * 8 + of;
    let found = places.get(key);
    if (found === undefined) {
      found = places.size;
      places.set(key, found);
    }
    return found;
  };
  for (let i = 0; i < names.length; i++) {
    const isHidden = !choice.internals && flags[i] & HIDDEN;
    if (isHidden || (!choice.native && IS_NATIVE[kind[i]])) {
      calls.of[i] = -1;
      continue;
    }
    const group = choice.folded.size > 0 ? groupOf(i) : "";
    const isFolded = choice.folded.has(group) && group !== "";
    // A function is its name, file and first line; line by line, its first line no longer tells calls apart.
    const line = choice.byLine ? lines[i] : first[i];
    const key = isFolded ? group : placeOf(files[i], line, kind[i]) * names.length + names[i];
    let call = known.get(key);
    if (call === undefined) {
      call = known.size;
      known.set(key, call);
      calls.name.push(isFolded ? group : model.strings[names[i]]);
      calls.file.push(isFolded ? "" : model.strings[files[i]]);
      calls.line.push(isFolded ? 0 : line);
      calls.kind.push(kind[i]);
      calls.sample.push(i);
      calls.folded.push(isFolded);
    }
    calls.of[i] = call;
  }
  return calls;
}

/**
 * What the chosen threads, states and time leave of each stack.
 * @param {{threads: Set<number>, states: Set<number>, range: [number, number] | null}} choice
 * @returns {{weight: Float64Array, ticks: Float64Array}}  ns and samples that had exactly this stack
 */
export function select(model, choice) {
  const weight = new Float64Array(model.parent.length);
  const ticks = new Float64Array(model.parent.length);
  const { rows } = model;
  const isChosen = Array.from({ length: 8 }, (_, state) => choice.states.has(state));
  if (model.totals && !choice.range) {
    const { totals } = model;
    const counts = Uint8Array.from(model.threads, (_, thread) => Number(choice.threads.has(thread)));
    for (let i = 0; i < totals.stack.length; i++) {
      if (!counts[totals.thread[i]] || !isChosen[totals.state[i]]) continue;
      weight[totals.stack[i]] += totals.weight[i];
      ticks[totals.stack[i]] += totals.ticks[i];
    }
    return { weight, ticks };
  }
  const [from, to] = choice.range ?? [-Infinity, Infinity];
  for (let thread = 0; thread < model.threads.length; thread++) {
    if (!choice.threads.has(thread)) continue;
    for (let i = model.firstRow[thread]; i < model.firstRow[thread + 1]; i++) {
      if (!isChosen[rows.state[i]]) continue;
      let share = 1;
      if (choice.range) {
        const end = rows.start[i] + rows.lasts[i];
        if (end <= from || rows.start[i] >= to) continue; // one without time lies in the range, or it does not
        if (rows.lasts[i] > 0) share = (Math.min(end, to) - Math.max(rows.start[i], from)) / rows.lasts[i];
      }
      weight[rows.stack[i]] += rows.weight[i] * share;
      ticks[rows.stack[i]] += rows.ticks[i] * share;
    }
  }
  return { weight, ticks };
}

/** Weight by thread and by state: of each, what the choice of the other and of the time leaves. */
export function timesOf(model, choice) {
  const byThread = new Float64Array(model.threads.length);
  const byState = new Float64Array(8);
  const { rows } = model;
  const [from, to] = choice.range ?? [-Infinity, Infinity];
  for (let thread = 0; thread < byThread.length; thread++) {
    const counts = choice.threads.has(thread);
    for (let i = model.firstRow[thread]; i < model.firstRow[thread + 1]; i++) {
      const end = rows.start[i] + rows.lasts[i];
      if (end <= from || rows.start[i] >= to) continue;
      const share = rows.lasts[i] > 0 ? (Math.min(end, to) - Math.max(rows.start[i], from)) / rows.lasts[i] : 1;
      const inside = rows.weight[i] * share;
      if (choice.states.has(rows.state[i])) byThread[thread] += inside;
      if (counts) byState[rows.state[i]] += inside;
    }
  }
  return { byThread, byState };
}

/**
 * Time of each key of frames: `self`, and `total` in which recursion counts once.
 * @param {ArrayLike<number>} of  the key of each frame; -1: none
 */
export function rank(model, of, count, selection) {
  const self = new Float64Array(count);
  const total = new Float64Array(count);
  const ticks = new Float64Array(count);
  const sum = selection.weight.slice();
  for (let i = sum.length - 1; i >= 0; i--) {
    if (model.parent[i] >= 0) sum[model.parent[i]] += sum[i];
  }
  const active = new Int32Array(count); // how often each key is on the path to the stack at hand
  const path = new Int32Array(model.depth.reduce((most, depth) => Math.max(most, depth), 0) + 1);
  const owner = new Int32Array(sum.length); // whose own time the stack is: that of its innermost frame with a key
  let length = 0;
  for (let i = 0; i < sum.length; i++) {
    while (length > model.depth[i]) {
      length -= 1;
      if (path[length] >= 0) active[path[length]] -= 1;
    }
    const key = of[model.frame[i]];
    path[length] = key;
    length += 1;
    owner[i] = key >= 0 ? key : model.parent[i] >= 0 ? owner[model.parent[i]] : -1;
    if (owner[i] >= 0) {
      self[owner[i]] += selection.weight[i];
      ticks[owner[i]] += selection.ticks[i];
    }
    if (key < 0) continue;
    if (active[key] === 0) total[key] += sum[i];
    active[key] += 1;
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
    const call = calls.of[model.frame[i]];
    const caller = model.parent[i];
    within[i] = (call >= 0 && matches[call]) || (caller >= 0 && within[caller]) ? 1 : 0;
    if (within[i]) sum += selection.weight[i];
  }
  return sum;
}
