// The toolbar: which threads and states are counted, which way the tree goes, what is searched.

import { element } from "./describe.js";
import { time } from "./format.js";
import { BLOCKED, GIL, IO, LOCK, RUNNABLE, RUNNING, SLEEPING, sumBy } from "./model.js";

const STATES = [
  [RUNNING, "Running"],
  [RUNNABLE, "Waiting for a CPU"],
  [GIL, "Waiting for the GIL"],
  [LOCK, "Waiting for a lock"],
  [IO, "Waiting for I/O"],
  [SLEEPING, "Sleeping"],
  [BLOCKED, "Blocked"],
];

/**
 * Check boxes of the states. What the profile has no time of cannot be chosen.
 * @param {Set<number>} chosen  changed in place
 */
export function stateBoxes(fieldset, model, chosen, onChange) {
  const times = sumBy(model, "state", () => true);
  for (const [state, name] of STATES) {
    if (state > BLOCKED && !times.has(state)) continue; // not every collector tells these
    const box = checkBox(chosen.has(state), (checked) => {
      if (checked) chosen.add(state);
      else chosen.delete(state);
      onChange();
    });
    box.value = String(state);
    box.disabled = !times.has(state);
    if (box.disabled) box.checked = false;
    const amount = times.has(state) ? time(times.get(state)) : "none";
    fieldset.append(element("label", "", box, name, element("small", "", amount)));
  }
}

/** The menu of threads. */
export class ThreadMenu {
  #menu;
  #model;
  #chosen;
  #onChange;
  #boxes = [];
  #times = [];

  /** @param {Set<number>} chosen  changed in place */
  constructor(menu, model, chosen, onChange) {
    this.#menu = menu;
    this.#model = model;
    this.#chosen = chosen;
    this.#onChange = onChange;
    menu.querySelector("ul").append(...model.threads.map((_, thread) => this.#item(thread)));
    menu.querySelector("#every-thread").addEventListener("click", () => this.#choose(model.threads.keys()));
    document.addEventListener("pointerdown", (event) => {
      if (!menu.contains(event.target)) menu.open = false;
    });
  }

  /** Shows each thread's time in the chosen states, and which ones are counted. */
  update(states) {
    const { totals, threads } = this.#model;
    const times = sumBy(this.#model, "thread", (i) => states.has(totals.state[i]));
    for (const thread of threads.keys()) {
      this.#times[thread].textContent = time(times.get(thread) ?? 0);
      this.#boxes[thread].checked = this.#chosen.has(thread);
    }
    this.#menu.querySelector("summary").textContent = this.#summary();
  }

  #summary() {
    const all = this.#model.threads.length;
    if (this.#chosen.size === all) return all === 1 ? "1 thread" : `All ${all} threads`;
    if (this.#chosen.size === 1) return this.#name([...this.#chosen][0]).slice(0, 40);
    return `${this.#chosen.size} of ${all} threads`;
  }

  #name(thread) {
    const { name, tid, process } = this.#model.threads[thread];
    const { pid } = this.#model.processes[process];
    return this.#model.processes.length > 1 ? `${name} (${tid}, process ${pid})` : `${name} (${tid})`;
  }

  #item(thread) {
    const name = this.#name(thread);
    const box = checkBox(true, (checked) => {
      if (checked) this.#chosen.add(thread);
      else this.#chosen.delete(thread);
      this.#onChange();
    });
    const only = element("button", "", "only");
    only.type = "button";
    only.setAttribute("aria-label", `Only ${name}`);
    only.addEventListener("click", () => this.#choose([thread]));
    this.#boxes.push(box);
    this.#times.push(element("small", ""));
    return element("li", "", element("label", "", box, element("span", "", name), this.#times.at(-1)), only);
  }

  #choose(threads) {
    this.#chosen.clear();
    for (const thread of threads) this.#chosen.add(thread);
    this.#onChange();
  }
}

function checkBox(checked, onChange) {
  const box = element("input", "");
  box.type = "checkbox";
  box.checked = checked;
  box.addEventListener("change", () => onChange(box.checked));
  return box;
}

/** Calls back with the value of the radio button that is chosen. */
export function onChoice(name, onChange) {
  for (const radio of document.querySelectorAll(`input[name="${name}"]`)) {
    radio.addEventListener("change", () => onChange(radio.value));
  }
}
