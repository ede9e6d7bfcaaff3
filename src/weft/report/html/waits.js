// Who makes whom wait for the GIL, as a table.

import { element } from "./describe.js";
import { time } from "./format.js";

/** The table of who makes whom wait for the GIL, over the whole recording. */
export function fillWaits(table, model) {
  const sums = new Map();
  const { waits } = model;
  const describe = (thread, stack) => {
    const frame = innermostPython(model, stack - 1);
    const { name, tid } = model.threads[thread];
    return `${frame < 0 ? "not known" : model.strings[model.frames.function[frame]]} in ${name} (${tid})`;
  };
  for (let i = 0; i < waits.weight.length; i++) {
    const holder = waits.holder[i] > 0 ? describe(waits.holder[i] - 1, waits.holderStack[i]) : "not known";
    const key = `${describe(waits.waiter[i], waits.waiterStack[i])}\n${holder}`;
    sums.set(key, (sums.get(key) ?? 0) + waits.weight[i] * 1000);
  }
  const rows = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 12);
  table.hidden = rows.length === 0;
  table.tBodies[0].replaceChildren(
    ...rows.map(([key, ns]) => {
      const [waiter, holder] = key.split("\n").map((text) => element("td", "name", text));
      return element("tr", "", element("td", "amount", time(ns)), waiter, holder);
    }),
  );
}

function innermostPython(model, stack) {
  for (let i = stack; i >= 0; i = model.parent[i]) {
    const kind = model.frames.kind[model.frame[i]];
    if (kind === 0 || kind === 3) return model.frame[i];
  }
  return stack >= 0 ? model.frame[stack] : -1;
}
