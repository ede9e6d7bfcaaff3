"""The scripts that build and lay out the trees, run in the browser on random stacks and compared with a plain count."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from html_profiles import Recording, Seen, account, frame, random_recording
from selenium.webdriver import Chrome

import weft.report.html
from weft.report.html.columns import columns
from weft.report.html.page import inline
from weft.sample import Frame, State

FOLDER = Path(weft.report.html.__file__).parent
Path_ = tuple[tuple[str, str, int], ...]

BUILD = """
const model = readModel(arguments[0]);
const calls = mergeFrames(model, arguments[1]);
const selection = select(model, new Set(model.threads.keys()), new Set([0, 1, 2]));
const tree = arguments[2] ? new CallerTree(model, calls, selection) : callTree(model, calls, selection);
const layout = layOut(tree);
const call = (i) => [calls.name[i], calls.file[i], calls.line[i]];
return {
  parent: tree.parent, total: tree.total, self: tree.self, ticks: tree.ticks,
  call: tree.call.map((i) => i < 0 ? null : call(i)),
  open: tree.parent.map((_, i) => tree.isOpen(i)),
  x: [...layout.x], depth: [...layout.depth], height: [...layout.height],
  hits: tree.parent.map((_, i) => nodeAt(layout, tree, layout.depth[i], layout.x[i] + tree.total[i] / 2)),
  found: tree.parent.map((_, i) => tree.find(tree.path(i).map((node) => tree.call[node]))),
};
"""


def build(browser: Chrome, recording: Recording, *, by_line: bool, inverted: bool) -> dict[str, Any]:
    browser.get("about:blank")
    scripts = "\n".join(map(inline, ("model.js", "tree.js", "layout.js")))
    data = columns(recording.profile(), account(), idle=True)
    return browser.execute_script(scripts + BUILD, data, by_line, inverted)


def prefixes(
    seen: Iterable[Seen], *, by_line: bool, inverted: bool
) -> tuple[Counter[Path_], Counter[Path_], Counter[Path_]]:
    """Total and self time and samples of every path from the root."""
    total: Counter[Path_] = Counter()
    own: Counter[Path_] = Counter()
    ticks: Counter[Path_] = Counter()
    for one in seen:
        stack = one.stack[::-1] if inverted else one.stack
        path = tuple((f.function, f.file, f.line if by_line else f.first_line) for f in stack)
        own[path] += one.weight_ns
        for length in range(len(path) + 1):
            total[path[:length]] += one.weight_ns
            ticks[path[:length]] += one.ticks
    return total, own, ticks


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("by_line", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_trees_are_true(browser: Chrome, seed: int, by_line: bool, inverted: bool) -> None:
    """Every path that was seen is a node with its time, and there are no others."""
    recording = random_recording(seed, 150)
    built = build(browser, recording, by_line=by_line, inverted=inverted)
    total, own, ticks = prefixes(recording.seen, by_line=by_line, inverted=inverted)
    paths: list[Path_] = [()]
    for node, parent in enumerate(built["parent"][1:], 1):
        paths.append((*paths[parent], tuple(built["call"][node])))
    closed = [path for path, is_open in zip(paths, built["open"], strict=True) if not is_open]
    assert len(set(paths)) == len(paths)
    assert dict(zip(paths, built["total"], strict=True)) == {path: total[path] for path in paths}
    assert dict(zip(paths, built["ticks"], strict=True)) == {path: ticks[path] for path in paths}
    assert {path: own[path] for path in closed} == {
        path: time for path, time, is_open in zip(paths, built["self"], built["open"], strict=True) if not is_open
    }
    missing = set(total) - set(paths)
    least = total[()] / 4000
    assert all(total[path] < least for path in missing) if inverted else not missing


@pytest.mark.parametrize("inverted", [False, True])
def test_layout_tiles(browser: Chrome, inverted: bool) -> None:
    """Children lie inside their parent, side by side, the heaviest first; each node is found by its place."""
    built = build(browser, random_recording(11, 300), by_line=True, inverted=inverted)
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(built["parent"]):
        if parent >= 0:
            children.setdefault(parent, []).append(node)
    for parent, nodes in children.items():
        nodes.sort(key=lambda node: built["x"][node])
        at = built["x"][parent]
        for node in nodes:
            assert built["x"][node] == at
            assert built["depth"][node] == built["depth"][parent] + 1
            at += built["total"][node]
        assert at <= built["x"][parent] + built["total"][parent]
        weights = [built["total"][node] for node in nodes]
        assert weights == sorted(weights, reverse=True)
        assert built["height"][parent] == 1 + max(built["height"][node] for node in nodes)
    everyone = list(range(len(built["parent"])))
    assert built["hits"] == everyone
    assert built["found"] == everyone


def test_callers_are_open_only_below_a_pixel(browser: Chrome) -> None:
    """What the callers' tree leaves for later is narrower than a pixel, or the budget of one growth was used up."""
    built = build(browser, random_recording(4), by_line=False, inverted=True)
    least = built["total"][0] / 4000
    assert all(total < least for total, is_open in zip(built["total"], built["open"], strict=True) if is_open)


def test_words(browser: Chrome) -> None:
    """Times, shares and files as they are shown, at the ends of each unit."""
    browser.get("about:blank")
    functions = "const [name, calls] = arguments, functions = { time, percent, place, origin };"
    script = f"{inline('format.js')}\n{functions} return calls.map((one) => functions[name](...one))"

    def words(function: str, *arguments: tuple[object, ...]) -> list[Any]:
        shown = browser.execute_script(script, function, arguments)
        return [word.replace("\u00a0", " ") if isinstance(word, str) else word for word in shown]

    times = [
        0,
        1,
        999,
        1000,
        12_340,
        999_499,
        999_500,
        1_500_000_000,
        119_900_000_000,
        150_000_000_000,
        9_000_000_000_000,
    ]
    assert words("time", *((ns,) for ns in times)) == [
        "0 s", "1 ns", "999 ns", "1.00 µs", "12.3 µs", "999 µs", "1.00 ms",
        "1.50 s", "120 s", "2 min 30 s", "2 h 30 min",
    ]  # fmt: skip
    shares = [(0, 0), (0, 5), (5, 5), (1, 3), (1, 1500), (1, 1e6), (99_999, 100_000)]
    assert words("percent", *shares) == ["0 %", "0 %", "100 %", "33.3 %", "0.07 %", "< 0.01 %", "100.0 %"]
    assert words("place", ("a.py", 3), ("a.py", 0), ("", 0)) == ["a.py:3", "a.py", ""]
    files = [
        ("/v/lib/python3.13/site-packages/numpy/core/f.py", "package", "numpy", "numpy/core/f.py"),
        ("/usr/lib/python3/dist-packages/apt.py", "package", "apt.py", "apt.py"),
        ("/usr/lib64/python3.13t/json/decoder.py", "standard", "json", "json/decoder.py"),
        ("<frozen importlib._bootstrap>", "standard", "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
        ("/srv/app/main.py", "own", "/srv/app/main.py", "main.py"),
    ]
    origins = words("origin", *((file,) for file, *_ in files))
    assert [(o["kind"], o["group"], o["short"]) for o in origins] == [tuple(rest) for _, *rest in files]


def test_stacks_are_in_preorder_and_only_what_has_time() -> None:
    profile = random_recording(8).profile()
    unused = profile.stacks.add(0, 0)
    for _ in range(5):
        unused = profile.stacks.add(unused, 1)
    data = columns(profile, account(), idle=False)
    back = data["stacks"]["back"]
    path: list[int] = []
    for place, step in enumerate(back):
        parent = place - step if step else -1
        while path and path[-1] != parent:
            path.pop()
        assert bool(path) == (parent >= 0), "the parent is on the path to the stack before"
        path.append(place)
    seen = {total.stack for total in profile.totals}
    prefixes_of_seen: set[int] = set()
    for stack in seen:
        while stack:
            prefixes_of_seen.add(stack)
            stack = profile.stacks.parent[stack]
    assert len(back) == len(prefixes_of_seen)
    assert sum(data["totals"]["weight"]) == profile.weight_ns


def test_columns_of_source_are_not_told_apart() -> None:
    """Frames that differ by their column only are one frame of the page."""
    frames = [Frame(frame("f").kind, "f", "a.py", 3, 1, 3, column, column + 4) for column in (1, 9)]
    data = columns(Recording([Seen((f,), 5, state=State.GIL) for f in frames]).profile(), account(), idle=False)
    assert data["frames"]["line"] == [3]
    assert data["stacks"] == {"back": [0, 0], "frame": [0, 0]}


def test_scripts_are_whole(tmp_path: Path) -> None:
    """Each module, and the one script made of them, parse as modules, and no import is left behind."""
    script = inline("main.js")
    assert not [line for line in script.splitlines() if line.startswith(("import ", "export "))]
    for module in FOLDER.glob("*.js"):
        first_line = module.read_text("utf-8").splitlines()[0]
        assert first_line in script, f"{module.name} is part of the page"
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here to parse the modules one by one")
    (tmp_path / "all.mjs").write_text(script, "utf-8")
    for path in (*FOLDER.glob("*.js"), tmp_path / "all.mjs"):
        copy = tmp_path / f"{path.stem}.mjs"
        copy.write_text(path.read_text("utf-8"), "utf-8")
        subprocess.run([node, "--check", str(copy)], check=True)
