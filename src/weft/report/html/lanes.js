// What threads did in each of many equal parts of a stretch of time, for tracks and the overview.

import { GIL, RUNNABLE, RUNNING } from "./model.js";

export const STATE_COUNT = 7;

/** First row of a thread that ends after `at`. */
export function rowAfter(model, thread, at) {
  const { start, lasts } = model.rows;
  let low = model.firstRow[thread];
  let high = model.firstRow[thread + 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (start[middle] + lasts[middle] > at) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * Weight of one thread in each state.
 * @returns {Float32Array}  ns, or bytes; STATE_COUNT for each of `count` parts of [from, to)
 */
export function binStates(model, thread, from, to, count) {
  const bins = new Float32Array(count * STATE_COUNT);
  const { start, lasts, weight, state } = model.rows;
  const size = (to - from) / count;
  for (let i = rowAfter(model, thread, from); i < model.firstRow[thread + 1] && start[i] < to; i++) {
    const end = Math.min(start[i] + lasts[i], to);
    let at = Math.max(start[i], from);
    let bin = Math.floor((at - from) / size);
    if (lasts[i] === 0 && bin < count) bins[bin * STATE_COUNT + state[i]] += weight[i];
    while (at < end && bin < count) {
      const until = Math.min(end, from + (bin + 1) * size);
      bins[bin * STATE_COUNT + state[i]] += until - at;
      at = until;
      bin += 1;
    }
  }
  return bins;
}

const MOST_BINS = 1 << 21; // of all threads together
const FINEST = 2048;

/** The parts of any stretch of time; those of the whole recording are counted once. */
export class Lanes {
  #model;
  #whole = new Map();
  #count;

  constructor(model) {
    this.#model = model;
    this.#count = Math.max(128, Math.min(FINEST, Math.floor(MOST_BINS / STATE_COUNT / Math.max(model.threads.length, 1))));
  }

  /** As binStates; where the stretch is long, from parts that were counted before. */
  of(thread, from, to, count) {
    const { end } = this.#model;
    if (to - from < end / 3) return binStates(this.#model, thread, from, to, count);
    if (!this.#whole.has(thread)) this.#whole.set(thread, binStates(this.#model, thread, 0, end, this.#count));
    const fine = this.#whole.get(thread);
    const bins = new Float32Array(count * STATE_COUNT);
    const size = (to - from) / count;
    const finer = end / this.#count;
    for (let bin = 0; bin < count; bin++) {
      const first = Math.floor((from + bin * size) / finer);
      const last = Math.max(first + 1, Math.ceil((from + (bin + 1) * size) / finer));
      for (let part = first; part < last && part < this.#count; part++) {
        const share = size / (finer * (last - first));
        for (let state = 0; state < STATE_COUNT; state++) {
          bins[bin * STATE_COUNT + state] += fine[part * STATE_COUNT + state] * share;
        }
      }
    }
    return bins;
  }
}

export const NOBODY = -1; // waits, so that it does not matter who holds it
export const UNKNOWN = -2;
const LEAST = 0.005; // threads waiting, on the average, from which on someone waits

/**
 * Who waited for the GIL, and for whom, in each part.
 *
 * The capture does not tell who held the GIL when, but in mode gil, where only who holds it is sampled. Else it is told
 * whom threads waited for in all (collector bpf): of those, the holder is taken to be the one of the process that ran
 * most in the part; where not even that is told, of all its threads.
 * @returns {{waiting: Float32Array, holder: Int32Array}}  waiting: how many threads on the average; holder: a thread,
 *   NOBODY or UNKNOWN. Where threads of several processes wait, that of the one with most waiters
 */
export function gilTrack(model, lanes, threads, from, to, count) {
  const blamed = new Float64Array(model.threads.length);
  for (let i = 0; i < model.waits.weight.length; i++) {
    if (model.waits.holder[i] > 0) blamed[model.waits.holder[i] - 1] += model.waits.weight[i];
  }
  const isSampled = model.mode === "gil";
  const isTold = blamed.some((ns) => ns > 0);
  const mayHold = (thread) => isSampled || !isTold || blamed[thread] > 0;
  const all = { waiting: new Float32Array(count), holder: new Int32Array(count).fill(NOBODY) };
  const most = new Float32Array(count); // waiters of the process whose holder is told
  for (let process = 0; process < model.processes.length; process++) {
    const own = [...threads].filter((thread) => model.threads[thread].process === process);
    const { waiting, holder } = gilOf(own, mayHold, lanes, from, to, count);
    for (let bin = 0; bin < count; bin++) {
      all.waiting[bin] += waiting[bin];
      const isWaitedFor = waiting[bin] > Math.max(most[bin], LEAST);
      if (isWaitedFor || (isSampled && holder[bin] >= 0)) all.holder[bin] = holder[bin];
      most[bin] = Math.max(most[bin], waiting[bin]);
    }
  }
  return all;
}

/** Of the threads of one process: how many wait, and which of those that may hold the GIL ran most. */
function gilOf(threads, mayHold, lanes, from, to, count) {
  const waiting = new Float32Array(count);
  const holder = new Int32Array(count).fill(UNKNOWN);
  const most = new Float32Array(count);
  for (const thread of threads) {
    const bins = lanes.of(thread, from, to, count);
    for (let bin = 0; bin < count; bin++) {
      const at = bin * STATE_COUNT;
      waiting[bin] += bins[at + GIL] / ((to - from) / count);
      const ran = mayHold(thread) ? bins[at + RUNNING] + bins[at + RUNNABLE] : 0;
      if (ran > most[bin]) {
        most[bin] = ran;
        holder[bin] = thread;
      }
    }
  }
  return { waiting, holder };
}
