// A node in words: for the line under the graph, the tooltip and the breadcrumbs. Names go in as text, never as markup.

import { count, percent, place, time } from "./format.js";

/** @returns {HTMLElement} */
export function element(tag, className, ...content) {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...content);
  return made;
}

/** The name of a node as a breadcrumb. */
export function nodeName(state, node) {
  const call = state.tree.call[node];
  return call < 0 ? "all" : state.calls.name[call];
}

/**
 * What is known of a node.
 * @param {object} state  the page's: tree, calls, inverted, zoomed
 * @returns {HTMLElement[]}
 */
export function describe(state, node) {
  const { tree, calls } = state;
  const call = tree.call[node];
  const words = [element("span", "name", nodeName(state, node))];
  if (call >= 0 && calls.file[call] !== "") {
    words.push(element("span", "place", place(calls.file[call], calls.line[call])));
  }
  words.push(...amounts(state, node));
  if (tree.isOpen(node)) words.push(element("span", "amount", "Zoom in to see its callers."));
  return words;
}

function amounts({ tree, inverted, zoomed }, node) {
  const whole = tree.total[0];
  const share = (ns) => `${time(ns)} (${percent(ns, whole)})`;
  const parts = [amount(inverted ? "time " : "total ", share(tree.total[node]))];
  if (!inverted && node > 0) parts.push(amount("self ", share(tree.self[node])));
  if (zoomed > 0 && node !== zoomed) {
    parts.push(amount("of the zoomed frame ", percent(tree.total[node], tree.total[zoomed])));
  }
  parts.push(amount("", count(tree.ticks[node], "sample", "samples")));
  return parts;
}

function amount(label, value) {
  return element("span", "amount", label, element("b", "", value));
}
