// The table of the functions (or lines) that take most time: the graph's content for who reads rather than looks.

import { element } from "./describe.js";
import { origin, percent, place, time } from "./format.js";
import { rank } from "./model.js";

const ROWS = 50;

/**
 * @param {HTMLTableElement} table
 * @param {object} state  the page's: model, calls, selection, byLine, sort, matches
 * @param {(call: number) => void} onPick
 */
export function fillTable(table, title, state, onPick) {
  const { calls, sort, matches } = state;
  const times = rank(state.model, calls, state.selection);
  const whole = state.tree.total[0];
  const other = sort === "self" ? "total" : "self";
  const order = [...calls.name.keys()].filter((call) => times.total[call] > 0);
  order.sort((a, b) => times[sort][b] - times[sort][a] || times[other][b] - times[other][a]);
  const shown = order.slice(0, ROWS);
  const kind = state.byLine ? "lines" : "functions";
  const isCut = order.length > ROWS;
  title.textContent = isCut ? `Top ${ROWS} of ${order.length.toLocaleString("en")} ${kind}` : `Top ${kind}`;
  for (const button of table.querySelectorAll("[data-sort]")) {
    if (button.dataset.sort === sort) button.parentElement.setAttribute("aria-sort", "descending");
    else button.parentElement.removeAttribute("aria-sort");
  }
  table.tBodies[0].replaceChildren(
    ...shown.map((call) => {
      const button = element("button", "name", calls.name[call]);
      button.type = "button";
      button.title = "Search for it";
      button.addEventListener("click", () => onPick(call));
      const where = element("td", "place", place(origin(calls.file[call]).short, calls.line[call]));
      where.title = place(calls.file[call], calls.line[call]);
      const row = element("tr", matches?.[call] ? "match" : "");
      row.append(cell(times.self[call], whole), cell(times.total[call], whole), element("td", "", button), where);
      return row;
    }),
  );
}

function cell(ns, whole) {
  const made = element("td", "", time(ns), " ", element("small", "", percent(ns, whole)));
  made.style.setProperty("--share", `${(100 * ns) / whole}%`);
  return made;
}
