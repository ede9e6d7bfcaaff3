// The table of functions (or lines): their own time, that with all they call, and the lines that it was spent on.

import { button, element } from "./describe.js";
import { cost, origin, percent, place } from "./format.js";
import { KINDS, rank } from "./model.js";

const ROWS = 100;

export class FunctionTable {
  #table;
  #title;
  #on;
  #scene = null;
  #shown = ROWS;
  #open = new Set();
  sort = "self";

  /** @param {object} on  what to do: pick(call), read(call), sorted() */
  constructor(table, title, on) {
    this.#table = table;
    this.#title = title;
    this.#on = on;
    for (const head of table.querySelectorAll("[data-sort]")) {
      head.addEventListener("click", () => {
        this.sort = head.dataset.sort;
        this.#fill();
        on.sorted();
      });
    }
  }

  /** @param {object} scene  model, calls, selection, whole, matches, byLine, fills, lines() (calls by line), keep */
  show(scene) {
    this.#scene = { ...scene, times: rank(scene.model, scene.calls.of, scene.calls.name.length, scene.selection) };
    if (!scene.keep) {
      this.#shown = ROWS;
      this.#open.clear();
    }
    this.#fill();
  }

  #fill() {
    const { calls, matches, times, byLine } = this.#scene;
    const by = {
      self: (a, b) => times.self[b] - times.self[a] || times.total[b] - times.total[a],
      total: (a, b) => times.total[b] - times.total[a] || times.self[b] - times.self[a],
      name: (a, b) => calls.name[a].localeCompare(calls.name[b]),
      place: (a, b) => calls.file[a].localeCompare(calls.file[b]) || calls.line[a] - calls.line[b],
    };
    const order = [...calls.name.keys()].filter((call) => times.total[call] > 0 && (!matches || matches[call]));
    order.sort(by[this.sort]);
    const kind = byLine ? "lines" : "functions";
    const isCut = order.length > this.#shown;
    const all = order.length.toLocaleString("en");
    this.#title.textContent = isCut ? `${this.#shown} of ${all} ${kind}` : `${all} ${order.length === 1 ? kind.slice(0, -1) : kind}`;
    for (const head of this.#table.querySelectorAll("[data-sort]")) {
      const isSorted = head.dataset.sort === this.sort;
      const direction = head.dataset.sort === "self" || head.dataset.sort === "total" ? "descending" : "ascending";
      if (isSorted) head.parentElement.setAttribute("aria-sort", direction);
      else head.parentElement.removeAttribute("aria-sort");
    }
    const rows = order.slice(0, this.#shown).flatMap((call) => this.#rows(call));
    if (isCut) {
      const more = button("", "Show more", () => {
        this.#shown *= 5;
        this.#fill();
      });
      const last = element("td", "", more);
      last.colSpan = 3;
      rows.push(element("tr", "more", last));
    }
    this.#table.tBodies[0].replaceChildren(...rows);
  }

  #rows(call) {
    const { calls, times, whole, fills, byLine } = this.#scene;
    const dot = element("i", "dot");
    dot.style.background = fills[call];
    dot.title = KINDS[calls.kind[call]];
    const name = button("name", calls.name[call], () => this.#on.pick(call));
    name.title = "Who calls it, and whom it calls";
    const parts = [dot, name];
    if (!byLine && !calls.folded[call]) {
      const isOpen = this.#open.has(call);
      const more = button("lines", isOpen ? "▾ lines" : "▸ lines", () => {
        if (!this.#open.delete(call)) this.#open.add(call);
        this.#fill();
      });
      more.ariaExpanded = String(isOpen);
      parts.push(more);
    }
    const where = element("td", "place");
    if (calls.file[call] !== "") {
      const text = place(origin(calls.file[call]).short, calls.line[call]);
      where.append(button("place", text, () => this.#on.read(call)));
    }
    where.title = place(calls.file[call], calls.line[call]);
    const row = element("tr", "");
    row.append(cell(times.self[call], whole), cell(times.total[call], whole), element("td", "", ...parts), where);
    return this.#open.has(call) ? [row, ...this.#lineRows(call)] : [row];
  }

  #lineRows(call) {
    const { model, calls, selection, whole } = this.#scene;
    const lines = this.#scene.lines();
    const times = this.#scene.lineTimes ?? rank(model, lines.of, lines.name.length, selection);
    this.#scene.lineTimes = times;
    const found = new Set();
    for (let i = 0; i < calls.of.length; i++) if (calls.of[i] === call && lines.of[i] >= 0) found.add(lines.of[i]);
    return [...found]
      .filter((line) => times.total[line] > 0)
      .sort((a, b) => times.total[b] - times.total[a])
      .map((line) => {
        const text = lines.line[line] > 0 ? `line ${lines.line[line]}` : "no line known";
        const row = element("tr", "line");
        const read = button("place", text, () => this.#on.read(call, lines.line[line]));
        row.append(cell(times.self[line], whole), cell(times.total[line], whole), element("td", "", read), element("td", ""));
        return row;
      });
  }
}

/** A time with its share, drawn as a bar. */
export function cell(ns, whole) {
  const made = element("td", "", cost(ns), " ", element("small", "", percent(ns, whole)));
  made.style.setProperty("--share", `${whole > 0 ? (100 * ns) / whole : 0}%`);
  return made;
}
