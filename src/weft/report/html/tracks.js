// Draws what the time line has of each track: its axis, the GIL, a thread's states.

import { oklch } from "./colour.js";
import { time } from "./format.js";
import { gilTrack, STATE_COUNT, UNKNOWN } from "./lanes.js";
import { STATES } from "./model.js";
import { fit } from "./paint.js";

export const AXIS = 22; // CSS pixels, as the next
export const NAME = 17;
export const LANE = 16;
export const PART = 2;
const STEPS = [1, 2, 5];

export function paintAxis(context, ink, sight, width) {
  context.fillStyle = ink.sheet;
  context.fillRect(0, 0, width, AXIS - 3);
  const least = (sight.span / width) * 90;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = (STEPS.find((one) => one * power >= least) ?? 10) * power;
  for (let at = Math.ceil(sight.from / step) * step; at <= sight.from + sight.span; at += step) {
    const x = ((at - sight.from) / sight.span) * width;
    context.fillStyle = ink.line;
    context.fillRect(x, 0, 1, AXIS - 3);
    context.fillStyle = ink.soft;
    context.fillText(time(at), x + 4, AXIS / 2 - 1);
  }
}

export function paintGil(context, { ink, threads }, model, lanes, { from, to, count }, y, width) {
  const { waiting, holder } = gilTrack(model, lanes, threads, from, to, count);
  const how = model.mode === "gil" ? "as sampled" : "estimated where a thread waits";
  context.fillStyle = ink.plain;
  context.fillText(fit(context, `GIL: above, threads that wait; below, who holds it (${how})`, width - 8), 4, y + NAME / 2);
  const most = Math.max(1, ...waiting);
  const [step, top] = [PART, y + NAME];
  let begin = 0;
  for (let bin = 0; bin < count; bin++) {
    const size = (waiting[bin] / most) * (LANE / 2 - 1);
    context.fillStyle = ink.states[1];
    if (size > 0.2) context.fillRect(bin * step, top + LANE / 2 - 1 - size, step, size);
    if (bin + 1 < count && holder[bin + 1] === holder[begin]) continue;
    if (holder[begin] >= 0) {
      context.fillStyle = threadColour(holder[begin], ink);
      context.fillRect(begin * step, top + LANE / 2, (bin + 1 - begin) * step, LANE / 2);
    } else if (holder[begin] === UNKNOWN) {
      context.fillStyle = ink.line;
      context.fillRect(begin * step, top + LANE / 2, (bin + 1 - begin) * step, LANE / 2);
    }
    begin = bin + 1;
  }
}

/** The time in each state, one upon the other, in each part. States that are not chosen are dimmed. */
export function paintStates(context, { ink, states }, model, bins, { from, to, count }, bottom, width) {
  const size = (to - from) / count;
  context.fillStyle = ink.sheet;
  context.fillRect(0, bottom - LANE, width, LANE);
  const sums = new Float64Array(count); // of what is drawn already
  for (const { state } of STATES) {
    if (!model.states.includes(state)) continue;
    context.fillStyle = states.has(state) ? ink.states[state] : ink.dimmed;
    // In whole pixels, so that parts beside each other are often alike, and one rectangle.
    const same = { begin: 0, low: 0, high: 0 };
    for (let bin = 0; bin <= count; bin++) {
      const low = bin < count ? Math.round(Math.min(sums[bin] / size, 1) * LANE) : 0;
      if (bin < count) sums[bin] += bins[bin * STATE_COUNT + state];
      const high = bin < count ? Math.round(Math.min(sums[bin] / size, 1) * LANE) : 0;
      if (bin < count && low === same.low && high === same.high) continue;
      const { begin } = same;
      if (same.high > same.low) context.fillRect(begin * PART, bottom - same.high, (bin - begin) * PART, same.high - same.low);
      Object.assign(same, { begin: bin, low, high });
    }
  }
}

export function threadColour(thread, ink) {
  return oklch(ink.isDark ? 0.6 : 0.68, 0.13, (thread * 137.5 + 200) % 360);
}
