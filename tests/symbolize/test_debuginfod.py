"""Debug files from a server of debuginfod's protocol: a real one, which answers as it should, or in no other way."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from lines import ALL_LINES, compile_library, frames_of, lines_of, newest, separate, share
from running import StartTarget
from weft_command import LIMIT_S, run_weft, running_weft, wait_until

from weft.symbolize.debuginfod import Debuginfod
from weft.symbolize.resolver import Resolver
from weft.target.code import CodeModule

Answer = Callable[[BaseHTTPRequestHandler], None]


class Server:
    """A server on a port of its own. `answers`: what it does for a path; other paths are not found."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.ended = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                if self.path in server.answers:
                    server.answers[self.path](self)
                else:
                    self.send_error(404)

            def log_message(self, *arguments: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def sleep(self) -> None:
        """Do nothing until the test has ended."""
        self.ended.wait(LIMIT_S)


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        server.http.shutdown()
        thread.join()
        server.http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as one:
        yield one


def sends(data: bytes, length: int | None = None) -> Answer:
    """An answer that says that it has `length` bytes."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(data) if length is None else length))
        request.end_headers()
        request.wfile.write(data)

    return answer


def build_id_of(file: Path) -> str:
    notes = subprocess.run(["readelf", "-n", file], capture_output=True, text=True, check=True).stdout
    return notes.partition("Build ID: ")[2].split()[0]


@pytest.fixture
def stripped(tmp_path: Path) -> tuple[Path, str, bytes]:
    """A stripped library, its build-id, and the bytes of its debug file, which is nowhere."""
    library = compile_library(tmp_path, "-g", "-Wl,--build-id=sha1")
    debug = separate(library, tmp_path)
    data = debug.read_bytes()
    debug.unlink()
    return library, build_id_of(library), data


def settings(folder: Path, *servers: str, **others: str) -> dict[str, str]:
    """The environment of a weft that has a cache of its own."""
    return {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "DEBUGINFOD_URLS": " ".join(servers), **others}


def test_dump(start_target: StartTarget, tmp_path: Path, stripped: tuple[Path, str, bytes], server: Server) -> None:
    """GIVEN a stripped library, a server without its debug file and one with it THEN functions and lines are told;
    with no server they are not; and once they were told they are told without asking again."""
    library, build_id, data = stripped
    path = f"/buildid/{build_id}/debuginfo"
    target = start_target(newest(), "lines.py", library)
    assert lines_of(target.pid, env=settings(tmp_path)) != ALL_LINES
    server.answers[path] = sends(data)
    with serving() as other:
        assert lines_of(target.pid, env=settings(tmp_path, other.url, f"{server.url}/")) == ALL_LINES
    assert path in other.asked
    assert server.asked.count(path) == 1
    assert lines_of(target.pid, env=settings(tmp_path, server.url)) == ALL_LINES
    assert server.asked.count(path) == 1


def test_record(start_target: StartTarget, tmp_path: Path, stripped: tuple[Path, str, bytes], server: Server) -> None:
    """GIVEN a recording THEN servers are asked only once sampling has ended; what they have is in the capture."""
    library, build_id, data = stripped
    server.answers[f"/buildid/{build_id}/debuginfo"] = sends(data)
    target = start_target(newest(), "lines.py", library)
    capture = tmp_path / "run.weft"
    with running_weft("record", "-p", target.pid, "-o", capture, env=settings(tmp_path, server.url)) as weft:
        wait_until(
            lambda: len(frames_of(capture, library)) >= 3 or weft.poll() is not None, "weft has sampled the library"
        )
        assert not server.asked
        target.finish()
        weft.communicate(timeout=LIMIT_S)
    assert weft.returncode == 0
    assert set(frames_of(capture, library)) == set(ALL_LINES)


def endless(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    try:
        while True:
            request.wfile.write(bytes(1 << 16))
    except OSError:
        pass  # the client has gone


def test_bad_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stripped: tuple[Path, str, bytes]) -> None:
    """GIVEN servers that send another build's file, a part of it, no end, nothing, or an error THEN each is told in one
    line and asked no more, nothing of it is kept, and the next one is asked."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _, build_id, data = stripped
    path = f"/buildid/{build_id}/debuginfo"
    with ExitStack() as stack:
        servers = [stack.enter_context(serving()) for _ in range(6)]
        wrong, cut, short, long, slow, mad = servers
        wrong.answers[path] = sends(data.replace(bytes.fromhex(build_id), bytes(20)))
        cut.answers[path] = sends(data[: len(data) // 2])
        short.answers[path] = sends(data[:-1], len(data))
        long.answers[path] = endless
        slow.answers[path] = lambda request: slow.sleep()
        mad.answers[path] = lambda request: request.send_error(500)
        urls = [*(each.url for each in servers), "file:///etc", "http://127.0.0.1:1", "http://[", "gibberish"]
        environment = {
            "DEBUGINFOD_URLS": " ".join(urls),
            "DEBUGINFOD_TIMEOUT": "1",
            "DEBUGINFOD_MAXSIZE": str(1 << 20),
        }
        debuginfod = Debuginfod(environment)
        assert debuginfod.debug_file(build_id) is None
        assert debuginfod.debug_file(build_id) is None
        assert [len(each.asked) for each in servers] == [1] * len(servers)
        warnings = debuginfod.warnings
        assert len(warnings) == len(urls)
        for warning, url in zip(warnings, urls, strict=True):
            assert url in warning
            assert "\n" not in warning
        for warning, word in zip(
            warnings, ["another file", "another file", "bytes", "MAXSIZE", "timed out", "500"], strict=False
        ):
            assert word in warning
        assert list((tmp_path / "cache/weft/debuginfod").iterdir()) == []


def test_dripping_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    """GIVEN a server that sends a byte now and then, so that no single read takes long THEN it is given up."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        try:
            while not server.ended.wait(0.05):
                request.wfile.write(b"\x7f")
        except OSError:
            pass  # the client has gone

    server.answers["/buildid/ab12/debuginfo"] = drip
    debuginfod = Debuginfod({"DEBUGINFOD_URLS": server.url, "DEBUGINFOD_TIMEOUT": "0.5"})
    assert debuginfod.debug_file("ab12") is None
    (warning,) = debuginfod.warnings
    assert "DEBUGINFOD_TIMEOUT" in warning


def test_a_damaged_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stripped: tuple[Path, str, bytes], server: Server
) -> None:
    """GIVEN a kept file that is damaged THEN it is asked for again."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    _, build_id, data = stripped
    server.answers[f"/buildid/{build_id}/debuginfo"] = sends(data)
    debuginfod = Debuginfod({"DEBUGINFOD_URLS": server.url})
    for _ in range(2):
        file = debuginfod.debug_file(build_id)
        assert file
        assert file.read(0, file.size) == data
        file.close()
        (kept,) = (tmp_path / "cache/weft/debuginfod").iterdir()
        kept.write_bytes(b"damaged")
    assert len(server.asked) == 2
    assert debuginfod.warnings == []


def test_the_warning_is_told(
    start_target: StartTarget, tmp_path: Path, stripped: tuple[Path, str, bytes], server: Server
) -> None:
    """GIVEN a server that fails THEN a dump tells so in one line, however many modules it was asked for."""
    server.http.server_close()
    target = start_target(newest(), "lines.py", stripped[0])
    run = run_weft("dump", target.pid, env=settings(tmp_path, server.url))
    assert run.returncode == 0
    assert run.stdout.count(f"warning: debuginfod server {server.url} is left out") == 1


def test_a_module_that_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stripped: tuple[Path, str, bytes], server: Server
) -> None:
    """GIVEN a module whose file has gone, and a server that has it alone THEN what it exports has names."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library, build_id, _ = stripped
    server.answers[f"/buildid/{build_id}/executable"] = sends(library.read_bytes())
    rows = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True).stdout.splitlines()
    address = next(int(row.split()[0], 16) for row in rows if row.endswith(" T entry"))
    module = CodeModule(1, str(library), build_id)
    resolver = Resolver(module, Debuginfod({"DEBUGINFOD_URLS": server.url}))
    assert resolver.at(address)[0].function == "entry"
    assert module.problems == []
    assert [path.rpartition("/")[2] for path in server.asked] == ["debuginfo", "executable"]
    nowhere = CodeModule(2, str(library), "12" * 20)
    assert Resolver(nowhere, Debuginfod({"DEBUGINFOD_URLS": server.url})).at(address)[0].function == f"{address:#x}"
    assert len(nowhere.problems) == 1


def test_shared_debug_information(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    """GIVEN a debug file from which dwz has moved names into another one, both on a server alone THEN all functions are
    told."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library, shared = share(tmp_path)
    symbols = subprocess.run(["nm", "-S", library], capture_output=True, text=True, check=True).stdout
    begin, size = next((int(at, 16), int(size, 16)) for at, size in re.findall(r"(\w+) (\w+) t outlined", symbols))
    debug = separate(library, tmp_path)
    for file in (debug, shared):
        server.answers[f"/buildid/{build_id_of(file)}/debuginfo"] = sends(file.read_bytes())
        file.unlink()
    module = CodeModule(1, str(library), build_id_of(library))
    with closing(Resolver(module, Debuginfod({"DEBUGINFOD_URLS": server.url}))) as resolver:
        functions = {frame.function for at in range(begin, begin + size) for frame in resolver.at(at)}
    assert functions == {"outlined", "inlined", "inlined_twice"}
    assert module.problems == []
