// A node in words: for the line under the graph, the tooltip and the breadcrumbs. Names go in as text, never as markup.

import { cost, met, percent, place, wholeName } from "./format.js";
import { COUNTED, KINDS, OPEN } from "./model.js";

export const $ = (id) => document.getElementById(id);

/** @returns {HTMLElement} */
export function element(tag, className, ...content) {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...content);
  return made;
}

/** @returns {HTMLButtonElement} */
export function button(className, text, onClick) {
  const made = element("button", className, text);
  made.type = "button";
  made.addEventListener("click", onClick);
  return made;
}

/** Makes anew what is shown; if a button in it has the focus, the one that says the same has it then. */
export function keepFocus(make) {
  const active = document.activeElement;
  const box = active?.closest("#selected, #crumbs, #top tbody, #about");
  const alike = () => [...box.querySelectorAll("button")].filter((one) => one.textContent === active.textContent);
  const before = box ? alike().indexOf(active) : -1;
  make();
  if (before >= 0) (alike()[before] ?? alike()[0])?.focus({ preventScroll: true });
}

/** The name of a node as a breadcrumb. */
export function nodeName({ tree, calls }, node) {
  const call = tree.call[node];
  return call < 0 ? "all" : calls.name[call];
}

/** The proofs of seams as a word: the weakest counts. */
export function proofName(proofs) {
  if (proofs & OPEN) return "open";
  return proofs & COUNTED ? "counted" : "proven";
}

/**
 * What is known of a node.
 * @param {object} scene  tree, calls, inverted, zoomed, whole (ns of all that is chosen)
 * @returns {HTMLElement[]}
 */
export function describe(scene, node) {
  const { tree, calls } = scene;
  const call = tree.call[node];
  const words = [element("span", "name", nodeName(scene, node))];
  if (call >= 0 && calls.file[call] !== "") {
    words.push(element("span", "place", place(calls.file[call], calls.line[call])));
  }
  words.push(...amounts(scene, node));
  if (call >= 0) words.push(element("span", "amount", calls.folded[call] ? "module" : KINDS[calls.kind[call]]));
  if (tree.seam[node] > 0) words.push(amount("seam ", proofName(tree.seam[node])));
  if (tree.isOpen(node)) words.push(element("span", "amount", "Zoom in to see its callers."));
  return words;
}

function amounts({ tree, inverted, zoomed, whole }, node) {
  const share = (ns) => `${cost(ns)} (${percent(ns, whole ?? tree.total[0])})`;
  const parts = [amount(inverted ? `${wholeName()} ` : "total ", share(tree.total[node]))];
  if (!inverted && node > 0) parts.push(amount("self ", share(tree.self[node])));
  if (zoomed > 0 && node !== zoomed) {
    parts.push(amount("of the zoomed frame ", percent(tree.total[node], tree.total[zoomed])));
  }
  parts.push(amount("", met(tree.ticks[node])));
  return parts;
}

export function amount(label, value) {
  return element("span", "amount", label, element("b", "", value));
}

