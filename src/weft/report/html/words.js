// What the page says around the views: breadcrumbs, the chosen frame, tooltips, the legend and the account.

import { kindColour } from "./colour.js";
import { $, amount, button, describe, element, nodeName } from "./describe.js";
import { percent, time } from "./format.js";
import { KINDS, rank, STATES } from "./model.js";

const CRUMBS = 4; // callers of the zoomed frame that are named

/** The way to the zoomed frame. */
export function showCrumbs(page) {
  const scene = page.flameScene();
  const path = [0, ...scene.tree.path(scene.zoomed)];
  const shown = path.length > CRUMBS + 2 ? [0, -1, ...path.slice(-CRUMBS - 1)] : path;
  $("crumbs").replaceChildren(
    ...shown.map((node) => {
      if (node < 0) return element("li", "", `${(path.length - CRUMBS - 2).toLocaleString("en")} more`);
      if (node === scene.zoomed) return element("li", "", element("span", "", nodeName(scene, node)));
      return element("li", "", button("", nodeName(scene, node), () => page.flame.zoom(node)));
    }),
  );
  $("crumbs").lastElementChild.ariaCurrent = "true";
}

/** What is known of a node, and what can be done with it. */
export function showSelected(page, scene, node) {
  if (!scene.tree || scene.tree.total[0] <= 0) {
    $("selected").replaceChildren();
    return;
  }
  const words = describe(scene, node);
  const call = scene.tree.call[node];
  if (call >= 0) {
    const can = element("span", "can");
    if (page.choice.view !== "sandwich") can.append(button("", "Callers and callees", () => page.openFunction(call)));
    if (page.calls.line[call] > 0) can.append(button("", "Source", () => page.openSource(call)));
    const group = page.groups(page.calls.sample[call]);
    if (group) can.append(button("", page.choice.folded.has(group) ? "Unfold module" : "Fold module", () => page.fold(group)));
    words.push(can);
  }
  $("selected").replaceChildren(...words);
}

/** A tooltip with what is known of a node; none for -1. */
export function tip(scene, node, event) {
  placeTip(node < 0 ? null : describe(scene, node), event);
}

/** A tooltip on the time line: when, in which state, and which frame. */
export function timeTip(page, found, event) {
  if (found === null || found.thread < 0) return placeTip(null, event);
  const state = STATES.find((one) => one.state === found.state);
  const parts = found.node === undefined ? [] : describe(page.scene(), found.node);
  parts.push(amount("at ", time(found.at)), element("span", "amount", state ? state.name : "not sampled"));
  return placeTip(parts, event);
}

function placeTip(parts, event) {
  const tip = $("tip");
  tip.hidden = parts === null || event?.pointerType === "touch";
  if (tip.hidden) return;
  tip.replaceChildren(...parts);
  const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 6);
  const isRoom = event.clientY + 18 + tip.offsetHeight < innerHeight;
  const top = isRoom ? event.clientY + 18 : event.clientY - tip.offsetHeight - 10;
  tip.style.left = `${Math.max(left, 6)}px`;
  tip.style.top = `${Math.max(top, 6)}px`;
}

/** The kinds of code, with the time that each has of its own; on the time line, the states before them. */
export function showLegend(page) {
  const of = Int32Array.from(page.calls.of, (call) => (call < 0 ? -1 : page.calls.kind[call]));
  const { self } = rank(page.model, of, KINDS.length, page.selection);
  const shown = [...KINDS.keys()].filter((kind) => self[kind] > 0).sort((a, b) => self[b] - self[a]);
  const [proven, counted, open] = page.model.account.seams;
  const states = page.choice.view === "timeline" ? STATES.filter(({ state }) => page.choice.states.has(state)) : [];
  const parts = states.map(({ name, ink }) => {
    const dot = element("i", "dot");
    dot.style.background = `var(${ink})`;
    return element("li", "", dot, name);
  });
  const kinds = shown.map((kind) => {
    const dot = element("i", "dot");
    dot.style.background = kindColour(kind, page.dark.matches);
    return element("li", "", dot, KINDS[kind], element("small", "", percent(self[kind], page.whole)));
  });
  parts.push(...kinds);
  const proofs = [["proven", proven], ["counted", counted], ["open", open]].filter(([, number]) => number > 0);
  for (const [name, number] of proofs) {
    parts.push(element("li", "", element("i", `stitch ${name}`), `seam ${name}`, element("small", "", number.toLocaleString("en"))));
  }
  $("legend").replaceChildren(...parts);
}

/** What frames are shown, for the menu's name. */
export function frameWords(page) {
  const { native, internals, folded, byLine } = page.choice;
  const words = [byLine ? "Lines" : "Functions"];
  if (!native) words.push("Python only");
  if (internals) words.push("internals");
  if (folded.size > 0) words.push(`${folded.size} folded`);
  return words.join(", ");
}

function orderWords({ sliceUs, fine }) {
  if (sliceUs === 0) return "";
  const words = ` The order of time is kept to ${time(sliceUs * 1000)}: within that, stacks lie side by side.`;
  if (!fine) return words;
  const [from, to, finer] = fine.map((us) => time(us * 1000));
  return `${words} From ${from} to ${to}, it is kept ${fine[2] > 0 ? `to ${finer}` : "in full"}.`;
}

/** What was recorded, and the account. */
export function showFacts(page) {
  const { facts, account, pruned } = page.model;
  $("facts").textContent = facts.join(" · ");
  $("losses").textContent = pruned ? `${account.summary} · pruned` : account.summary;
  $("losses").className = account.spotless && !pruned ? "" : "stained";
  $("account").querySelector("pre").textContent = account.lines.join("\n");
  $("order").textContent = orderWords(page.model);
}
