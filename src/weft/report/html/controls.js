// The toolbar: which processes, threads, states and kinds of frames are counted.

import { button, element } from "./describe.js";
import { cost, percent } from "./format.js";
import { BLOCKED, STATES } from "./model.js";

/** A menu that opens beneath its name: one at a time, and a click elsewhere closes it. */
export function listenToMenus() {
  const menus = [...document.querySelectorAll("details.menu")];
  document.addEventListener("pointerdown", (event) => {
    for (const menu of menus) if (!menu.contains(event.target)) menu.open = false;
  });
  for (const menu of menus) {
    menu.addEventListener("toggle", () => {
      if (!menu.open) return;
      for (const other of menus) if (other !== menu) other.open = false;
      // What would stick out on the right is moved to the left.
      const sheet = menu.querySelector(".sheet");
      sheet.style.left = "0";
      const over = sheet.getBoundingClientRect().right - document.documentElement.clientWidth + 8;
      if (over > 0) sheet.style.left = `${-over}px`;
    });
  }
}

/** Closes the open menu; whether there was one. */
export function closeMenu() {
  const menu = document.querySelector("details.menu[open]");
  if (!menu) return false;
  menu.open = false;
  menu.querySelector("summary").focus();
  return true;
}

export function checkBox(checked, onChange) {
  const box = element("input", "");
  box.type = "checkbox";
  box.checked = checked;
  box.addEventListener("change", () => onChange(box.checked));
  return box;
}

function toggle(set, value, isIn) {
  if (isIn) set.add(value);
  else set.delete(value);
}

/** The check boxes of the states. What the profile has no time of cannot be chosen. */
export class StateMenu {
  #menu;
  #chosen;
  #onChange;
  #boxes = new Map();
  #amounts = new Map();

  /** @param {Set<number>} chosen  changed in place */
  constructor(menu, model, chosen, onChange) {
    this.#menu = menu;
    this.#chosen = chosen;
    this.#onChange = onChange;
    this.renew(model);
  }

  /** From now on it is of this model. Gives the states of which there was no time before. */
  renew(model) {
    const seen = new Uint8Array(8);
    for (let i = 0; i < model.rows.state.length; i++) seen[model.rows.state[i]] = 1;
    const added = STATES.filter(({ state }) => seen[state] && !this.has(state)).map(({ state }) => state);
    const isListed = ({ state }) => state <= BLOCKED || seen[state]; // not every collector tells the others
    if (this.#boxes.size > 0 && added.every((state) => this.#boxes.has(state))) {
      for (const state of added) this.#boxes.get(state).disabled = false;
      return added;
    }
    this.#boxes.clear();
    this.#menu.querySelector("ul").replaceChildren();
    for (const { state, name, ink } of STATES.filter(isListed)) {
      const box = checkBox(this.#chosen.has(state), (checked) => {
        toggle(this.#chosen, state, checked);
        this.#onChange();
      });
      box.value = String(state);
      box.disabled = !seen[state];
      const dot = element("i", "dot");
      dot.style.background = `var(${ink})`;
      this.#boxes.set(state, box);
      this.#amounts.set(state, element("small", ""));
      this.#menu.querySelector("ul").append(
        element("li", "", element("label", "", box, dot, element("span", "", name), this.#amounts.get(state))),
      );
    }
    return added;
  }

  /** Whether there is any time of a state. */
  has(state) {
    return this.#boxes.get(state)?.disabled === false;
  }

  update(chosen, times) {
    const names = [];
    for (const [state, box] of this.#boxes) {
      box.checked = chosen.has(state);
      this.#amounts.get(state).textContent = times.byState[state] > 0 ? cost(times.byState[state]) : "none";
      if (box.checked) names.push(STATES.find((one) => one.state === state).name);
    }
    const able = [...this.#boxes.values()].filter((box) => !box.disabled).length;
    const words = names.length === able ? "All states" : names.length === 1 ? names[0] : `${names.length} of ${able} states`;
    this.#menu.querySelector("summary").textContent = words;
  }
}

function names({ processes, threads }) {
  return JSON.stringify([processes, threads]);
}

/** The menu of processes and their threads. */
export class ThreadMenu {
  #menu;
  #model;
  #chosen;
  #onChange;
  #boxes = [];
  #amounts = [];

  /** @param {Set<number>} chosen  changed in place */
  constructor(menu, model, chosen, onChange) {
    this.#menu = menu;
    this.#chosen = chosen;
    this.#onChange = onChange;
    menu.querySelector("#every-thread").addEventListener("click", () => this.#choose(this.#model.threads.keys()));
    this.renew(model);
  }

  /** From now on it is of this model. */
  renew(model) {
    const isSame = this.#model && names(model) === names(this.#model);
    this.#model = model;
    if (isSame) return;
    const list = this.#menu.querySelector("ul");
    list.replaceChildren();
    model.processes.forEach((process, number) => {
      const threads = [...model.threads.keys()].filter((thread) => model.threads[thread].process === number);
      if (model.processes.length > 1) list.append(this.#process(process, threads));
      list.append(...threads.map((thread) => this.#item(thread)));
    });
  }

  /** Shows each thread's time in the chosen states, and which ones are counted. */
  update(times) {
    for (const thread of this.#model.threads.keys()) {
      this.#amounts[thread].textContent = cost(times.byThread[thread]);
      this.#boxes[thread].checked = this.#chosen.has(thread);
    }
    this.#menu.querySelector("summary").textContent = this.#summary();
  }

  #summary() {
    const all = this.#model.threads.length;
    if (this.#chosen.size === all) return all === 1 ? "1 thread" : `All ${all} threads`;
    if (this.#chosen.size === 1) return this.#name([...this.#chosen][0]).slice(0, 32);
    return `${this.#chosen.size} of ${all} threads`;
  }

  #name(thread) {
    const { name, tid } = this.#model.threads[thread];
    return `${name || "thread"} (${tid})`;
  }

  #process({ pid, command }, threads) {
    const only = button("", "only", () => this.#choose(threads));
    only.setAttribute("aria-label", `Only process ${pid}`);
    const name = element("span", "", element("b", "", `process ${pid}`), ` ${command}`);
    return element("li", "process", element("label", "", name), only);
  }

  #item(thread) {
    const box = checkBox(true, (checked) => {
      toggle(this.#chosen, thread, checked);
      this.#onChange();
    });
    const only = button("", "only", () => this.#choose([thread]));
    only.setAttribute("aria-label", `Only ${this.#name(thread)}`);
    this.#boxes[thread] = box;
    this.#amounts[thread] = element("small", "");
    return element("li", "", element("label", "", box, element("span", "", this.#name(thread)), this.#amounts[thread]), only);
  }

  #choose(threads) {
    this.#chosen.clear();
    for (const thread of threads) this.#chosen.add(thread);
    this.#onChange();
  }
}

/** The list of modules that can be folded into one frame each, the heaviest first. */
export function fillModules(list, modules, whole, folded, onChange) {
  list.replaceChildren(
    ...modules.slice(0, 60).map(([name, ns]) => {
      const box = checkBox(folded.has(name), (checked) => {
        toggle(folded, name, checked);
        onChange();
      });
      const label = element("label", "", box, element("span", "", name), element("small", "", percent(ns, whole)));
      return element("li", "", label);
    }),
  );
}

/** Calls back with the value of the radio button that is chosen. */
export function onChoice(name, onChange) {
  for (const radio of document.querySelectorAll(`input[name="${name}"]`)) {
    radio.addEventListener("change", () => onChange(radio.value));
  }
}

export function setChoice(name, value) {
  document.querySelector(`input[name="${name}"][value="${value}"]`).checked = true;
}
