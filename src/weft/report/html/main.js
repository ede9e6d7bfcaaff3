// The page: one choice of what is shown, and the views of it.

import { askForData, askForSource } from "./ask.js";
import { fills } from "./colour.js";
import { setChoice, StateMenu, ThreadMenu } from "./controls.js";
import { unpack } from "./data.js";
import { $, keepFocus } from "./describe.js";
import { count, percent, time, useUnit } from "./format.js";
import { Follower } from "./follow.js";
import { FlameGraph } from "./graph.js";
import { inks } from "./inks.js";
import { Lanes } from "./lanes.js";
import { firstChoice, hasTimeline, readLink, writeLink } from "./link.js";
import { listen } from "./listen.js";
import { matchedWeight, mergeFrames, rank, readModel, select, timesOf } from "./model.js";
import { groupNames } from "./modules.js";
import { Overview } from "./overview.js";
import { Sandwich } from "./sandwich.js";
import { findCalls } from "./search.js";
import { SourceView } from "./source.js";
import { FunctionTable } from "./table.js";
import { Timeline } from "./timeline.js";
import { callTree, CallerTree, leaves } from "./tree.js";
import { fillWaits } from "./waits.js";
import { frameWords, showCrumbs, showFacts, showLegend, showSelected, timeTip, tip } from "./words.js";

class Page {
  constructor(model) {
    this.model = model;
    useUnit(model.unit);
    for (const id of ["tab-timeline", "states"]) $(id).hidden = !hasTimeline(model);
    this.choice = readLink(location.hash, firstChoice(model), model);
    this.start = firstChoice(model);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.lanes = new Lanes(model);
    this.groups = model.frames.kind.length > 0 ? groupNames(model) : () => "";
    const rebuild = () => this.update();
    this.states = new StateMenu($("states"), model, this.choice.states, rebuild);
    for (const states of [this.choice.states, this.start.states]) {
      for (const state of states) if (!this.states.has(state)) states.delete(state);
    }
    this.threads = new ThreadMenu($("threads"), model, this.choice.threads, rebuild);
    this.overview = new Overview($("overview"), model, this.lanes, (range) => this.chooseRange(range));
    this.#makeViews();
    listen(this);
    showFacts(this);
    this.showControls();
    this.update();
  }

  groups;
  on = { looked: () => {} }; // what to tell: that the reader looks elsewhere
  built = "";
  #lines = null;
  #link = null;
  #keep = null; // while another state of the capture is put in place: which frames have become others

  #makeViews() {
    const seen = { hovered: (node, event) => tip(this.flameScene(), node, event) };
    this.flame = new FlameGraph($("graph"), {
      ...seen,
      zoomed: () => this.#zoomed(),
      selected: () => showSelected(this, this.flameScene(), this.flame.selected),
    });
    this.timeline = new Timeline($("timeline"), this.model, this.lanes, {
      range: (range) => this.chooseRange(range),
      hovered: (found, event) => timeTip(this, found, event),
      selected: (node) => showSelected(this, this.scene(), node),
    });
    this.sandwich = new Sandwich($("sandwich"), {
      hovered: (scene, node, event) => tip({ ...scene, whole: this.whole }, node, event),
      selected: (scene, node) => showSelected(this, { ...scene, whole: this.whole }, node),
      opened: (call) => this.openFunction(call),
    });
    this.table = new FunctionTable($("top"), $("top-title"), {
      pick: (call) => this.openFunction(call),
      read: (call, line) => this.openSource(call, line),
      sorted: () => this.#remember(),
    });
    this.table.sort = this.choice.sort;
    const parts = { files: $("files"), note: $("source-note"), code: $("code").tBodies[0], about: $("about") };
    this.source = new SourceView(parts, this.model, {
      moved: (file, line) => {
        Object.assign(this.choice, { file, line });
        this.#remember();
      },
      pick: (call) => this.openFunction(call),
      ask: askForSource,
    });
  }

  /** Shows another state of the same capture. Everything stays in its place; numbers of frames and threads hold. */
  renew(model) {
    const { choice, start } = this;
    const isEveryThread = choice.threads.size === this.model.threads.length;
    if (choice.view === "sandwich" && this.sandwich.call >= 0) choice.frame ??= this.calls.sample[this.sandwich.call];
    const now = (frame) => model.renamed[frame] ?? [frame];
    choice.path = choice.path.flatMap(now);
    if (choice.frame !== null) choice.frame = now(choice.frame).at(-1);
    this.model = model;
    this.lanes = new Lanes(model);
    this.groups = groupNames(model);
    for (const view of [this.timeline, this.overview, this.source, this.threads]) view.renew(model, this.lanes);
    start.threads = new Set(model.threads.keys());
    if (isEveryThread) for (const thread of start.threads) choice.threads.add(thread);
    for (const state of this.states.renew(model).filter((one) => model.states.includes(one))) {
      choice.states.add(state);
      start.states.add(state);
    }
    showFacts(this);
    this.built = "";
    this.#keep = model.renamed;
    keepFocus(() => this.update());
    this.#keep = null;
  }

  /** Whether something beneath the zoomed frame is not told apart. */
  hasPruned() {
    const { tree, zoomed } = this.flame;
    const pruned = this.calls.of[this.model.prunedFrame] ?? -1;
    if (this.choice.view !== "flame" || this.choice.inverted || zoomed === 0 || pruned < 0) return false;
    const beneath = new Uint8Array(tree.parent.length);
    beneath[zoomed] = 1;
    for (let i = zoomed + 1; i < beneath.length; i++) {
      beneath[i] = beneath[tree.parent[i]];
      if (beneath[i] && tree.call[i] === pruned) return true;
    }
    return tree.call[zoomed] === pruned;
  }

  /** The frames that lead to the zoomed one, but for modules that are shown as one, and what is not told apart. */
  zoomedFrames() {
    const { sample, folded, of } = this.calls;
    const isOne = (frame) => frame !== this.model.prunedFrame && !folded[of[frame]];
    return this.flame.tree.path(this.flame.zoomed).map((node) => sample[this.flame.tree.call[node]]).filter(isOne);
  }

  /** What frames are merged into line by line. */
  get lines() {
    const choice = { ...this.choice, byLine: true };
    this.#lines ??= this.choice.byLine ? this.calls : mergeFrames(this.model, choice, this.groups);
    return this.#lines;
  }

  /** After any change of the choice: counts again what has to be, and shows the view at hand. */
  update() {
    const { choice, model } = this;
    const merged = [choice.byLine, choice.native, choice.internals, ...[...choice.folded].sort()].join(" ");
    if (merged !== this.built) {
      this.built = merged;
      this.calls = mergeFrames(model, choice, this.groups);
      this.fills = fills(this.calls, this.dark.matches);
      this.#lines = null;
    }
    this.selection = select(model, choice);
    this.tree = callTree(model, this.calls, this.selection);
    this.whole = this.tree.total[0];
    const times = timesOf(model, choice);
    this.states.update(choice.states, times);
    this.threads.update(times);
    $("frames").querySelector("summary").textContent = frameWords(this);
    $("empty").hidden = this.whole > 0;
    this.#showRange();
    this.#search();
    this.show();
  }

  /** Shows the view at hand, and hides the others. */
  show() {
    const { choice } = this;
    for (const tab of document.querySelectorAll("[role=tab]")) {
      const isShown = tab.dataset.view === choice.view;
      tab.ariaSelected = String(isShown);
      tab.tabIndex = isShown ? 0 : -1;
      $(tab.getAttribute("aria-controls")).hidden = !isShown;
    }
    document.body.dataset.view = choice.view;
    this.ink = inks(this.dark.matches);
    showLegend(this);
    this.overview.show(choice.threads, choice.states, choice.range, this.ink);
    $("selected").replaceChildren();
    const scene = this.scene();
    if (choice.view === "flame") this.#showFlame();
    else if (choice.view === "timeline") this.#showTimeline(scene);
    else if (choice.view === "sandwich") this.#showSandwich(scene);
    else if (choice.view === "functions") this.table.show({ ...scene, lines: () => this.lines, selection: this.selection });
    else this.source.show({ ...scene, selection: this.selection });
    if (choice.view === "source" && choice.file >= 0) this.source.open(choice.file, choice.line);
    this.#remember();
  }

  scene() {
    const { model, calls, tree, whole, ink, matches, choice } = this;
    const { byLine, rootAtBottom } = choice;
    const shown = { fills: this.fills, ink, matches, byLine, rootAtBottom, inverted: false, zoomed: 0, keep: this.#keep };
    return { model, calls, tree, whole, ...shown };
  }

  flameScene() {
    return { ...this.scene(), tree: this.flame.tree, inverted: this.choice.inverted, zoomed: this.flame.zoomed };
  }

  #showFlame() {
    const { choice, calls, tree } = this;
    const shown = choice.inverted ? new CallerTree(tree, leaves(tree)) : tree;
    const path = choice.path.map((frame) => calls.of[frame]).filter((call) => call >= 0);
    this.flame.mark(this.matches);
    this.flame.paint(this.fills, this.ink);
    this.flame.stand(choice.rootAtBottom);
    this.flame.show(shown, calls, choice.byLine, path, this.#keep);
  }

  #showTimeline(scene) {
    const { threads, states, range } = this.choice;
    this.timeline.show({ ...scene, threads, states, range });
    fillWaits($("waits"), this.model);
  }

  #showSandwich(scene) {
    const { choice, calls } = this;
    let call = choice.frame === null ? -1 : calls.of[choice.frame];
    if (call < 0) {
      const { self } = rank(this.model, calls.of, calls.name.length, this.selection);
      call = self.reduce((best, ns, i) => (ns > (self[best] ?? 0) ? i : best), -1);
    }
    const times = rank(this.model, calls.of, calls.name.length, this.selection);
    this.sandwich.show(scene, call, times);
  }

  openFunction(call) {
    this.choice.frame = this.calls.sample[call];
    this.choice.view = "sandwich";
    this.show();
    scrollTo(0, 0);
  }

  openSource(call, line = 0) {
    const { frames } = this.model;
    const sample = this.calls.sample[call];
    Object.assign(this.choice, { view: "source", file: frames.file[sample], line: line || this.#hottest(call) });
    this.show();
  }

  #hottest(call) {
    const { self, total } = rank(this.model, this.lines.of, this.lines.name.length, this.selection);
    let best = -1;
    for (let i = 0; i < this.calls.of.length; i++) {
      const line = this.lines.of[i];
      if (this.calls.of[i] !== call || line < 0) continue;
      if (best < 0 || self[line] > self[best] || (self[line] === self[best] && total[line] > total[best])) best = line;
    }
    return best < 0 ? 0 : this.lines.line[best];
  }

  chooseRange(range) {
    this.choice.range = range && [Math.max(range[0], 0), Math.min(range[1], this.model.end)];
    this.update();
    this.on.looked();
  }

  #zoomed() {
    const { tree, zoomed } = this.flame;
    this.choice.path = tree.path(zoomed).map((node) => this.calls.sample[tree.call[node]]);
    showCrumbs(this);
    this.#remember();
    this.on.looked();
  }

  #remember() {
    this.choice.sort = this.table.sort;
    const link = writeLink(this.choice, this.start);
    if (link === this.#link) return; // browsers allow so many changes in a while, and no more
    this.#link = link;
    if (location.protocol === "about:") return; // in a frame of a notebook: it has no address to link to
    history.replaceState(null, "", link === "" ? location.pathname + location.search : `#${link}`);
  }

  #search() {
    const box = $("search");
    let words = "";
    try {
      this.matches = findCalls(this.model, this.calls, this.choice.search);
      if (this.matches) words = this.#matchedWords();
      box.removeAttribute("aria-invalid");
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      this.matches = null;
      words = "Not a regular expression";
      box.setAttribute("aria-invalid", "true");
    }
    $("matched").textContent = words;
  }

  #matchedWords() {
    const seen = new Uint8Array(this.matches.length); // a served page knows frames of before, too
    for (const frame of this.model.frame) if (this.calls.of[frame] >= 0) seen[this.calls.of[frame]] = 1;
    const found = this.matches.reduce((sum, match, call) => sum + (match & seen[call]), 0);
    const weight = matchedWeight(this.model, this.calls, this.selection, this.matches);
    const kind = this.choice.byLine ? ["line", "lines"] : ["function", "functions"];
    return `${percent(weight, this.whole)} in ${count(found, ...kind)}`;
  }

  searchChanged() {
    this.choice.search = $("search").value;
    this.#search();
    this.flame.mark(this.matches);
    if (this.choice.view !== "flame" && this.choice.view !== "source") this.show();
    this.#remember();
  }

  fold(group) {
    if (!this.choice.folded.delete(group)) this.choice.folded.add(group);
    this.showControls();
    this.update();
  }

  #showRange() {
    const { range } = this.choice;
    $("range").hidden = range === null;
    if (range) $("range").firstElementChild.textContent = `${time(range[0])} to ${time(range[1])}`;
  }

  /** Sets the controls to what the choice says. */
  showControls() {
    const { choice } = this;
    $("search").value = choice.search;
    $("native").checked = choice.native;
    $("internals").checked = choice.internals;
    setChoice("inverted", choice.inverted ? "yes" : "no");
    setChoice("merge", choice.byLine ? "line" : "function");
    setChoice("root", choice.rootAtBottom ? "bottom" : "top");
    this.table.sort = choice.sort;
  }
}

/** The data that the page holds; a page without any is served, and asks for them. */
async function open() {
  const held = $("profile").textContent.trim();
  $("profile").remove();
  const data = held === "" ? (await askForData()).data : await unpack(held);
  const page = new Page(readModel(data));
  page.flame.redraw();
  if (held === "") new Follower(page);
  document.body.dataset.ready = "yes";
}

open().catch((error) => {
  $("facts").textContent = `This page cannot be shown: ${error.message}`;
  throw error;
});
