"""Names from a target: short where a reader knows the rest, and harmless wherever they are printed."""

from __future__ import annotations

import pytest
from capture.builder import frame
from hypothesis import given
from hypothesis import strategies as st

from weft.capture import Process
from weft.profile.names import escape, frame_label, process_name, short_file
from weft.profile.units import amount, duration, share, size
from weft.symbolize.kernel import kernel_frame


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("/usr/lib/python3.11/threading.py", "threading.py"),
        ("/usr/lib/python3.11/json/decoder.py", "json/decoder.py"),
        ("/home/u/venv/lib/python3.11/site-packages/numpy/core/x.py", "numpy/core/x.py"),
        ("/home/u/venv/lib64/python3.13t/site-packages/numpy/x.py", "numpy/x.py"),
        ("/usr/lib/python3/dist-packages/apt/cache.py", "apt/cache.py"),
        ("/usr/lib/python2.7/os.py", "os.py"),
        ("/srv/app/views.py", "views.py"),
        ("app.py", "app.py"),
        ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
        ("<a/b>", "<a/b>"),
        ("", ""),
        ("/", "/"),
        ("/usr/lib/python3.11/", "python3.11"),
        ("/opt/libpython3.11/x.py", "x.py"),
    ],
)
def test_short_files(path: str, short: str) -> None:
    assert short_file(path) == short


def test_a_label_has_its_line_where_there_is_one() -> None:
    assert frame_label(frame("f", 7, "/srv/app.py")) == "f (app.py:7)"
    assert frame_label(frame("f", 0, "<string>")) == "f (<string>)"
    assert frame_label(frame("größe", 7, "/srv/naïve.py")) == "größe (naïve.py:7)"
    assert frame_label(kernel_frame("vfs_read")) == "vfs_read [k]"
    assert frame_label(kernel_frame("ext4_read [ext4]")) == "ext4_read [k]"
    assert frame_label(kernel_frame("[kernel]")) == "[kernel]"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("a\nb\r\tc\x85d", r"a\x0ab\x0d\x09c\x85d"),
        ("\u202egnp.exe\u2066", r"\u202egnp.exe\u2066"),  # right-to-left override: shows text backwards
        ("\u2028\udcff\U000e0001", r"\u2028\udcff\U000e0001"),
        ("日本語 größe", "日本語 größe"),
    ],
)
def test_what_could_steer_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert escape(text) == shown


@given(st.text())
def test_escaped_text_is_one_printable_line(text: str) -> None:
    assert escape(text).isprintable()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/usr/bin/python3.11", "/srv/app.py", "-v"], "app.py"),
        (["python3", "-X", "dev", "-Wd", "-W", "error", "dir/app.py"], "app.py"),
        (["python3", "-m"], "python3"),
        (["python3", "-u", "-m", "http.server"], "http.server"),
        (["python3", "-c", "print(1)"], "python3"),
        (["python3"], "python3"),
        (["/usr/sbin/uwsgi", "--ini", "x"], "uwsgi"),
        (["\x1b[2J"], r"\x1b[2J"),
        ([], "process 7"),
    ],
)
def test_process_names(command: list[str], name: str) -> None:
    assert process_name(Process(1, 7, None, tuple(command), None, 0, None, None)) == name


def test_numbers_as_a_reader_likes_them() -> None:
    times = (0, 999, 21_000, 999_500, 1_250_000_000, 99_000_000_000, 200_000_000_000, 4_000_000_000_000)
    shown = ["0 s", "999 ns", "21.0 µs", "1.00 ms", "1.25 s", "99.0 s", "3 min 20 s", "1 h 6 min"]
    assert [duration(time) for time in times] == shown
    sizes = (0, 1023, 1024, 512 << 10, 1_048_000, 1_048_100, 5 << 30, 3 << 50)
    shown = ["0 B", "1023 B", "1.00 KiB", "512 KiB", "1023 KiB", "1.00 MiB", "5.00 GiB", "3.00 PiB"]
    assert [size(count) for count in sizes] == shown
    shares = [(0, 0), (0, 5), (1, 9_999), (1, 1_000), (999, 1_000), (9_998, 9_999), (5, 5)]
    shown = ["0 %", "0 %", "<0.1 %", "0.1 %", "99.9 %", ">99.9 %", "100 %"]
    assert [share(part, whole) for part, whole in shares] == shown
    assert [amount(count, "sample") for count in (1, 0, 2000)] == ["1 sample", "0 samples", "2,000 samples"]
