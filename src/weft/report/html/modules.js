// Modules: what frames can be folded into.

import { fillModules } from "./controls.js";
import { $ } from "./describe.js";
import { origin } from "./format.js";
import { rank } from "./model.js";

/** The module of each frame: the package of Python code, the file of native code. */
export function groupNames(model) {
  const { file, module } = model.frames;
  const known = new Map();
  return (frame) => {
    const text = module[frame] > 0 && model.strings[module[frame]] !== "" ? model.strings[module[frame]] : model.strings[file[frame]];
    if (!known.has(text)) {
      const { kind, group, short } = origin(text);
      known.set(text, kind === "own" ? short : group);
    }
    return known.get(text);
  };
}

/** Fills the menu with the modules that there are, the heaviest first. */
export function listModules(page) {
  const names = new Map();
  const of = Int32Array.from(page.model.frames.kind, (_, i) => {
    const group = page.groups(i);
    if (group === "") return -1;
    if (!names.has(group)) names.set(group, names.size);
    return names.get(group);
  });
  const { total } = rank(page.model, of, names.size, page.selection);
  const modules = [...names].map(([name, i]) => [name, total[i]]).filter(([name, ns]) => ns > 0 || page.choice.folded.has(name));
  modules.sort((a, b) => b[1] - a[1]);
  fillModules($("modules"), modules, page.whole, page.choice.folded, () => page.update());
}
