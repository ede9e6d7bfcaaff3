// Colours of frames: the hue tells the file or package, the strength where the code comes from: the program itself is
// strongest, then installed packages, the kernel, and the standard library.
//
// OKLCH gives all hues the same lightness, so that one ink is legible on each of them.

import { origin } from "./format.js";

const CHROMA = { own: 0.072, package: 0.045, standard: 0.02, kernel: 0.03 };
const HUES = 18;

/** Fill colours of every call. */
export function fills(calls, dark) {
  const byFile = new Map();
  return calls.file.map((file) => {
    let fill = byFile.get(file);
    if (fill === undefined) {
      const { kind, group } = origin(file);
      fill = colour(dark, file === "" ? 0 : CHROMA[kind], hue(group));
      byFile.set(file, fill);
    }
    return fill;
  });
}

function colour(dark, chroma, hue) {
  return `oklch(${dark ? 0.41 : 0.875} ${chroma} ${hue})`;
}

/** FNV-1a of the name, on a circle that leaves out the pinks of search matches and the reds of alarms. */
function hue(name) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193) >>> 0;
  return 45 + (((hash ^ (hash >>> 15)) >>> 0) % HUES) * (255 / HUES);
}
