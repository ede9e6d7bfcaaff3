// Call trees: from callers to callees, and the other way round. Node 0 is the root; parents come before their children.

import { CYTHON, PROOFS, WRAPPER } from "./model.js";

/** What all trees have in common. Columns are typed arrays that are as long as there are nodes. */
export class Tree {
  /** @type {ArrayLike<number>} */ parent = [-1];
  /** @type {ArrayLike<number>} -1 at the root */ call = [-1];
  /** @type {ArrayLike<number>} ns, of the node and everything beneath it */ total = [0];
  /** @type {ArrayLike<number>} ns, of the node alone */ self = [0];
  /** @type {ArrayLike<number>} samples, of the node and everything beneath it */ ticks = [0];
  /** @type {ArrayLike<number>} proofs of the seams between the node and its parent, as flags */ seam = [0];

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

/** The nodes of a tree by (parent, call): an open hash table over numbers, many times faster than a Map. */
class Children {
  #slots;
  #mask;

  constructor(most) {
    const size = 2 ** Math.ceil(Math.log2(Math.max(most * 2, 16)));
    this.#slots = new Int32Array(size);
    this.#mask = size - 1;
  }

  /** The node with these, or 0 and where to put it. */
  find(tree, parent, call) {
    let slot = (Math.imul(parent, 0x9e3779b1) ^ Math.imul(call + 1, 0x85ebca6b)) >>> 0;
    slot = (slot ^ (slot >>> 15)) & this.#mask;
    for (;;) {
      const node = this.#slots[slot];
      if (node === 0 || (tree.parent[node] === parent && tree.call[node] === call)) return { node, slot };
      slot = (slot + 1) & this.#mask;
    }
  }

  put(slot, node) {
    this.#slots[slot] = node;
  }
}

/** A tree of so many nodes at most, that is cut to its size when it is whole. */
class GrowingTree extends Tree {
  count = 1;
  #children;

  constructor(most) {
    super();
    this.parent = new Int32Array(most + 1).fill(-1, 0, 1);
    this.call = new Int32Array(most + 1).fill(-1, 0, 1);
    this.total = new Float64Array(most + 1);
    this.self = new Float64Array(most + 1);
    this.ticks = new Float64Array(most + 1);
    this.seam = new Uint8Array(most + 1);
    this.#children = new Children(most + 1);
  }

  node(parent, call) {
    const { node, slot } = this.#children.find(this, parent, call);
    if (node > 0) return node;
    this.parent[this.count] = parent;
    this.call[this.count] = call;
    this.#children.put(slot, this.count);
    return this.count++;
  }

  /** Adds up what is beneath, and lets go of what is not used. */
  close() {
    for (const column of ["parent", "call", "total", "self", "ticks", "seam"]) {
      this[column] = this[column].slice(0, this.count);
    }
    for (let i = this.count - 1; i > 0; i--) {
      this.total[this.parent[i]] += this.total[i];
      this.ticks[this.parent[i]] += this.ticks[i];
    }
    this.#children = null;
    return this;
  }
}

/**
 * The tree from the outermost callers to the innermost frames. `nodeOf` leads from stacks to nodes.
 * @param {import("./model.js").Model} model
 * @param {import("./model.js").Calls} calls
 */
export function callTree(model, calls, selection) {
  const { frames, parent: callers, frame } = model;
  const used = withUse(model, selection.ticks);
  const tree = new GrowingTree(used.reduce((sum, one) => sum + one, 0));
  const nodeOf = new Int32Array(callers.length);
  const frameOf = new Int32Array(tree.parent.length).fill(-1); // the first frame of each node
  const pending = new Uint8Array(callers.length); // proofs of hidden frames that the next shown one is to tell
  for (let i = 0; i < nodeOf.length; i++) {
    const caller = callers[i];
    if (!used[i]) {
      nodeOf[i] = caller < 0 ? 0 : nodeOf[caller];
      continue;
    }
    let parent = caller < 0 ? 0 : nodeOf[caller];
    const call = calls.of[frame[i]];
    const proofs = (frames.flags[frame[i]] & PROOFS) | (caller < 0 ? 0 : pending[caller]);
    if (call < 0) {
      pending[i] = proofs;
      nodeOf[i] = parent;
    } else if (calls.folded[call] && tree.call[parent] === call) {
      nodeOf[i] = parent;
    } else {
      if (isBody(frames, frame[i], frameOf[parent])) parent = tree.parent[parent]; // shown in its wrapper's place
      const node = tree.node(parent, call);
      if (frameOf[node] < 0) frameOf[node] = frame[i];
      tree.seam[node] |= proofs;
      nodeOf[i] = node;
    }
    tree.self[nodeOf[i]] += selection.weight[i];
    tree.total[nodeOf[i]] += selection.weight[i];
    tree.ticks[nodeOf[i]] += selection.ticks[i];
  }
  tree.close();
  tree.nodeOf = nodeOf;
  return tree;
}

/** Whether a frame is the body of the Cython function whose wrapper has called it: is_body() of sample.py. */
function isBody(frames, frame, caller) {
  return (
    caller >= 0 &&
    frames.kind[frame] === CYTHON &&
    frames.kind[caller] === CYTHON &&
    (frames.flags[caller] & WRAPPER) !== 0 &&
    (frames.flags[frame] & WRAPPER) === 0 &&
    frames.function[frame] === frames.function[caller]
  );
}

/** Which stacks were seen themselves, or call one that was. */
function withUse(model, ticks) {
  const used = new Uint8Array(ticks.length);
  for (let i = used.length - 1; i >= 0; i--) {
    if (ticks[i] > 0) used[i] = 1;
    if (used[i] && model.parent[i] >= 0) used[model.parent[i]] = 1;
  }
  return used;
}

/** Where a call is entered: its outermost nodes, as [node, ns, samples]. */
export function entries(tree, call) {
  const within = new Uint8Array(tree.parent.length);
  const found = [];
  for (let i = 1; i < within.length; i++) {
    within[i] = within[tree.parent[i]];
    if (tree.call[i] === call && !within[i]) {
      within[i] = 1;
      found.push([i, tree.total[i], tree.ticks[i]]);
    }
  }
  return found;
}

/** What a call calls, wherever it is called from: a tree whose root has the call as its one child. */
export function calleesOf(tree, call) {
  const starts = new Set(entries(tree, call).map(([node]) => node));
  const merged = new GrowingTree(tree.parent.length);
  const places = new Int32Array(tree.parent.length).fill(-1);
  for (let i = 1; i < places.length; i++) {
    const parent = starts.has(i) ? 0 : places[tree.parent[i]];
    if (parent < 0) continue;
    const node = merged.node(parent, tree.call[i]);
    places[i] = node;
    merged.seam[node] |= tree.seam[i];
    merged.self[node] += tree.self[i];
    merged.total[node] += tree.self[i];
  }
  // Samples are known with all that is beneath: what each node has of its own is the rest.
  const own = Float64Array.from(tree.ticks);
  for (let i = places.length - 1; i > 0; i--) own[tree.parent[i]] -= tree.ticks[i];
  for (let i = 1; i < places.length; i++) if (places[i] >= 0) merged.ticks[places[i]] += own[i];
  return merged.close();
}

const STEPS_AT_ONCE = 2_000_000; // keeps one growth of a callers' tree well under a second
const NARROWEST = 1 / 4000; // of the node that is zoomed into: less than a pixel

/** Where the callers' tree of a whole call tree begins: every node with time of its own. */
export function leaves(tree) {
  const own = Float64Array.from(tree.ticks);
  for (let i = own.length - 1; i > 0; i--) own[tree.parent[i]] -= tree.ticks[i];
  const found = [];
  for (let i = 1; i < own.length; i++) if (own[i] > 1e-9) found.push([i, tree.self[i], own[i]]);
  return found;
}

/**
 * The tree from the innermost frames to their callers.
 *
 * Whole, it can be as large as all stacks' depths together (recursion 100,000 deep: five billion nodes), so it grows
 * where it is looked at. A node that has not grown keeps its cursors: the nodes of the call tree whose callers come
 * next, with their time. Such a node is open, and drawn so.
 */
export class CallerTree extends Tree {
  #tree;
  /** @type {Map<number, Cursors>} */ #open = new Map();

  /** @param {[number, number, number][]} starts  nodes of the call tree to begin with, their ns and samples */
  constructor(tree, starts) {
    super();
    this.#tree = tree;
    const cursors = new Cursors();
    for (const start of starts) cursors.add(...start);
    this.total[0] = cursors.weight.reduce((sum, weight) => sum + weight, 0);
    this.ticks[0] = cursors.ticks.reduce((sum, ticks) => sum + ticks, 0);
    this.#addChildren(0, cursors);
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
      steps += cursors.node.length;
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

  /** One step outwards. What had no caller is the node's own time. */
  #callers(node, cursors) {
    const callers = new Cursors();
    for (let i = 0; i < cursors.node.length; i++) {
      const caller = this.#tree.parent[cursors.node[i]];
      this.seam[node] |= this.#tree.seam[cursors.node[i]];
      if (caller <= 0) this.self[node] += cursors.weight[i];
      else callers.add(caller, cursors.weight[i], cursors.ticks[i]);
    }
    return callers;
  }

  #add(parent, call) {
    this.parent.push(parent);
    this.call.push(call);
    for (const column of [this.total, this.self, this.ticks, this.seam]) column.push(0);
    return this.parent.length - 1;
  }

  #addChildren(node, cursors) {
    const children = new Map();
    for (let i = 0; i < cursors.node.length; i++) {
      const call = this.#tree.call[cursors.node[i]];
      let child = children.get(call);
      if (child === undefined) {
        child = this.#add(node, call);
        children.set(call, child);
        this.#open.set(child, new Cursors());
      }
      this.total[child] += cursors.weight[i];
      this.ticks[child] += cursors.ticks[i];
      this.#open.get(child).add(cursors.node[i], cursors.weight[i], cursors.ticks[i]);
    }
    return children.values();
  }
}

/** Nodes of the call tree with the time and samples that they stand for; each once. */
class Cursors {
  /** @type {number[]} */ node = [];
  /** @type {number[]} */ weight = [];
  /** @type {number[]} */ ticks = [];
  /** @type {Map<number, number> | null} */ #index = null;

  add(node, weight, ticks) {
    if (this.#index === null && this.node.length > 0) this.#index = new Map(this.node.map((known, i) => [known, i]));
    const known = this.#index?.get(node);
    if (known !== undefined) {
      this.weight[known] += weight;
      this.ticks[known] += ticks;
      return;
    }
    this.#index?.set(node, this.node.length);
    this.node.push(node);
    this.weight.push(weight);
    this.ticks.push(ticks);
  }
}
