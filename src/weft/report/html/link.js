// The view as the fragment of the page's address, so that a link shows what its sender saw.
//
// Numbers of threads, stacks and frames are those of this file: a link is for it and no other.

/** Whether there are states to be told of in the order of time: what is of moments is not. */
export function hasTimeline(model) {
  return model.unit === "ns";
}

/** What is shown at first. */
export function firstChoice(model) {
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

const MOST_ZOOM = 300; // frames; browsers have longer addresses fail

/** @returns {string}  without "#"; "" for what the page shows at first */
export function writeLink(choice, start) {
  const words = new URLSearchParams();
  const put = (key, value, usual) => String(value) !== String(usual) && words.set(key, value);
  const list = (set) => [...set].sort((a, b) => (a > b ? 1 : -1)).join(",");
  put("view", choice.view, start.view);
  put("search", choice.search, "");
  put("inverted", choice.inverted ? 1 : 0, 0);
  put("lines", choice.byLine ? 1 : 0, 0);
  put("flame", choice.rootAtBottom ? 1 : 0, 0);
  put("native", choice.native ? 1 : 0, 1);
  put("internals", choice.internals ? 1 : 0, start.internals ? 1 : 0);
  put("threads", list(choice.threads), list(start.threads));
  put("states", list(choice.states), list(start.states));
  put("folded", JSON.stringify([...choice.folded].sort()), "[]");
  put("time", choice.range ? choice.range.map((ns) => Math.round(ns / 1000)).join("-") : "", "");
  if (choice.path.length <= MOST_ZOOM) put("zoom", choice.path.join("."), "");
  put("function", choice.frame ?? "", "");
  put("source", choice.view === "source" && choice.file >= 0 ? `${choice.file}.${choice.line}` : "", "");
  put("sort", choice.sort, start.sort);
  return words.toString();
}

/** Changes `choice` to what a fragment says; what makes no sense in it is left as it is. */
export function readLink(fragment, choice, model) {
  const words = new URLSearchParams(fragment.replace(/^#/, ""));
  const flag = (key, usual) => (words.has(key) ? words.get(key) === "1" : usual);
  const numbers = (key, separator, end) => {
    const found = (words.get(key) ?? "").split(separator).filter((word) => word !== "").map(Number);
    return found.every((number) => Number.isInteger(number) && number >= 0 && number < end) ? found : [];
  };
  const views = ["flame", ...(hasTimeline(model) ? ["timeline"] : []), "sandwich", "functions", "source"];
  if (views.includes(words.get("view"))) choice.view = words.get("view");
  if (["self", "total", "name", "place"].includes(words.get("sort"))) choice.sort = words.get("sort");
  choice.search = (words.get("search") ?? "").slice(0, 1000);
  choice.inverted = flag("inverted", false);
  choice.byLine = flag("lines", false);
  choice.rootAtBottom = flag("flame", false);
  choice.native = flag("native", true);
  choice.internals = flag("internals", choice.internals);
  if (words.has("threads")) choice.threads = new Set(numbers("threads", ",", model.threads.length));
  if (words.has("states")) choice.states = new Set(numbers("states", ",", 8));
  choice.folded = new Set(strings(words.get("folded")));
  const range = numbers("time", "-", Infinity).map((us) => us * 1000);
  choice.range = range.length === 2 && range[0] < range[1] ? range : null;
  choice.path = numbers("zoom", ".", model.frames.kind.length);
  choice.frame = numbers("function", ".", model.frames.kind.length)[0] ?? null;
  const [file, line] = numbers("source", ".", 2 ** 31);
  if (file !== undefined && file < model.strings.length) Object.assign(choice, { file, line: line ?? 0 });
  return choice;
}

function strings(text) {
  try {
    const found = JSON.parse(text ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one === "string") : [];
  } catch {
    return [];
  }
}
