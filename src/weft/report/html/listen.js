// What the reader does to the page as a whole: controls, tabs, keys, and the address.

import { closeMenu, listenToMenus, onChoice } from "./controls.js";
import { $ } from "./describe.js";
import { firstChoice, readLink } from "./link.js";
import { listModules } from "./modules.js";
import { save } from "./svg.js";

const TABS = "[role=tab]:not([hidden])";

/** Lets the controls, tabs and keys change the page. */
export function listen(page) {
  const set = (key, of) => (value) => {
    page.choice[key] = of(value);
    page.update();
  };
  onChoice("inverted", (value) => {
    page.choice.path = []; // the other way round, it would lead elsewhere
    set("inverted", (one) => one === "yes")(value);
  });
  onChoice("merge", set("byLine", (value) => value === "line"));
  onChoice("root", set("rootAtBottom", (value) => value === "bottom"));
  $("native").addEventListener("change", (event) => set("native", Boolean)(event.target.checked));
  $("internals").addEventListener("change", (event) => set("internals", Boolean)(event.target.checked));
  $("search").addEventListener("input", () => page.searchChanged());
  $("range").querySelector("button").addEventListener("click", () => page.chooseRange(null));
  $("frames").addEventListener("toggle", () => $("frames").open && listModules(page));
  for (const one of document.querySelectorAll("[data-save]")) {
    one.addEventListener("click", () => savePicture(page, one.dataset.save));
  }
  $("nearer").addEventListener("click", () => page.timeline.zoom(0.5));
  $("farther").addEventListener("click", () => page.timeline.zoom(2));
  $("fit").addEventListener("click", () => page.timeline.look(page.choice.range));
  listenToTabs(page);
  page.dark.addEventListener("change", () => {
    page.built = "";
    page.update();
  });
  listenToMenus(); // after what fills the menus, because it finds their place
  addEventListener("hashchange", () => followLink(page));
  document.addEventListener("keydown", (event) => onKey(page, event));
}

function listenToTabs(page) {
  const tabs = [...document.querySelectorAll(TABS)];
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => {
      page.choice.view = tab.dataset.view;
      page.show();
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
function followLink(page) {
  const { threads, states } = page.choice;
  const next = readLink(location.hash, firstChoice(page.model), page.model);
  for (const [ours, theirs] of [[threads, next.threads], [states, next.states]]) {
    ours.clear();
    for (const one of theirs) ours.add(one);
  }
  Object.assign(page.choice, next, { threads, states });
  page.showControls();
  page.update();
}

async function savePicture(page, format) {
  const views = { flame: page.flame, timeline: page.timeline, sandwich: page.sandwich };
  const view = views[page.choice.view];
  closeMenu();
  const name = document.title.replace(/[^\w.-]+/g, "-").slice(0, 60) || "weft";
  await save(format, `${name}-${page.choice.view}`, (make) => view.export(make));
}

function onKey(page, event) {
  const isTyping = event.target.matches("input[type=search], select");
  const find = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key === "f";
  const tab = /^[1-5]$/.test(event.key) && !isTyping && !event.ctrlKey && !event.altKey && !event.metaKey;
  if (find || (event.key === "/" && !isTyping)) {
    event.preventDefault();
    $("search").select();
    $("search").focus();
  } else if (tab) {
    document.querySelectorAll(TABS)[Number(event.key) - 1]?.click();
  } else if (event.key === "Escape") {
    onEscape(page, isTyping);
  } else if (event.key === "Enter" && event.target === $("search") && page.choice.view === "flame") {
    $("graph").focus();
  }
}

/** Takes back one thing: the open menu, the search, the zoom, the time range. */
function onEscape(page, isTyping) {
  if (closeMenu()) return;
  if (isTyping && $("search").value !== "") {
    $("search").value = "";
    page.searchChanged();
  } else if (page.choice.view === "flame" && page.flame.zoomed > 0) {
    page.flame.zoom(0);
  } else if (page.choice.range) {
    page.chooseRange(null);
  }
}
