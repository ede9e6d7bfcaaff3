// The sandwich: one function, who calls it above, and what it calls beneath.

import { element } from "./describe.js";
import { cost, percent, place } from "./format.js";
import { FlameGraph } from "./graph.js";
import { calleesOf, CallerTree, entries } from "./tree.js";

export class Sandwich {
  #title;
  #on;
  #graphs;
  #scene = null;
  #trees = [];
  #call = -1;

  /**
   * @param {HTMLElement} box
   * @param {object} on  what to tell: hovered(scene, node, event), selected(scene, node), opened(call)
   */
  constructor(box, on) {
    this.#title = box.querySelector(".title");
    this.#on = on;
    this.#graphs = [...box.querySelectorAll(".graph")].map(
      (graph, i) =>
        new FlameGraph(graph, {
          zoomed: () => {},
          selected: () => this.#scene && this.#trees.length === 2 && on.selected(this.#of(i), this.#graphs[i].selected),
          hovered: (node, event) => on.hovered(this.#of(i), node, event),
        }),
    );
    this.#graphs[0].stand(true);
  }

  /** The function that is shown; -1: none. */
  get call() {
    return this.#call;
  }

  #of(i) {
    const graph = this.#graphs[i];
    return { ...this.#scene, tree: graph.tree, inverted: i === 0, zoomed: graph.zoomed };
  }

  /** @param {{self: Float64Array, total: Float64Array}} times  of all calls */
  show(scene, call, times) {
    this.#scene = scene;
    this.#trees = [];
    if (call < 0) {
      this.#title.replaceChildren("Nothing was seen of it in these threads, states and time.");
    } else {
      const { calls, whole } = scene;
      const share = (ns) => `${cost(ns)} (${percent(ns, whole)})`;
      const words = `self ${share(times.self[call])}, total ${share(times.total[call])}`;
      const where = element("span", "place", place(calls.file[call], calls.line[call]));
      this.#title.replaceChildren(element("span", "name", calls.name[call]), where, element("span", "amount", words));
    }
    const callers = new CallerTree(scene.tree, call < 0 ? [] : entries(scene.tree, call));
    const trees = [callers, calleesOf(scene.tree, call < 0 ? -2 : call)];
    const keep = call === this.#call ? scene.keep : null;
    this.#call = call;
    trees.forEach((tree, i) => {
      this.#graphs[i].mark(scene.matches);
      this.#graphs[i].paint(scene.fills, scene.ink);
      this.#graphs[i].show(tree, scene.calls, scene.byLine, call < 0 ? [] : [call], keep);
    });
    this.#trees = trees;
  }

  /** Both graphs, one beneath the other. */
  export(makeContext) {
    const parts = this.#graphs.map((graph) => {
      let size;
      graph.export((width, height) => {
        size = [width, height];
        return new Proxy({}, { get: () => () => ({ width: 0 }), set: () => true });
      });
      return size;
    });
    const [[width, above], [, beneath]] = parts;
    const context = makeContext(width, above + 8 + beneath);
    this.#graphs[0].export(() => context);
    const shifted = shift(context, above + 8);
    this.#graphs[1].export(() => shifted);
    return context;
  }
}

/** A context whose y axis begins further down. */
function shift(context, by) {
  const moves = {
    fillRect: (x, y, width, height) => context.fillRect(x, y + by, width, height),
    strokeRect: (x, y, width, height) => context.strokeRect(x, y + by, width, height),
    roundRect: (x, y, width, height, radius) => context.roundRect(x, y + by, width, height, radius),
    fillText: (text, x, y) => context.fillText(text, x, y + by),
    measureText: (text) => context.measureText(text),
    beginPath: () => context.beginPath(),
    fill: () => context.fill(),
  };
  return new Proxy(moves, {
    set: (_, name, value) => {
      context[name] = value;
      return true;
    },
  });
}
