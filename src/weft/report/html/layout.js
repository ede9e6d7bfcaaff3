// Where each node lies: children beside each other beneath their parent, the heaviest first.

/**
 * @typedef {object} Layout
 * @property {Float64Array} x  left edge of each node, in ns; its width is its total
 * @property {Int32Array} depth  of each node; 0 at the root
 * @property {Int32Array} height  levels beneath each node
 * @property {Int32Array} order  nodes level by level, from left to right
 * @property {Int32Array} start  where each level starts in `order`, and one past the last
 * @property {Int32Array} rank  of each node in `order`
 */

/**
 * @param {import("./tree.js").Tree} tree
 * @returns {Layout}
 */
export function layOut(tree) {
  const count = tree.parent.length;
  const x = new Float64Array(count);
  const depth = new Int32Array(count);
  const height = new Int32Array(count);
  const { children, first } = childLists(tree);
  for (let i = 1; i < count; i++) depth[i] = depth[tree.parent[i]] + 1;
  for (let i = count - 1; i > 0; i--) height[tree.parent[i]] = Math.max(height[tree.parent[i]], height[i] + 1);

  const order = new Int32Array(count);
  const rank = new Int32Array(count);
  const start = [0];
  let end = 1; // order[0] is the root
  for (let i = 0; i < count; i++) {
    const node = order[i];
    rank[node] = i;
    if (depth[node] === start.length) start.push(i);
    let at = x[node];
    for (let c = first[node]; c < first[node + 1]; c++) {
      x[children[c]] = at;
      at += tree.total[children[c]];
      order[end++] = children[c];
    }
  }
  start.push(count);
  return { x, depth, height, order, start: Int32Array.from(start), rank };
}

/** All children in one column, those of node n from first[n] to first[n + 1]. */
function childLists(tree) {
  const count = tree.parent.length;
  const first = new Int32Array(count + 1);
  for (let i = 1; i < count; i++) first[tree.parent[i] + 1] += 1;
  for (let i = 0; i < count; i++) first[i + 1] += first[i];
  const children = new Int32Array(Math.max(count - 1, 0));
  const next = first.slice();
  for (let i = 1; i < count; i++) children[next[tree.parent[i]]++] = i;
  const heaviest = (a, b) => tree.total[b] - tree.total[a] || tree.call[a] - tree.call[b];
  for (let i = 0; i < count; i++) {
    if (first[i + 1] - first[i] > 1) children.subarray(first[i], first[i + 1]).sort(heaviest);
  }
  return { children, first };
}

/**
 * Index in `order` of the first node of a level that ends after `x`; the level's end if none does.
 * @param {Layout} layout
 * @param {number} low  where to begin: none before it does; what is near is found fastest
 */
export function firstAfter(layout, tree, level, x, low = layout.start[level]) {
  const end = layout.start[level + 1];
  let high = low;
  for (let step = 1; high < end; step *= 2) {
    const node = layout.order[high];
    if (layout.x[node] + tree.total[node] > x) break;
    low = high + 1;
    high = Math.min(high + step, end);
  }
  while (low < high) {
    const middle = (low + high) >> 1;
    const node = layout.order[middle];
    if (layout.x[node] + tree.total[node] > x) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The node of a level that holds the point `x`, or -1. */
export function nodeAt(layout, tree, level, x) {
  if (level < 0 || level >= layout.start.length - 1) return -1;
  const index = firstAfter(layout, tree, level, x);
  if (index === layout.start[level + 1]) return -1;
  const node = layout.order[index];
  return layout.x[node] <= x ? node : -1;
}
