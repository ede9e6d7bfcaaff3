// Call trees: from callers to callees, and the other way round. Node 0 is the root; parents come before their children.

/** A tree that only grows. Columns are plain arrays, because the callers' tree is extended on demand. */
export class Tree {
  /** @type {number[]} */ parent = [-1];
  /** @type {number[]} -1 at the root */ call = [-1];
  /** @type {number[]} ns, of the node and everything beneath it */ total = [0];
  /** @type {number[]} ns, of the node alone */ self = [0];
  /** @type {number[]} samples, of the node and everything beneath it */ ticks = [0];

  add(parent, call, total = 0, ticks = 0) {
    this.parent.push(parent);
    this.call.push(call);
    this.total.push(total);
    this.self.push(0);
    this.ticks.push(ticks);
    return this.parent.length - 1;
  }

  /** Whether children of the node are still to be added. */
  isOpen(_node) {
    return false;
  }

  /** Adds what becomes visible when the node is zoomed into. Returns whether anything was added. */
  grow(_node) {
    return false;
  }

  /** From the root's child down to the node. */
  path(node) {
    const nodes = [];
    for (let i = node; i > 0; i = this.parent[i]) nodes.push(i);
    return nodes.reverse();
  }

  /**
   * The node that the same calls lead to in this tree, or the last one that exists on that way.
   * @param {number[]} path  calls
   */
  find(path) {
    let at = 0;
    let step = 0;
    for (let i = 1; i < this.parent.length && step < path.length; i++) {
      if (this.parent[i] === at && this.call[i] === path[step]) {
        at = i;
        step += 1;
      }
    }
    return at;
  }
}

/**
 * The tree from the outermost callers to the innermost frames.
 * @param {import("./model.js").Model} model
 * @param {import("./model.js").Calls} calls
 * @param {import("./model.js").Selection} selection
 */
export function callTree(model, calls, selection) {
  const tree = new Tree();
  const used = withUse(model, selection.ticks);
  const nodes = new Int32Array(model.parent.length);
  const known = new Map(); // (parent node, call) as one number, which is exact up to 2**53
  const count = calls.name.length;
  for (let i = 0; i < nodes.length; i++) {
    if (!used[i]) continue;
    const parent = model.parent[i] < 0 ? 0 : nodes[model.parent[i]];
    const call = calls.of[model.frame[i]];
    const key = parent * count + call;
    let node = known.get(key);
    if (node === undefined) {
      node = tree.add(parent, call);
      known.set(key, node);
    }
    nodes[i] = node;
    tree.self[node] += selection.weight[i];
    tree.total[node] += selection.weight[i];
    tree.ticks[node] += selection.ticks[i];
  }
  for (let i = tree.parent.length - 1; i > 0; i--) {
    tree.total[tree.parent[i]] += tree.total[i];
    tree.ticks[tree.parent[i]] += tree.ticks[i];
  }
  return tree;
}

/** Which stacks were seen themselves, or call one that was. */
function withUse(model, ticks) {
  const used = Uint8Array.from(ticks, (n) => (n > 0 ? 1 : 0));
  for (let i = used.length - 1; i >= 0; i--) {
    if (used[i] && model.parent[i] >= 0) used[model.parent[i]] = 1;
  }
  return used;
}

const STEPS_AT_ONCE = 2_000_000; // keeps one growth of a callers' tree well under a second
const NARROWEST = 1 / 4000; // of the node that is zoomed into: less than a pixel

/**
 * The tree from the innermost frames to their callers.
 *
 * Whole, it can be as large as all stacks' depths together (recursion 100,000 deep: five billion nodes), so it grows
 * where it is looked at. A node that has not grown keeps its cursors: the stacks whose callers come next, with their
 * time. Such a node is open, and drawn so.
 */
export class CallerTree extends Tree {
  #model;
  #calls;
  /** @type {Map<number, Cursors>} */ #open = new Map();

  constructor(model, calls, selection) {
    super();
    this.#model = model;
    this.#calls = calls;
    const leaves = new Cursors();
    for (let i = 0; i < selection.ticks.length; i++) {
      if (selection.ticks[i] > 0) leaves.add(i, selection.weight[i], selection.ticks[i]);
    }
    this.total[0] = leaves.weight.reduce((sum, weight) => sum + weight, 0);
    this.ticks[0] = leaves.ticks.reduce((sum, ticks) => sum + ticks, 0);
    this.#addChildren(0, leaves);
    this.grow(0);
  }

  isOpen(node) {
    return this.#open.has(node);
  }

  grow(node) {
    const least = this.total[node] * NARROWEST;
    const queue = this.#openBeneath(node).filter((i) => this.total[i] >= least);
    const before = this.parent.length;
    let steps = 0;
    for (let next = 0; next < queue.length && steps < STEPS_AT_ONCE; next++) {
      const cursors = this.#open.get(queue[next]);
      this.#open.delete(queue[next]);
      steps += cursors.stack.length;
      for (const child of this.#addChildren(queue[next], this.#callers(queue[next], cursors))) {
        if (this.total[child] >= least) queue.push(child);
      }
    }
    return this.parent.length > before;
  }

  #openBeneath(node) {
    const beneath = new Uint8Array(this.parent.length);
    beneath[node] = 1;
    for (let i = node + 1; i < beneath.length; i++) beneath[i] = beneath[this.parent[i]];
    return [...this.#open.keys()].filter((i) => beneath[i]);
  }

  /** One step outwards. Stacks that had no caller are the node's own time. */
  #callers(node, cursors) {
    const callers = new Cursors();
    for (let i = 0; i < cursors.stack.length; i++) {
      const caller = this.#model.parent[cursors.stack[i]];
      if (caller < 0) this.self[node] += cursors.weight[i];
      else callers.add(caller, cursors.weight[i], cursors.ticks[i]);
    }
    return callers;
  }

  #addChildren(node, cursors) {
    const children = new Map();
    for (let i = 0; i < cursors.stack.length; i++) {
      const call = this.#calls.of[this.#model.frame[cursors.stack[i]]];
      let child = children.get(call);
      if (child === undefined) {
        child = this.add(node, call);
        children.set(call, child);
        this.#open.set(child, new Cursors());
      }
      this.total[child] += cursors.weight[i];
      this.ticks[child] += cursors.ticks[i];
      this.#open.get(child).add(cursors.stack[i], cursors.weight[i], cursors.ticks[i]);
    }
    return children.values();
  }
}

/** Stacks with the time and samples that they stand for; each stack once. */
class Cursors {
  /** @type {number[]} */ stack = [];
  /** @type {number[]} */ weight = [];
  /** @type {number[]} */ ticks = [];
  /** @type {Map<number, number> | null} */ #index = null;

  add(stack, weight, ticks) {
    if (this.#index === null && this.stack.length > 0) {
      this.#index = new Map(this.stack.map((known, i) => [known, i]));
    }
    const known = this.#index?.get(stack);
    if (known !== undefined) {
      this.weight[known] += weight;
      this.ticks[known] += ticks;
      return;
    }
    this.#index?.set(stack, this.stack.length);
    this.stack.push(stack);
    this.weight.push(weight);
    this.ticks.push(ticks);
  }
}
