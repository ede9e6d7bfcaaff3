// The page: one state, and what is shown of it.

import { fills } from "./colour.js";
import { onChoice, stateBoxes, ThreadMenu } from "./controls.js";
import { describe, element, nodeName } from "./describe.js";
import { count, percent } from "./format.js";
import { FlameGraph } from "./graph.js";
import { matchedWeight, mergeFrames, readModel, select } from "./model.js";
import { findCalls, searchable } from "./search.js";
import { fillTable } from "./table.js";
import { callTree, CallerTree } from "./tree.js";

const CRUMBS = 5; // callers of the zoomed frame that are named

const $ = (id) => document.getElementById(id);
const raw = JSON.parse($("profile").textContent);
const model = readModel(raw);

const state = {
  model,
  threads: new Set(model.threads.keys()),
  states: new Set(raw.states),
  byLine: false,
  inverted: false,
  sort: "self",
  calls: mergeFrames(model, false),
  selection: null,
  matches: null,
  get tree() {
    return graph.tree;
  },
  get zoomed() {
    return graph.zoomed;
  },
};

const graph = new FlameGraph($("graph"), { zoomed: showCrumbs, selected: showSelected, hovered: showTip });
const threadMenu = new ThreadMenu($("threads"), model, state.threads, () => rebuild(true));
const dark = matchMedia("(prefers-color-scheme: dark)");

/** After a change of threads or states: the same frame stays zoomed as far as it still exists. */
function rebuild(keepZoom) {
  const path = keepZoom && graph.tree ? graph.tree.path(graph.zoomed).map((node) => graph.tree.call[node]) : [];
  state.selection = select(model, state.threads, state.states);
  const ingredients = [model, state.calls, state.selection];
  const tree = state.inverted ? new CallerTree(...ingredients) : callTree(...ingredients);
  graph.show(tree, state.calls, state.byLine, path);
  threadMenu.update(state.states);
  $("empty").hidden = state.tree.total[0] > 0;
  search();
}

/** After a change of what frames are merged into. */
function remerge() {
  state.calls = mergeFrames(model, state.byLine);
  repaint();
  rebuild(false);
}

function repaint() {
  const style = getComputedStyle(document.documentElement);
  const ink = (name) => style.getPropertyValue(name).trim();
  graph.paint(fills(state.calls, dark.matches), {
    paper: ink("--paper"),
    text: ink("--frame-text"),
    faint: ink("--frame-faint"),
    match: ink("--match"),
    matchText: ink("--match-text"),
    dimmed: ink("--dimmed"),
    ancestor: ink("--ancestor"),
    hover: ink("--hover"),
    accent: ink("--accent"),
  });
}

function search() {
  const box = $("search");
  let words = "";
  try {
    state.matches = findCalls(state.calls, box.value, $("pattern").ariaPressed === "true");
    if (state.matches) words = matchedWords();
    box.removeAttribute("aria-invalid");
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    state.matches = null;
    words = "Not a regular expression";
    box.setAttribute("aria-invalid", "true");
  }
  $("matched").textContent = words;
  graph.mark(state.matches);
  showTable();
}

function matchedWords() {
  const found = state.matches.reduce((sum, match) => sum + match, 0);
  const weight = matchedWeight(model, state.calls, state.selection, state.matches);
  const kind = state.byLine ? ["line", "lines"] : ["function", "functions"];
  return `${percent(weight, state.tree.total[0])} in ${count(found, ...kind)}`;
}

function showTable() {
  fillTable($("top"), $("top-title"), state, (call) => {
    $("pattern").ariaPressed = "false";
    $("search").value = searchable(state.calls, call).split("\n")[0].trim();
    search();
  });
}

function showCrumbs() {
  const path = [0, ...state.tree.path(state.zoomed)];
  const shown = path.length > CRUMBS + 2 ? [0, -1, ...path.slice(-CRUMBS - 1)] : path;
  $("crumbs").replaceChildren(
    ...shown.map((node) => {
      if (node < 0) return element("li", "", `${(path.length - CRUMBS - 2).toLocaleString("en")} more`);
      if (node === state.zoomed) return element("li", "", element("span", "", nodeName(state, node)));
      const button = element("button", "", nodeName(state, node));
      button.type = "button";
      button.addEventListener("click", () => graph.zoom(node));
      return element("li", "", button);
    }),
  );
  $("crumbs").lastElementChild.ariaCurrent = "true";
}

function showSelected() {
  $("selected").replaceChildren(...(state.tree.total[0] > 0 ? describe(state, graph.selected) : []));
}

function showTip(node, event) {
  const tip = $("tip");
  tip.hidden = node < 0;
  if (tip.hidden) return;
  tip.replaceChildren(...describe(state, node));
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 6);
  const isRoom = event.clientY + 18 + tip.offsetHeight < innerHeight;
  const top = isRoom ? event.clientY + 18 : event.clientY - tip.offsetHeight - 10;
  tip.style.left = `${Math.max(left, 6)}px`;
  tip.style.top = `${Math.max(top, 6)}px`;
}

function listen() {
  onChoice("inverted", (value) => {
    state.inverted = value === "yes";
    rebuild(false);
  });
  onChoice("merge", (value) => {
    state.byLine = value === "line";
    remerge();
  });
  onChoice("root", (value) => graph.stand(value === "bottom"));
  $("search").addEventListener("input", search);
  $("pattern").addEventListener("click", () => {
    $("pattern").ariaPressed = String($("pattern").ariaPressed !== "true");
    search();
  });
  for (const button of document.querySelectorAll("[data-sort]")) {
    button.addEventListener("click", () => {
      state.sort = button.dataset.sort;
      showTable();
    });
  }
  dark.addEventListener("change", repaint);
  document.addEventListener("keydown", onKey);
}

function onKey(event) {
  const typing = event.target.matches("input[type=search]");
  const find = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key === "f";
  if (find || (event.key === "/" && !typing)) {
    event.preventDefault();
    $("search").select();
    $("search").focus();
  } else if (event.key === "Escape") {
    onEscape(typing);
  } else if (event.key === "Enter" && typing) {
    $("graph").focus();
  }
}

/** Takes back one thing: the open menu, the search, the zoom. */
function onEscape(typing) {
  if ($("threads").open) {
    $("threads").open = false;
    $("threads").querySelector("summary").focus();
  } else if (typing && $("search").value !== "") {
    $("search").value = "";
    search();
  } else {
    graph.zoom(0);
  }
}

$("facts").textContent = raw.facts.join(" · ");
$("losses").textContent = raw.account.summary;
$("losses").className = raw.account.spotless ? "" : "stained";
$("account").querySelector("pre").textContent = raw.account.lines.join("\n");
stateBoxes($("states"), model, state.states, () => rebuild(true));
listen();
remerge();
