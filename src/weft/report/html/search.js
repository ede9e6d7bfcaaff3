// What the search box means: text, "file.py:42", or /pattern/.

import { origin, place } from "./format.js";

const PATTERN = /^\/(.+)\/([imsu]*)$/s;
const LINE = /^(\S+):(\d+)$/;

/** A call as the search sees it: with its file as shown, then with the whole path. */
export function searchable(calls, call) {
  const [file, line] = [calls.file[call], calls.line[call]];
  return `${calls.name[call]} ${place(origin(file).short, line)}\n${place(file, line)}`;
}

/**
 * The calls whose function, file or "function file:line" holds the text, or fits the pattern; without regard to case.
 * "file.py:42" also finds the functions of which line 42 was seen.
 * @param {import("./model.js").Calls} calls
 * @returns {Uint8Array | null}  null where nothing is searched
 * @throws {SyntaxError}  the pattern is not a regular expression
 */
export function findCalls(model, calls, text) {
  if (text === "") return null;
  const written = PATTERN.exec(text);
  const source = written ? written[1] : text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
  const at = LINE.exec(text);
  const pattern = new RegExp(at && !written ? `${source}(?!\\d)` : source, written ? `i${written[2].replace("i", "")}` : "i");
  const matches = Uint8Array.from(calls.name, (_, i) => (pattern.test(searchable(calls, i)) ? 1 : 0));
  if (at && !written) addLines(model, calls, at[1].toLowerCase(), Number(at[2]), matches);
  return matches;
}

function addLines(model, calls, file, line, matches) {
  const fits = model.strings.map((text) => text.toLowerCase() === file || text.toLowerCase().endsWith(`/${file}`));
  const { file: files, line: lines } = model.frames;
  for (let i = 0; i < lines.length; i++) {
    if (lines[i] === line && fits[files[i]] && calls.of[i] >= 0) matches[calls.of[i]] = 1;
  }
}
