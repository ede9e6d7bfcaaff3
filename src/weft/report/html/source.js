// The source view: the text of a file with the heat of each line and column range, and who calls the line at hand.

import { button, element } from "./describe.js";
import { cost, origin, percent, wholeName } from "./format.js";
import { rank } from "./model.js";
import { cell } from "./table.js";

const MOST_LINES = 20_000;
const encoder = new TextEncoder();

/** What cannot be printed, and what would turn the direction of text, as its escape. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;

export function visible(text) {
  return text
    .replace(/\t/g, "    ")
    .replace(UNPRINTABLE, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

export class SourceView {
  #parts;
  #model;
  #on;
  #scene = null;
  #file = -1; // a string of the model
  #line = 0;
  #texts = new Map(); // of files that were asked for, by their string: the text, or null as long as it is on its way

  /**
   * @param {object} parts  elements: files, note, code, about
   * @param {object} on  what to do: moved(file, line), pick(call), ask(file): its text as a promise
   */
  constructor(parts, model, on) {
    this.#parts = parts;
    this.#model = model;
    this.#on = on;
    parts.files.addEventListener("change", () => this.open(Number(parts.files.value), 0));
    parts.code.addEventListener("keydown", (event) => this.#key(event));
  }

  get place() {
    return [this.#file, this.#line];
  }

  /** From now on it is of this model. */
  renew(model) {
    this.#model = model;
  }

  /** @param {object} scene  calls, selection, whole, isDark, keep (what is in sight stays) */
  show(scene) {
    this.#scene = scene;
    const box = this.#parts.code.closest(".scroll");
    const { scrollTop } = box;
    this.#count();
    this.#listFiles();
    if (!this.#times.has(this.#file)) this.#file = this.#times.keys().next().value ?? -1;
    this.open(this.#file, this.#line);
    if (scene.keep) box.scrollTop = scrollTop;
  }

  /** Shows a file at a line; 0: its hottest one. */
  open(file, line) {
    this.#file = file;
    if (!this.#scene || file < 0) {
      this.#line = line;
      return;
    }
    const lines = this.#times.get(file) ?? new Map();
    const hottest = [...lines].sort((a, b) => b[1].self - a[1].self || b[1].total - a[1].total)[0]?.[0] ?? 1;
    this.#line = line || hottest;
    this.#parts.files.value = String(file);
    this.#fill(lines);
    this.#choose(this.#line, true);
  }

  // The time of each line of each file, and of each range of columns. A line's own time is what was spent in it and in
  // code without a source here: of `sorted(x)`, the sorting in C is the line's.

  #times = new Map(); // file -> line -> {self, total, key}
  #keys = null; // of each frame: its line, or -1
  #readable = null; // likewise, but only of frames whose source is here

  #count() {
    const { frames, strings, sources } = this.#model;
    const { calls, selection } = this.#scene;
    const texts = new Set(sources.filter((one) => one.text !== null || one.asked).map((one) => one.file));
    const hasText = strings.map((text) => texts.has(text));
    const known = new Map();
    this.#keys = Int32Array.from(frames.line, (line, i) => {
      if (line === 0 || calls.of[i] < 0) return -1;
      const key = frames.file[i] * 2 ** 21 + Math.min(line, 2 ** 21 - 1);
      if (!known.has(key)) known.set(key, known.size);
      return known.get(key);
    });
    this.#readable = this.#keys.map((key, i) => (hasText[frames.file[i]] ? key : -1));
    const times = rank(this.#model, this.#keys, known.size, selection);
    const read = rank(this.#model, this.#readable, known.size, selection);
    const files = new Map();
    for (const [key, number] of known) {
      if (times.total[number] <= 0) continue;
      const file = Math.floor(key / 2 ** 21);
      if (!files.has(file)) files.set(file, new Map());
      const self = hasText[file] ? read.self[number] : times.self[number];
      files.get(file).set(key % 2 ** 21, { self, total: times.total[number], key: number });
    }
    const own = new Map([...files].map(([file, lines]) => [file, sum(lines, "self")]));
    const isFirst = (file) => Number(hasText[file]);
    this.#times = new Map([...files].sort(([a], [b]) => isFirst(b) - isFirst(a) || own.get(b) - own.get(a)));
  }

  #listFiles() {
    const { strings } = this.#model;
    const { whole } = this.#scene;
    const options = [...this.#times].slice(0, 2000).map(([file, lines]) => {
      const name = origin(strings[file]).short.slice(0, 80);
      const option = element("option", "", `${percent(sum(lines, "self"), whole)}  ${name}`);
      option.value = String(file);
      option.title = strings[file];
      return option;
    });
    this.#parts.files.replaceChildren(...options);
  }

  #fill(lines) {
    const { note, code } = this.#parts;
    const name = this.#model.strings[this.#file];
    const source = this.#model.sources.find((one) => one.file === name);
    const whole = this.#textOf(source);
    const words = [name];
    if (!source) words.push("its source was not taken along: this kind of file is not, or the recording has not ended");
    else if (source.problem) words.push(source.problem);
    note.textContent = words.join(" — ");
    code.replaceChildren();
    if (whole === null) {
      const body = [...lines].sort((a, b) => a[0] - b[0]).map(([line, times]) => this.#row(line, null, times));
      code.append(...body);
      return;
    }
    const text = whole.split("\n").slice(0, MOST_LINES);
    const ranges = this.#ranges();
    code.append(...text.map((one, i) => this.#row(i + 1, one, lines.get(i + 1), ranges.get(i + 1))));
  }

  /** The text of the file at hand; null: it is not here. What the page can ask for comes later, and is shown then. */
  #textOf(source) {
    if (!source?.asked) return source?.text ?? null;
    const file = this.#file;
    if (!this.#texts.has(file)) {
      this.#texts.set(file, null);
      const come = (text) => {
        this.#texts.set(file, text);
        if (file === this.#file) this.open(file, this.#line);
      };
      this.#on.ask(file).then(come, (error) => (this.#parts.note.textContent += ` — ${error.message}`));
    }
    return this.#texts.get(file);
  }

  #row(line, text, times, ranges) {
    const { whole } = this.#scene;
    const row = element("tr", times ? "hot" : "");
    row.dataset.line = line;
    const number = element("td", "number", String(line));
    const code = element("td", "code");
    if (text === null) code.append(element("i", "", "the source is not in this page"));
    else code.append(...(ranges ? heated(text, ranges, whole) : [visible(text)]));
    const heat = times ? [cell(times.self, whole), cell(times.total, whole)] : [element("td", ""), element("td", "")];
    row.append(...heat, number, code);
    row.addEventListener("click", () => this.#choose(line, false));
    return row;
  }

  /** line -> ranges of columns with their own time and that of all that they call. */
  #ranges() {
    const { frames } = this.#model;
    const known = new Map([["", 0]]);
    const of = new Int32Array(frames.line.length).fill(-1);
    const found = new Map();
    for (let i = 0; i < of.length; i++) {
      if (this.#readable[i] < 0) continue;
      if (frames.file[i] !== this.#file || frames.column[i] === 0) {
        of[i] = 0; // other code that can be read
        continue;
      }
      const isLonger = frames.endLine[i] > frames.line[i];
      const range = { from: frames.column[i] - 1, to: isLonger ? Infinity : frames.endColumn[i] - 1 };
      const key = `${frames.line[i]}:${range.from}-${range.to}`;
      if (!known.has(key)) {
        known.set(key, known.size);
        if (!found.has(frames.line[i])) found.set(frames.line[i], []);
        found.get(frames.line[i]).push({ ...range, key: known.get(key) });
      }
      of[i] = known.get(key);
    }
    const times = rank(this.#model, of, known.size, this.#scene.selection);
    for (const ranges of found.values()) {
      for (const range of ranges) Object.assign(range, { self: times.self[range.key], total: times.total[range.key] });
    }
    return new Map([...found].map(([line, ranges]) => [line, ranges.filter((range) => range.total > 0)]));
  }

  #choose(line, jump) {
    this.#line = line;
    for (const row of this.#parts.code.querySelectorAll("[aria-current]")) row.removeAttribute("aria-current");
    const row = this.#parts.code.querySelector(`[data-line="${line}"]`);
    row?.setAttribute("aria-current", "true");
    if (jump && row) {
      const box = this.#parts.code.closest(".scroll");
      box.scrollTop = row.offsetTop - box.clientHeight / 2;
    }
    this.#about();
    this.#on.moved(this.#file, line);
  }

  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const rows = [...this.#parts.code.rows];
    const next = rows[rows.findIndex((row) => row.ariaCurrent === "true") + step];
    if (next) {
      this.#choose(Number(next.dataset.line), false);
      next.scrollIntoView({ block: "nearest" });
    }
  }

  /** Who calls the line at hand, whom it calls, and its ranges of columns. */
  #about() {
    const { about } = this.#parts;
    const times = this.#times.get(this.#file)?.get(this.#line);
    const title = element("h3", "", `Line ${this.#line}`);
    if (!times) {
      about.replaceChildren(title, element("p", "", "Nothing was seen here in the chosen threads and states."));
      return;
    }
    const { callers, callees } = this.#neighbours(times.key);
    const { whole } = this.#scene;
    const words = `self ${cost(times.self)} (${percent(times.self, whole)}), total ${cost(times.total)} (${percent(times.total, whole)})`;
    about.replaceChildren(
      title,
      element("p", "amount", words),
      ...this.#list("Callers", callers, times.total),
      ...this.#list("Callees", callees, times.total),
      ...this.#columns(times.total),
    );
  }

  #list(title, sums, whole) {
    const { calls } = this.#scene;
    const rows = [...sums].sort((a, b) => b[1] - a[1]).slice(0, 12);
    const items = rows.map(([call, ns]) => {
      const name = call < 0 ? "none: it is outermost" : calls.name[call];
      const pick = call < 0 ? element("span", "name", name) : button("name", name, () => this.#on.pick(call));
      const item = element("li", "", element("b", "amount", percent(ns, whole)), pick);
      return item;
    });
    if (items.length === 0) items.push(element("li", "", "none"));
    return [element("h4", "", title), element("ul", title.toLowerCase(), ...items)];
  }

  #columns(whole) {
    const ranges = (this.#ranges().get(this.#line) ?? []).sort((a, b) => b.total - a.total);
    const source = this.#model.sources.find((one) => one.file === this.#model.strings[this.#file]);
    const text = this.#textOf(source)?.split("\n")[this.#line - 1];
    if (ranges.length === 0 || text === undefined) return [];
    const items = ranges.slice(0, 12).flatMap((range) => {
      const part = visible(cut(text, range.from, range.to)).trim();
      if (part === "") return []; // of what begins a function, which has no place of its own
      return element("li", "", element("b", "amount", percent(range.total, whole)), element("code", "", part.slice(0, 200)));
    });
    return [element("h4", "", "Parts of the line"), element("ul", "ranges", ...items)];
  }

  /** Time by the calls that lie directly around the frames of one line. */
  #neighbours(key) {
    const { parent, frame } = this.#model;
    const { calls, selection } = this.#scene;
    const total = selection.weight.slice();
    for (let i = total.length - 1; i >= 0; i--) if (parent[i] >= 0) total[parent[i]] += total[i];
    const shown = new Int32Array(parent.length); // the stack itself or its next caller that is shown; -1: none
    const callers = new Map();
    const callees = new Map();
    const add = (sums, call, ns) => ns > 0 && sums.set(call, (sums.get(call) ?? 0) + ns);
    for (let i = 0; i < parent.length; i++) {
      const caller = parent[i] < 0 ? -1 : shown[parent[i]];
      const call = calls.of[frame[i]];
      shown[i] = call < 0 ? caller : i;
      if (call < 0 || total[i] <= 0) continue;
      if (this.#keys[frame[i]] === key) add(callers, caller < 0 ? -1 : calls.of[frame[caller]], total[i]);
      if (caller >= 0 && this.#keys[frame[caller]] === key) add(callees, call, total[i]);
    }
    return { callers, callees };
  }
}

function sum(lines, column) {
  let total = 0;
  for (const times of lines.values()) total += times[column];
  return total;
}

/** The part of a line between two columns, which count bytes of UTF-8. */
function cut(text, from, to) {
  const bytes = encoder.encode(text);
  return new TextDecoder().decode(bytes.subarray(from, Math.min(to, bytes.length)));
}

/** A line as pieces, each as hot as the ranges that cover it. */
function heated(text, ranges, whole) {
  const length = encoder.encode(text).length;
  const edges = new Set([0, length]);
  for (const { from, to } of ranges) edges.add(Math.min(from, length)).add(Math.min(to, length));
  const places = [...edges].sort((a, b) => a - b);
  return places.slice(1).map((to, i) => {
    const from = places[i];
    const heat = ranges.reduce((sum, range) => sum + (range.from <= from && to <= range.to ? range.self : 0), 0);
    const piece = element("span", heat > 0 ? "heat" : "", visible(cut(text, from, to)));
    if (heat > 0) {
      piece.style.setProperty("--heat", `${Math.min(8 + 55 * Math.sqrt(heat / whole), 60)}%`);
      piece.title = `${percent(heat, whole)} of the ${wholeName()}, itself`;
    }
    return piece;
  });
}
