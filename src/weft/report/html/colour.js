// Colours of frames: the hue tells the kind of code, its shade the file or package, its strength where the code comes
// from: the program itself is strongest, then installed packages, then the standard library and the interpreter.
//
// OKLCH gives all hues the same lightness, so that one ink is legible on each of them.

import { origin } from "./format.js";
import { CYTHON, PYTHON } from "./model.js";

const STRENGTH = { own: 1, package: 0.72, standard: 0.46, kernel: 1 };
//              Python C    missing Cython kernel Rust interpreter
const HUES = [250, 90, 20, 305, 160, 35, 250];
const CHROMA = [0.085, 0.085, 0.03, 0.085, 0.07, 0.1, 0.008];
const SPREAD = 14; // degrees of hue that files of one kind differ from it by: less than half of what kinds differ by

/** Fill colours of every call. */
export function fills(calls, dark) {
  const known = new Map();
  return calls.kind.map((kind, call) => {
    const key = `${kind} ${calls.file[call]}`;
    let fill = known.get(key);
    if (fill === undefined) {
      const { kind: place, group } = origin(calls.file[call]);
      const isScript = kind === PYTHON || kind === CYTHON;
      fill = colour(dark, kind, isScript ? STRENGTH[place] : 1, spread(group));
      known.set(key, fill);
    }
    return fill;
  });
}

/** The colour that stands for a kind in the legend. */
export function kindColour(kind, dark) {
  return colour(dark, kind, 1, 0);
}

function colour(dark, kind, strength, shade) {
  const lightness = (dark ? 0.405 : 0.87) + shade * (dark ? 0.035 : 0.03);
  return oklch(lightness, CHROMA[kind] * strength, HUES[kind] + shade * SPREAD);
}

/** A colour of OKLCH as #rrggbb, which canvases parse fastest and every reader of SVG knows (bottosson.github.io/posts/oklab). */
export function oklch(lightness, chroma, hue) {
  const [a, b] = [chroma * Math.cos((hue * Math.PI) / 180), chroma * Math.sin((hue * Math.PI) / 180)];
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const bytes = linear.map((one) => {
    const light = Math.min(Math.max(one, 0), 1);
    return Math.round(255 * (light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055));
  });
  return `#${bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** FNV-1a of the name, as a number from -1 to 1. */
function spread(name) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193) >>> 0;
  return (((hash ^ (hash >>> 15)) >>> 0) % 9) / 4 - 1;
}
