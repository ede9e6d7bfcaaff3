"""Who gets an answer from weft view: its own page, and whoever has the address; nobody else, whatever is asked."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest
from report_recordings import Recording
from weft_command import assert_one_line, run_weft

from weft.live.feed import Feed
from weft.live.serve import Server
from weft.profile.tables import View

Answer = tuple[int, dict[str, str], bytes]  # status, headers, body


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """The server of a capture, running in a thread."""
    recording = Recording(sources={"/srv/app.py": "a = 1\n" * 20})
    recording.add("main work", 10)
    feed = Feed(recording.write(tmp_path / "x.weft"), View())
    with Server(feed) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
    feed.close()


def ask(server: Server, request: bytes) -> Answer:
    """Sends bytes as they are; gives status, headers and body of the answer."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    return int(status.split()[1]), dict(line.split(": ", 1) for line in lines), body


def get(server: Server, path: str, *headers: str, host: str = "", method: str = "GET") -> Answer:
    """A request as a browser makes it, with more headers."""
    host = host or f"127.0.0.1:{server.server_port}"
    return ask(server, "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode("latin-1"))


def assert_refused(answer: Answer, *statuses: int) -> None:
    """One line of plain text, with nothing of the capture in it."""
    status, headers, body = answer
    assert status in statuses
    assert headers["Content-Type"].startswith("text/plain")
    assert body.startswith(b"weft: ")
    assert body.count(b"\n") == 1
    assert b"main" not in body


def test_with_the_token(server: Server) -> None:
    status, headers, page = get(server, f"/{server.token}/")
    assert status == 200
    assert b"<title>" in page
    assert server.token.encode() not in page
    policy = headers["Content-Security-Policy"]
    for directive in ("default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "form-action 'none'"):
        assert directive in policy
    assert "unsafe" not in policy
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in headers
    assert get(server, f"/{server.token}/data")[0] == 200
    assert get(server, f"/{server.token}/data?have=1")[0] == 204
    own = f"Origin: http://127.0.0.1:{server.server_port}"
    assert get(server, f"/{server.token}/data", own)[0] == 200
    assert get(server, f"/{server.token}/", host=f"localhost:{server.server_port}")[0] == 200


def test_a_token_of_another_server_is_none(server: Server, tmp_path: Path) -> None:
    assert len(server.token) >= 43, "256 bits"
    feed = Feed(tmp_path / "x.weft", View())
    with Server(feed) as other:
        assert other.token != server.token
        assert_refused(get(server, f"/{other.token}/data"), 403)
    feed.close()


def test_without_the_token(server: Server) -> None:
    token = server.token
    for path in (
        "/",
        "/data",
        "//data",
        f"/{token[:-1]}/",
        f"/{token}x/data",
        f"/{token.swapcase()}/",
        "/favicon.ico",
        "/%00/",
        f"/data?token={token}",
        "/é/",
        "/" + "a" * 60_000,
    ):
        assert_refused(get(server, path), 403)
    assert_refused(get(server, "/", f"Cookie: token={token}", f"Authorization: Bearer {token}"), 403)


def test_under_another_name(server: Server) -> None:
    """A name that an attacker has made to mean 127.0.0.1 (DNS rebinding), even one who knew the token."""
    port = server.server_port
    for host in (
        "evil.example",
        f"evil.example:{port}",
        "127.0.0.1",
        "localhost",
        f"127.0.0.1:{port + 1}",
        f"127.0.0.2:{port}",
        f"127.0.0.1:{port}@evil.example",
        f"[::1]:{port}",
        f"LOCALHOST.:{port}",
        " ",
    ):
        assert_refused(get(server, f"/{server.token}/data", host=host), 403)
    assert_refused(get(server, f"/{server.token}/data", "Host: evil.example"), 403)
    assert_refused(ask(server, f"GET /{server.token}/data HTTP/1.1\r\n\r\n".encode()), 403)


def test_from_another_page(server: Server) -> None:
    """Whatever page a browser shows beside ours: it says whose page asks."""
    port = server.server_port
    for origin in (
        "https://evil.example",
        "null",
        "",
        f"http://127.0.0.1:{port + 1}",
        f"https://127.0.0.1:{port}",
        f"http://localhost:{port}",
        f"http://127.0.0.1:{port}.evil.example",
    ):
        assert_refused(get(server, f"/{server.token}/data", f"Origin: {origin}"), 403)
    own = f"http://127.0.0.1:{port}"
    assert_refused(get(server, f"/{server.token}/data", f"Origin: {own}", "Origin: https://evil.example"), 403)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "X-Y"])
def test_other_methods(server: Server, method: str) -> None:
    answer = get(server, f"/{server.token}/data", method=method)
    assert_refused(answer, 405)
    assert answer[1]["Allow"] == "GET"


def test_paths_outside(server: Server) -> None:
    """Nothing comes from the disk: there is no path that leads anywhere."""
    token = server.token
    for path in (
        "../../etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/etc/passwd",
        "....//etc/passwd",
        "/etc/passwd",
        "data/",
        "data/..",
        "./data",
        "data%00",
        "DATA",
        "main.js",
        "style.css",
        "x.weft",
        ".\\..\\x.weft",
        "%64ata",
    ):
        assert_refused(get(server, f"/{token}/{path}"), 404)
    assert_refused(get(server, f"/x/../{token}/data"), 403)
    assert_refused(get(server, f"http://127.0.0.1:{server.server_port}/{token}/data"), 403)
    assert_refused(get(server, f"/{token}"), 404)


def test_questions_that_make_no_sense(server: Server) -> None:
    token = server.token
    assert get(server, f"/{token}/data")[0] == 200
    for query in (
        "path=x",
        "path=1.",
        "path=-1",
        "path=999999",
        "path=" + ".".join("0" * 20_000),
        "from=1",
        "from=5&to=5",
        "from=1&to=x",
        "path=٣",
        "from=" + "9" * 5000 + "&to=1",
        "=",
        "a",
        "path=%ff",
    ):
        assert_refused(get(server, f"/{token}/data?{query.encode().decode('latin-1')}"), 400)
    for query in ("", "file=", "file=x", "file=-1", "file=99999", "file=/etc/passwd", "file=0&x"):
        assert_refused(get(server, f"/{token}/source?{query}"), 404)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\r\n\r\n", None),
        (b"", None),
        (b"\x00\x01\x02\xff\xfe", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"GET / HTTP/1.1 more\r\n\r\n", 400),
        (b"GET / FTP/1.1\r\n\r\n", 400),
        (b"A" * 100_000, 414),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nno colon here\r\n\r\n", 403),  # no Host
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),  # TLS
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n", 403),
        (b"GET /", 403),
        (b"GET /\r\n", 403),  # of HTTP/0.9, which has no headers
    ],
    ids=range(16),
)
def test_what_is_no_request(server: Server, request_: bytes, status: int | None) -> None:
    """It is refused with its status (RFC 9110, RFC 6585), or just ended, and the next one is answered."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as connection:
        try:
            connection.sendall(request_)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except OSError:  # what was not read of a long one ends the connection, and may take the answer along
            assert len(request_) > 5000
            answer = None
    if answer is not None:
        assert answer.startswith(b"HTTP/1.0 %d " % status) if status else answer == b""
        assert not status or (answer.endswith(b"\n") and b"main" not in answer)
    assert get(server, f"/{server.token}/data")[0] == 200


def test_whoever_leaves_early_does_no_harm(server: Server, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # ends by a reset
            connection.sendall(
                f"GET /{server.token}/ HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\n\r\n".encode()
            )
    waiting = socket.create_connection(("127.0.0.1", server.server_port), timeout=60)  # and says nothing
    assert get(server, f"/{server.token}/data")[0] == 200
    waiting.close()
    assert capfd.readouterr().err == ""


def test_a_ticket_leads_to_the_page_once(server: Server) -> None:
    """What stands on a browser's command line, which all users of the machine can read, is worth nothing afterwards."""
    path = urlsplit(server.ticket_url).path
    assert server.token not in server.ticket_url
    assert_refused(get(server, path, "Origin: https://evil.example"), 403)
    status, headers, _ = get(server, path)
    assert (status, headers["Location"]) == (303, f"/{server.token}/")
    assert_refused(get(server, path), 403)
    assert_refused(get(server, "/"), 403)


def test_only_on_loopback(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"


def test_no_capture_and_a_damaged_one_are_told_in_one_line(tmp_path: Path) -> None:
    assert "cannot read" in assert_one_line(run_weft("view", "--no-browser", tmp_path / "none.weft"))
    other = tmp_path / "text.weft"
    other.write_text("not a capture")
    assert "is no weft capture" in assert_one_line(run_weft("view", "--no-browser", other))
    recording = Recording()
    recording.add("main", 10)
    path = recording.write(tmp_path / "x.weft")
    path.write_bytes(path.read_bytes()[:-4096])
    assert "is damaged" in assert_one_line(run_weft("view", "--no-browser", path))


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    recording = Recording()
    recording.add("main", 10)
    path = recording.write(tmp_path / "x.weft")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        run: subprocess.CompletedProcess[str] = run_weft("view", "--no-browser", "-p", taken.getsockname()[1], path)
    assert "choose another --port" in assert_one_line(run)
