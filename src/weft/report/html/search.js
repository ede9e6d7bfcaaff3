// What the search box means.

import { origin, place } from "./format.js";

/** A call as the search sees it: with its file as shown, then with the whole path. */
export function searchable(calls, call) {
  const [file, line] = [calls.file[call], calls.line[call]];
  return `${calls.name[call]} ${place(origin(file).short, line)}\n${place(file, line)}`;
}

/**
 * The calls whose function, file or "function file:line" holds the text, or fits the pattern; without regard to case.
 * @param {import("./model.js").Calls} calls
 * @returns {Uint8Array | null}  null where nothing is searched
 * @throws {SyntaxError}  the pattern is not a regular expression
 */
export function findCalls(calls, text, isPattern) {
  if (text === "") return null;
  const pattern = new RegExp(isPattern ? text : text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"), "i");
  return Uint8Array.from(calls.name, (_, i) => (pattern.test(searchable(calls, i)) ? 1 : 0));
}
