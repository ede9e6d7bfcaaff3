// The colours of the style sheet, as the painters need them.

import { STATES } from "./model.js";

export function inks(isDark) {
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue(name).trim();
  const states = [];
  for (const one of STATES) states[one.state] = ink(one.ink);
  return {
    isDark,
    states,
    paper: ink("--paper"),
    sheet: ink("--sheet"),
    line: ink("--line"),
    plain: ink("--text"),
    soft: ink("--faint"),
    text: ink("--frame-text"),
    faint: ink("--frame-faint"),
    match: ink("--match"),
    matchText: ink("--match-text"),
    dimmed: ink("--dimmed"),
    ancestor: ink("--ancestor"),
    hover: ink("--hover"),
    accent: ink("--accent"),
    veil: ink("--veil"),
    proven: ink("--proven"),
    counted: ink("--counted"),
    open: ink("--open"),
  };
}
