// Numbers and places as people read them. The spaces before units do not break.

const SPACE = "\u00a0";

/** @param {number} ns */
export function time(ns) {
  if (ns === 0) return `0${SPACE}s`;
  if (ns < 999.5) return `${Math.round(ns)}${SPACE}ns`;
  if (ns < 999.5e3) return `${digits(ns / 1e3)}${SPACE}µs`;
  if (ns < 999.5e6) return `${digits(ns / 1e6)}${SPACE}ms`;
  if (ns < 120e9) return `${digits(ns / 1e9)}${SPACE}s`;
  const minutes = Math.round(ns / 60e9);
  if (minutes < 120) return `${Math.floor(ns / 60e9)}${SPACE}min ${Math.floor((ns / 1e9) % 60)}${SPACE}s`;
  return `${Math.floor(minutes / 60)}${SPACE}h ${minutes % 60}${SPACE}min`;
}

/** @param {number} amount  of memory, in bytes */
function size(amount) {
  let value = amount;
  let unit = "B";
  for (const larger of ["KiB", "MiB", "GiB", "TiB", "PiB"]) {
    if (value < 1023.5) break;
    value /= 1024;
    unit = larger;
  }
  return unit === "B" ? `${Math.round(amount)}${SPACE}B` : `${digits(value)}${SPACE}${unit}`;
}

const UNITS = {
  ns: { words: time, ticks: ["sample", "samples"], whole: "time" },
  bytes: { words: size, ticks: ["allocation", "allocations"], whole: "memory" },
};
let unit = UNITS.ns;

/** What the profile's weights count, from now on: ns or bytes. */
export function useUnit(name) {
  unit = UNITS[name];
}

/** A weight in its unit. */
export function cost(weight) {
  return unit.words(weight);
}

/** How many times a stack was met. */
export function met(ticks) {
  return count(Math.round(ticks), ...unit.ticks);
}

/** What all weights are parts of. */
export function wholeName() {
  return unit.whole;
}

function digits(value) {
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

/** A share of a whole; of nothing it is 0. */
export function percent(part, whole) {
  const value = whole > 0 ? (100 * part) / whole : 0;
  if (value > 0 && value < 0.01) return `<${SPACE}0.01${SPACE}%`;
  if (value === 0 || value === 100) return `${value}${SPACE}%`;
  return `${value.toFixed(value < 0.1 ? 2 : 1)}${SPACE}%`;
}

export function count(number, one, many) {
  return `${number.toLocaleString("en")}${SPACE}${number === 1 ? one : many}`;
}

const INSTALLED = /^.*\/(?:site|dist)-packages\/(.+)$/;
const KERNEL = /^\[(?!vdso\]|vsyscall\])/; // "[kernel]", or its modules
const STANDARD = /^.*\/lib(?:64)?\/(?:python|pypy)[\d.]+[a-z]?\/(.+)$/;

/**
 * Where a file comes from: the program itself, an installed package, the standard library, or the kernel; `group` is what frames
 * of one colour have in common, `short` is the file as shown.
 */
export function origin(file) {
  const installed = INSTALLED.exec(file);
  if (installed) return { kind: "package", group: installed[1].split("/")[0], short: installed[1] };
  const standard = STANDARD.exec(file);
  if (standard) return { kind: "standard", group: standard[1].split("/")[0], short: standard[1] };
  if (KERNEL.test(file)) return { kind: "kernel", group: "[kernel]", short: file };
  if (file.startsWith("<frozen ")) return { kind: "standard", group: file, short: file };
  return { kind: "own", group: file, short: file.slice(file.lastIndexOf("/") + 1) };
}

/** "file.py:12", the file without a line if there is none, and nothing without a file. */
export function place(file, line) {
  return file && line > 0 ? `${file}:${line}` : file;
}
