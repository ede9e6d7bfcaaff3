// The page: one choice of what is shown, and the views of it.

import { fills, kindColour } from "./colour.js";
import { closeMenu, fillModules, listenToMenus, onChoice, setChoice, StateMenu, ThreadMenu } from "./controls.js";
import { unpack } from "./data.js";
import { amount, button, describe, element, nodeName } from "./describe.js";
import { count, origin, percent, time } from "./format.js";
import { FlameGraph } from "./graph.js";
import { inks } from "./inks.js";
import { Lanes } from "./lanes.js";
import { readLink, writeLink } from "./link.js";
import { KINDS, matchedWeight, mergeFrames, rank, readModel, select, STATES, timesOf } from "./model.js";
import { Overview } from "./overview.js";
import { Sandwich } from "./sandwich.js";
import { findCalls } from "./search.js";
import { SourceView } from "./source.js";
import { save } from "./svg.js";
import { FunctionTable } from "./table.js";
import { fillWaits, Timeline } from "./timeline.js";
import { callTree, CallerTree, leaves } from "./tree.js";

const CRUMBS = 4; // callers of the zoomed frame that are named

const $ = (id) => document.getElementById(id);

/** What is shown at first. */
function firstChoice(model) {
  return {
    view: "flame",
    search: "",
    inverted: false,
    byLine: false,
    rootAtBottom: false,
    native: true,
    internals: model.internals,
    threads: new Set(model.threads.keys()),
    states: new Set(model.states),
    folded: new Set(),
    range: null,
    path: [], // frames that lead to the zoomed one
    frame: null, // of the function in the sandwich
    file: -1,
    line: 0,
    sort: "self",
  };
}

class Page {
  constructor(model) {
    this.model = model;
    this.choice = readLink(location.hash, firstChoice(model), model);
    this.start = firstChoice(model);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.lanes = new Lanes(model);
    this.#groups = model.frames.kind.length > 0 ? groupNames(model) : () => "";
    const rebuild = () => this.update();
    this.states = new StateMenu($("states"), model, this.choice.states, rebuild);
    this.threads = new ThreadMenu($("threads"), model, this.choice.threads, rebuild);
    this.overview = new Overview($("overview"), model, this.lanes, (range) => this.chooseRange(range));
    this.#makeViews();
    this.#listen();
    this.#showFacts();
    this.#showControls();
    this.update();
  }

  #groups;
  #lines = null;
  #built = "";

  #makeViews() {
    const seen = { hovered: (node, event) => this.#tip(this.#flameScene(), node, event) };
    this.flame = new FlameGraph($("graph"), {
      ...seen,
      zoomed: () => this.#zoomed(),
      selected: () => this.#showSelected(this.#flameScene(), this.flame.selected),
    });
    this.timeline = new Timeline($("timeline"), this.model, this.lanes, {
      range: (range) => this.chooseRange(range),
      hovered: (found, event) => this.#timeTip(found, event),
      selected: (node) => this.#showSelected(this.#scene(), node),
    });
    this.sandwich = new Sandwich($("sandwich"), {
      hovered: (scene, node, event) => this.#tip({ ...scene, whole: this.whole }, node, event),
      selected: (scene, node) => this.#showSelected({ ...scene, whole: this.whole }, node),
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
    });
  }

  /** What frames are merged into line by line. */
  get lines() {
    const choice = { ...this.choice, byLine: true };
    this.#lines ??= this.choice.byLine ? this.calls : mergeFrames(this.model, choice, this.#groups);
    return this.#lines;
  }

  /** After any change of the choice: counts again what has to be, and shows the view at hand. */
  update() {
    const { choice, model } = this;
    const merged = [choice.byLine, choice.native, choice.internals, ...[...choice.folded].sort()].join(" ");
    if (merged !== this.#built) {
      this.#built = merged;
      this.calls = mergeFrames(model, choice, this.#groups);
      this.fills = fills(this.calls, this.dark.matches);
      this.#lines = null;
    }
    this.selection = select(model, choice);
    this.tree = callTree(model, this.calls, this.selection);
    this.whole = this.tree.total[0];
    const times = timesOf(model, choice);
    this.states.update(choice.states, times);
    this.threads.update(times);
    $("frames").querySelector("summary").textContent = this.#frameWords();
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
    this.#showLegend();
    this.overview.show(choice.threads, choice.states, choice.range, this.ink);
    $("selected").replaceChildren();
    const scene = this.#scene();
    if (choice.view === "flame") this.#showFlame();
    else if (choice.view === "timeline") this.#showTimeline(scene);
    else if (choice.view === "sandwich") this.#showSandwich(scene);
    else if (choice.view === "functions") this.table.show({ ...scene, lines: () => this.lines, selection: this.selection });
    else this.source.show({ ...scene, selection: this.selection });
    if (choice.view === "source" && choice.file >= 0) this.source.open(choice.file, choice.line);
    this.#remember();
  }

  #scene() {
    const { model, calls, tree, whole, ink, matches, choice } = this;
    const { byLine, rootAtBottom } = choice;
    return { model, calls, tree, whole, fills: this.fills, ink, matches, byLine, rootAtBottom, inverted: false, zoomed: 0 };
  }

  #flameScene() {
    return { ...this.#scene(), tree: this.flame.tree, inverted: this.choice.inverted, zoomed: this.flame.zoomed };
  }

  #showFlame() {
    const { choice, calls, tree } = this;
    const shown = choice.inverted ? new CallerTree(tree, leaves(tree)) : tree;
    const path = choice.path.map((frame) => calls.of[frame]).filter((call) => call >= 0);
    this.flame.mark(this.matches);
    this.flame.paint(this.fills, this.ink);
    this.flame.stand(choice.rootAtBottom);
    this.flame.show(shown, calls, choice.byLine, path);
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
  }

  #zoomed() {
    const { tree, zoomed } = this.flame;
    this.choice.path = tree.path(zoomed).map((node) => this.calls.sample[tree.call[node]]);
    this.#showCrumbs();
    this.#remember();
  }

  #remember() {
    this.choice.sort = this.table.sort;
    const link = writeLink(this.choice, this.start);
    const address = link === "" ? location.pathname + location.search : `#${link}`;
    if (location.protocol !== "about:") history.replaceState(null, "", address);
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
    const found = this.matches.reduce((sum, match) => sum + match, 0);
    const weight = matchedWeight(this.model, this.calls, this.selection, this.matches);
    const kind = this.choice.byLine ? ["line", "lines"] : ["function", "functions"];
    return `${percent(weight, this.whole)} in ${count(found, ...kind)}`;
  }

  #searchChanged() {
    this.choice.search = $("search").value;
    this.#search();
    this.flame.mark(this.matches);
    if (this.choice.view !== "flame" && this.choice.view !== "source") this.show();
    this.#remember();
  }

  #showCrumbs() {
    const scene = this.#flameScene();
    const path = [0, ...scene.tree.path(scene.zoomed)];
    const shown = path.length > CRUMBS + 2 ? [0, -1, ...path.slice(-CRUMBS - 1)] : path;
    $("crumbs").replaceChildren(
      ...shown.map((node) => {
        if (node < 0) return element("li", "", `${(path.length - CRUMBS - 2).toLocaleString("en")} more`);
        if (node === scene.zoomed) return element("li", "", element("span", "", nodeName(scene, node)));
        return element("li", "", button("", nodeName(scene, node), () => this.flame.zoom(node)));
      }),
    );
    $("crumbs").lastElementChild.ariaCurrent = "true";
  }

  /** What is known of a node, and what can be done with it. */
  #showSelected(scene, node) {
    if (!scene.tree || scene.tree.total[0] <= 0) {
      $("selected").replaceChildren();
      return;
    }
    const words = describe(scene, node);
    const call = scene.tree.call[node];
    if (call >= 0) {
      const can = element("span", "can");
      if (this.choice.view !== "sandwich") can.append(button("", "Callers and callees", () => this.openFunction(call)));
      if (this.calls.line[call] > 0) can.append(button("", "Source", () => this.openSource(call)));
      const group = this.#groups(this.calls.sample[call]);
      if (group) can.append(button("", this.choice.folded.has(group) ? "Unfold module" : "Fold module", () => this.#fold(group)));
      words.push(can);
    }
    $("selected").replaceChildren(...words);
  }

  #fold(group) {
    if (!this.choice.folded.delete(group)) this.choice.folded.add(group);
    this.#showControls();
    this.update();
  }

  #tip(scene, node, event) {
    this.#placeTip(node < 0 ? null : describe(scene, node), event);
  }

  #timeTip(found, event) {
    if (found === null || found.thread < 0) return this.#placeTip(null, event);
    const state = STATES.find((one) => one.state === found.state);
    const parts = found.node === undefined ? [] : describe(this.#scene(), found.node);
    parts.push(amount("at ", time(found.at)), element("span", "amount", state ? state.name : "not sampled"));
    return this.#placeTip(parts, event);
  }

  #placeTip(parts, event) {
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

  #showRange() {
    const { range } = this.choice;
    $("range").hidden = range === null;
    if (range) $("range").firstElementChild.textContent = `${time(range[0])} to ${time(range[1])}`;
  }

  /** The kinds of code, with the time that each has of its own; on the time line, the states before them. */
  #showLegend() {
    const of = Int32Array.from(this.calls.of, (call) => (call < 0 ? -1 : this.calls.kind[call]));
    const { self } = rank(this.model, of, KINDS.length, this.selection);
    const shown = [...KINDS.keys()].filter((kind) => self[kind] > 0).sort((a, b) => self[b] - self[a]);
    const [proven, counted, open] = this.model.account.seams;
    const states = this.choice.view === "timeline" ? STATES.filter(({ state }) => this.choice.states.has(state)) : [];
    const parts = states.map(({ name, ink }) => {
      const dot = element("i", "dot");
      dot.style.background = `var(${ink})`;
      return element("li", "", dot, name);
    });
    const kinds = shown.map((kind) => {
      const dot = element("i", "dot");
      dot.style.background = kindColour(kind, this.dark.matches);
      return element("li", "", dot, KINDS[kind], element("small", "", percent(self[kind], this.whole)));
    });
    parts.push(...kinds);
    const proofs = [["proven", proven], ["counted", counted], ["open", open]].filter(([, number]) => number > 0);
    for (const [name, number] of proofs) {
      parts.push(element("li", "", element("i", `stitch ${name}`), `seam ${name}`, element("small", "", number.toLocaleString("en"))));
    }
    $("legend").replaceChildren(...parts);
  }

  #frameWords() {
    const { native, internals, folded, byLine } = this.choice;
    const words = [byLine ? "Lines" : "Functions"];
    if (!native) words.push("Python only");
    if (internals) words.push("internals");
    if (folded.size > 0) words.push(`${folded.size} folded`);
    return words.join(", ");
  }

  #showFacts() {
    const { facts, account, pruned } = this.model;
    $("facts").textContent = facts.join(" · ");
    $("losses").textContent = pruned ? `${account.summary} · pruned` : account.summary;
    $("losses").className = account.spotless && !pruned ? "" : "stained";
    $("account").querySelector("pre").textContent = account.lines.join("\n");
    if (this.model.sliceUs > 0) {
      const hint = $("view-timeline").querySelector(".hint span");
      hint.append(` The order of time is kept to ${time(this.model.sliceUs * 1000)}: within that, stacks lie side by side.`);
    }
  }

  /** Sets the controls to what the choice says. */
  #showControls() {
    const { choice } = this;
    $("search").value = choice.search;
    $("native").checked = choice.native;
    $("internals").checked = choice.internals;
    setChoice("inverted", choice.inverted ? "yes" : "no");
    setChoice("merge", choice.byLine ? "line" : "function");
    setChoice("root", choice.rootAtBottom ? "bottom" : "top");
    this.table.sort = choice.sort;
  }

  #listModules() {
    const names = new Map();
    const of = Int32Array.from(this.model.frames.kind, (_, i) => {
      const group = this.#groups(i);
      if (group === "") return -1;
      if (!names.has(group)) names.set(group, names.size);
      return names.get(group);
    });
    const { total } = rank(this.model, of, names.size, this.selection);
    const modules = [...names].map(([name, i]) => [name, total[i]]).filter(([name, ns]) => ns > 0 || this.choice.folded.has(name));
    modules.sort((a, b) => b[1] - a[1]);
    fillModules($("modules"), modules, this.whole, this.choice.folded, () => this.update());
  }

  #listen() {
    listenToMenus();
    const set = (key, of) => (value) => {
      this.choice[key] = of(value);
      this.update();
    };
    onChoice("inverted", set("inverted", (value) => value === "yes"));
    onChoice("merge", set("byLine", (value) => value === "line"));
    onChoice("root", set("rootAtBottom", (value) => value === "bottom"));
    $("native").addEventListener("change", (event) => set("native", Boolean)(event.target.checked));
    $("internals").addEventListener("change", (event) => set("internals", Boolean)(event.target.checked));
    $("search").addEventListener("input", () => this.#searchChanged());
    $("range").querySelector("button").addEventListener("click", () => this.chooseRange(null));
    $("frames").addEventListener("toggle", () => $("frames").open && this.#listModules());
    for (const one of document.querySelectorAll("[data-save]")) {
      one.addEventListener("click", () => this.#save(one.dataset.save));
    }
    $("nearer").addEventListener("click", () => this.timeline.zoom(0.5));
    $("farther").addEventListener("click", () => this.timeline.zoom(2));
    $("fit").addEventListener("click", () => this.timeline.look(this.choice.range));
    this.#listenToTabs();
    this.dark.addEventListener("change", () => {
      this.#built = "";
      this.update();
    });
    addEventListener("hashchange", () => this.#followLink());
    document.addEventListener("keydown", (event) => this.#key(event));
  }

  #listenToTabs() {
    const tabs = [...document.querySelectorAll("[role=tab]")];
    tabs.forEach((tab, i) => {
      tab.addEventListener("click", () => {
        this.choice.view = tab.dataset.view;
        this.show();
      });
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = tabs[(i + step + tabs.length) % tabs.length];
        next.click();
        next.focus();
      });
    });
  }

  /** Someone has put another fragment into the address. */
  #followLink() {
    const { threads, states } = this.choice;
    const next = readLink(location.hash, firstChoice(this.model), this.model);
    for (const [ours, theirs] of [[threads, next.threads], [states, next.states]]) {
      ours.clear();
      for (const one of theirs) ours.add(one);
    }
    Object.assign(this.choice, next, { threads, states });
    this.#showControls();
    this.update();
  }

  async #save(format) {
    const views = { flame: this.flame, timeline: this.timeline, sandwich: this.sandwich };
    const view = views[this.choice.view];
    closeMenu();
    const name = document.title.replace(/[^\w.-]+/g, "-").slice(0, 60) || "weft";
    await save(format, `${name}-${this.choice.view}`, (make) => view.export(make));
  }

  #key(event) {
    const isTyping = event.target.matches("input[type=search], select");
    const find = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key === "f";
    const tab = /^[1-5]$/.test(event.key) && !isTyping && !event.ctrlKey && !event.altKey && !event.metaKey;
    if (find || (event.key === "/" && !isTyping)) {
      event.preventDefault();
      $("search").select();
      $("search").focus();
    } else if (tab) {
      document.querySelectorAll("[role=tab]")[Number(event.key) - 1].click();
    } else if (event.key === "Escape") {
      this.#escape(isTyping);
    } else if (event.key === "Enter" && event.target === $("search") && this.choice.view === "flame") {
      $("graph").focus();
    }
  }

  /** Takes back one thing: the open menu, the search, the zoom, the time range. */
  #escape(isTyping) {
    if (closeMenu()) return;
    if (isTyping && $("search").value !== "") {
      $("search").value = "";
      this.#searchChanged();
    } else if (this.choice.view === "flame" && this.flame.zoomed > 0) {
      this.flame.zoom(0);
    } else if (this.choice.range) {
      this.chooseRange(null);
    }
  }
}

/** The module of each frame: the package of Python code, the file of native code. */
function groupNames(model) {
  const { file, module } = model.frames;
  const known = new Map();
  return (frame) => {
    const text = module[frame] > 0 && model.strings[module[frame]] !== "" ? model.strings[module[frame]] : model.strings[file[frame]];
    if (!known.has(text)) {
      const { kind, group, short } = origin(text);
      known.set(text, kind === "own" ? short : group);
    }
    return known.get(text);
  };
}

unpack($("profile").textContent)
  .then((data) => {
    $("profile").remove();
    const page = new Page(readModel(data));
    page.flame.redraw();
    document.body.dataset.ready = "yes";
  })
  .catch((error) => {
    $("facts").textContent = `This page cannot be shown: ${error.message}`;
    throw error;
  });
