"""The page as a file: its scripts, its numbers in words, its container, and what is cut where it would be too large."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from playwright.sync_api import Browser
from report_page import Page
from report_recordings import MS, Recording, Seen, costs, frame, random_recording

import weft.report.html
from weft.capture import Capture
from weft.profile.tables import Profile, View
from weft.report.html import pack, prefix, timeline
from weft.report.html.content import content
from weft.report.html.page import inline

OpenPage = Callable[..., Page]
FOLDER = Path(weft.report.html.__file__).parent


def test_scripts_are_whole(tmp_path: Path) -> None:
    """Each module, and the one script of them all, parse; no import is left behind, no name is there twice."""
    script = inline("main.js")
    assert not [line for line in script.splitlines() if line.startswith(("import ", "export "))]
    names = re.findall(r"^(?:async )?(?:function|class|const|let) ([\w$]+)", script, re.MULTILINE)
    assert sorted(names) == sorted(set(names))
    for module in FOLDER.glob("*.js"):
        text = module.read_text("utf-8")
        assert text.splitlines()[0] in script, f"{module.name} is part of the page"
        for imported, source in re.findall(r'^import \{([^}]*)\} from "\./(\w+\.js)";', text, re.MULTILINE):
            for name in filter(None, map(str.strip, imported.split(","))):
                assert re.search(rf"^export (?:async )?(?:function|class|const) {re.escape(name)}\b|^export const \$",
                                 (FOLDER / source).read_text("utf-8"), re.MULTILINE), (module.name, name)  # fmt: skip
                assert len(re.findall(rf"(?<![\w$.]){re.escape(name)}(?![\w$])", text)) > 1, (module.name, name)
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here to parse the modules one by one")
    (tmp_path / "all.mjs").write_text(script, "utf-8")
    for path in (*FOLDER.glob("*.js"), tmp_path / "all.mjs"):
        copy = tmp_path / f"{path.stem}.mjs"
        copy.write_text(path.read_text("utf-8"), "utf-8")
        subprocess.run([node, "--check", str(copy)], check=True)


def test_words(chromium: Browser) -> None:
    """Times, shares and files as they are shown, at the ends of each unit."""
    page = chromium.new_page()
    script = f"([name, calls]) => {{ {inline('format.js')}; const functions = {{ time, percent, place, origin }};"

    def words(function: str, *arguments: tuple[object, ...]) -> list[Any]:
        given = [list(one) if isinstance(one, tuple) else [one] for one in arguments]
        shown = page.evaluate(f"{script} return calls.map((one) => functions[name](...one)) }}", [function, given])
        return [word.replace("\u00a0", " ") if isinstance(word, str) else word for word in shown]

    times = [0, 1, 999, 1000, 12_340, 999_499, 999_500, 1_500_000_000, 119_900_000_000, 150_000_000_000, 9 * 10**12]
    assert words("time", *((ns,) for ns in times)) == [
        "0 s", "1 ns", "999 ns", "1.00 µs", "12.3 µs", "999 µs", "1.00 ms",
        "1.50 s", "120 s", "2 min 30 s", "2 h 30 min",
    ]  # fmt: skip
    shares = [(0, 0), (0, 5), (5, 5), (1, 3), (1, 1500), (1, 1e6), (99_999, 100_000)]
    assert words("percent", *shares) == ["0 %", "0 %", "100 %", "33.3 %", "0.07 %", "< 0.01 %", "100.0 %"]
    files = [
        ("/v/lib/python3.13/site-packages/numpy/core/f.py", "package", "numpy", "numpy/core/f.py"),
        ("/usr/lib64/python3.13t/json/decoder.py", "standard", "json", "json/decoder.py"),
        ("<frozen importlib._bootstrap>", "standard", "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
        ("/srv/app/main.py", "own", "/srv/app/main.py", "main.py"),
    ]
    origins = words("origin", *((file,) for file, *_ in files))
    assert [(o["kind"], o["group"], o["short"]) for o in origins] == [tuple(rest) for _, *rest in files]
    page.close()


def test_numbers_come_out_of_the_container_as_they_went_in(chromium: Browser) -> None:
    """Every width and code, at its ends, and empty columns."""
    random = Random(1)
    columns = {
        "bytes": ([0, 255, 7], pack.PLAIN),
        "two": ([0, 256, 65_535], pack.PLAIN),
        "four": ([1 << 31, (1 << 32) - 1, 0], pack.PLAIN),
        "eight": ([1 << 52, 0, 3], pack.PLAIN),
        "signed": ([0, -1, 1, -2, 1 << 40, -(1 << 40)], pack.ZIGZAG),
        "delta": ([random.randrange(1 << 30) for _ in range(1000)], pack.DELTA),
        "none": ([], pack.PLAIN),
    }
    packer = pack.Packer()
    for name, (values, code) in columns.items():
        packer.add(name, values, code)
    page = chromium.new_page()
    read = page.evaluate(
        f"""async ([text, names]) => {{ {inline("data.js")}
        const data = await unpack(text);
        return [data.head.greeting, names.map((name) => [...data.column(name)])] }}""",
        [packer.text({"greeting": "日本 </script>"}), list(columns)],
    )
    assert read == ["日本 </script>", [values for values, _ in columns.values()]]
    page.close()


def unpacked(data: str) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """The container, read by its description in pack.py and not by its code."""
    raw = zlib.decompress(base64.b64decode(data))
    end = 4 + int.from_bytes(raw[:4], "little")
    head = json.loads(raw[4:end])
    columns = {}
    for name, count, width, code in head["columns"]:
        part, end = raw[end : end + count * width], end + count * width
        numbers = [sum(part[plane * count + i] << 8 * plane for plane in range(width)) for i in range(count)]
        if code:
            numbers = [-(n + 1) // 2 if n & 1 else n // 2 for n in numbers]
        if code == 2:
            for i in range(1, count):
                numbers[i] += numbers[i - 1]
        columns[name] = numbers
    assert end == len(raw)
    return head, columns


def test_too_many_runs_are_added_up_and_nothing_is_lost(
    open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN more runs than rows WHEN they are sliced THEN all sums are exact, by thread, state and stack."""
    recording = random_recording(4, 3000)
    path = recording.write(tmp_path / "x.weft")
    monkeypatch.setattr(timeline, "MAX_ROWS", 500)
    monkeypatch.setattr(timeline, "MAX_SLICED", 300)
    with Capture(path) as capture:
        head, columns = unpacked(content(capture, View(idle=True)))
    assert head["sliceUs"] > 0
    assert len(columns["row.stack"]) < 3000
    for kind in ("row", "total"):
        threads = columns["total.thread"] if kind == "total" else [
            thread for thread, count in enumerate(columns["row.count"]) for _ in range(count)
        ]  # fmt: skip
        sums: dict[tuple[int, int], list[int]] = {}
        for thread, state, weight, ticks in zip(
            threads, columns[f"{kind}.state"], columns[f"{kind}.weight"], columns[f"{kind}.ticks"], strict=True
        ):
            one = sums.setdefault((thread, state), [0, 0])
            one[0] += weight * 1000
            one[1] += ticks
        expected: dict[tuple[int, int], list[int]] = {}
        for seen in recording.seen:
            one = expected.setdefault((seen.thread - 1, int(seen.state)), [0, 0])
            one[0] += seen.weight_ns
            one[1] += seen.ticks
        assert sums == expected, kind
    page = open_page(path)
    shown = page.rows
    truth = costs(recording.chosen())
    assert {key: shown[key[0], f"{key[1]}:{key[2]}"] for key in truth} == {
        key: pytest.approx(values, abs=0.051) for key, values in truth.items()
    }
    page.drag("#overview", 0.0, 0.5)
    assert "[pruned: too rare to be told apart]" in {name for name, _ in page.rows}
    assert "order of time is kept to" in page.text("#account pre")


def test_rare_stacks_are_pruned_and_shown_with_their_weight(tmp_path: Path) -> None:
    """GIVEN one heavy and 100 rare stacks WHEN 12 may stay THEN the time of the others is their caller's, and told."""
    recording = Recording()
    recording.add("main heavy", 900)
    for i in range(100):
        recording.add(f"main rare rare_{i}", 1)
    with Capture(recording.write(tmp_path / "x.weft")) as capture:
        profile = Profile.from_capture(capture)
    cut = prefix.prefix(profile, most=3)
    names = [profile.frames[f].function if 0 <= f < len(profile.frames) else "-" for f in cut.frame]
    weights = [0] * len(cut.frame)
    for total in profile.totals:
        weights[cut.place[total.stack]] += total.weight_ns // MS
    told = {(names[cut.parent[i]] if cut.parent[i] >= 0 else "", names[i]): w for i, w in enumerate(weights) if w}
    assert told == {("main", "heavy"): 900, ("rare", "-"): 100}
    assert (cut.pruned, cut.pruned_ns) == (100, 100 * MS)


@pytest.mark.parametrize("most", [5, 40, 10_000])
def test_stacks_are_in_preorder(tmp_path: Path, most: int) -> None:
    """A caller is on the path to the stack before, however much is cut, and the place of all time is there."""
    with Capture(random_recording(8).write(tmp_path / "x.weft")) as capture:
        profile = Profile.from_capture(capture, View(idle=True))
    cut = prefix.prefix(profile, most=most, coarse=3)
    path: list[int] = []
    for place, parent in enumerate(cut.parent):
        while path and path[-1] != parent:
            path.pop()
        assert bool(path) == (parent >= 0)
        path.append(place)
    assert all(0 <= cut.place[total.stack] < len(cut.parent) for total in profile.totals)
    assert len(cut.parent) <= 2 * most + 3 + 1


def test_50_000_stacks_are_a_few_megabytes_and_work(open_page: OpenPage, tmp_path: Path) -> None:
    random = Random(7)
    functions = [frame(f"function_{i}", f"/srv/module_{i % 60}.py", i, i) for i in range(1, 3000)]
    stacks = [()]
    recording = Recording()
    while len(stacks) < 50_000:
        stack = (*random.choice(stacks[-300:] if random.random() < 0.5 else stacks)[-60:], random.choice(functions))
        stacks.append(stack)
        recording.seen.append(Seen(stack, random.randint(1, 1000) * 1000))
    page = open_page(recording)
    assert Path(page.url.removeprefix("file://")).stat().st_size < 3_000_000
    page.click(0.01, 1)
    assert len(page.crumbs) == 2
    for choice in (("inverted", "yes"), ("merge", "line"), ("root", "bottom")):
        page.choose(*choice)
    assert page.text("#selected").startswith("alltime ")
