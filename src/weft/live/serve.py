"""Serves the report of a capture on loopback, to whoever has the token, and to no other page of a browser.

Nothing is served from the disk: what can be asked for are four things by their exact names. The token is part of every
address, rather than a cookie, which a browser would show to all servers of this machine.
"""

from __future__ import annotations

import re
import secrets
import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl

from weft.errors import CaptureError
from weft.live.feed import Feed
from weft.report.html.focus import Focus
from weft.report.html.page import assemble_served

ADDRESS: Final = "127.0.0.1"
MOST_PATH: Final = 10_000  # frames of a focus
_NUMBER: Final = re.compile(r"[0-9]{1,15}", re.ASCII)
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_NO_CONTENT_POLICY: Final = "default-src 'none'; frame-ancestors 'none'"


class Server(ThreadingHTTPServer):
    """The server of one feed. It listens from the start on, and answers once serve_forever() runs."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, feed: Feed, port: int = 0) -> None:
        """Raises OSError if the port cannot be had; 0: any one."""
        self.feed = feed
        self.token = secrets.token_urlsafe(32)
        self._ticket = secrets.token_urlsafe(32)
        page, policy = assemble_served(feed.title())
        self.page = page.encode("utf-8", "backslashreplace")
        self.policy = f"{policy}; frame-ancestors 'none'"
        super().__init__((ADDRESS, port), Handler)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.server_port}/{self.token}/"

    @property
    def ticket_url(self) -> str:
        """The same, once: for a browser's command line, which other users of the machine can read."""
        return f"http://{ADDRESS}:{self.server_port}/{self._ticket}"

    def is_ticket(self, word: str) -> bool:
        """Whether the word is the ticket, which is no longer valid then."""
        if not (self._ticket and _equal(word, self._ticket)):
            return False
        self._ticket = ""
        return True

    def is_token(self, word: str) -> bool:
        """Whether the word is the token."""
        return _equal(word, self.token)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that broke off."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One request. Everything that is refused is told in one line."""

    server: Server
    timeout = 30  # seconds, for a request to come
    default_request_version = "HTTP/1.0"  # of what is no request, too: it is told by a status
    server_version = "weft"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer, or refuse."""
        if not self._is_ours():
            self._refuse(403, "this server answers its own page only")
            return
        path, _, query = self.path.partition("?")
        empty, token, *rest = path.split("/") if path.startswith("/") else ("", "")
        if not rest and self.server.is_ticket(token):
            self._answer(303, b"", {"Location": f"/{self.server.token}/"})
        elif empty or not self.server.is_token(token):
            self._refuse(403, "the address has no valid token: take the one that weft view has printed")
        elif rest == [""]:
            self._page()
        elif rest == ["data"]:
            self._data(query)
        elif rest == ["source"]:
            self._source(query)
        else:
            self._refuse(404, "there is nothing of this name")

    def _is_ours(self) -> bool:
        """Whether a browser would say that the page which asks is this server's, or that it is a person who asks."""
        port = self.server.server_port
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0] not in (f"{ADDRESS}:{port}", f"localhost:{port}"):
            return False
        return self.headers.get_all("Origin", []) in ([], [f"http://{hosts[0]}"])

    def _page(self) -> None:
        headers = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": self.server.policy}
        self._answer(200, self.server.page, headers)

    def _data(self, query: str) -> None:
        try:
            have, focus = _asked(query)
            told = self.server.feed.data(have, focus)
        except (ValueError, IndexError):
            self._refuse(400, "there is no such place in this capture")
        except CaptureError as error:
            self._refuse(500, str(error))
        else:
            quiet = {"Weft-Quiet-S": f"{self.server.feed.quiet_s():.0f}"}
            if told is None:
                self._answer(204, b"", quiet)
            else:
                self._answer(200, told.data, {"Content-Type": "application/octet-stream", **quiet})

    def _source(self, query: str) -> None:
        try:
            text = self.server.feed.source(
                _number(dict(parse_qsl(query, strict_parsing=True, keep_blank_values=True)).get("file", ""))
            )
        except (ValueError, IndexError):
            self._refuse(404, "there is no such source in this capture")
        except CaptureError as error:
            self._refuse(500, str(error))
        else:
            self._answer(200, text.encode(), {"Content-Type": "text/plain; charset=utf-8"})

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what the base class finds no request: in one line, which quotes nothing of it."""
        if code == 501:  # of a method that there is no do_ for
            self._refuse(405, "only GET is answered")
        else:
            self._refuse(code, "this is no request that can be answered")

    def _refuse(self, code: int, why: str) -> None:
        headers = {"Content-Type": "text/plain; charset=utf-8", "Allow": "GET"}
        self._answer(code, f"weft: {why}\n".encode(errors="backslashreplace"), headers)

    def _answer(self, code: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(code)
        all_headers = {"Content-Security-Policy": _NO_CONTENT_POLICY, **_HEADERS, **(headers or {})}
        for name, value in {**all_headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the terminal is the user's."""


def _asked(query: str) -> tuple[str, Focus]:
    """What data are asked for: ?have=VERSION&path=FRAME.FRAME&from=US&to=US. ValueError."""
    words = _words(query)
    if words.keys() - {"have", "path", "from", "to"} or ("from" in words) != ("to" in words):
        raise ValueError("no such words")
    path = tuple(_number(word) for word in words["path"].split(".")) if "path" in words else ()
    if len(path) > MOST_PATH:
        raise ValueError("the path is too long")
    window = (_number(words["from"]), _number(words["to"])) if "from" in words else None
    if window and window[0] >= window[1]:
        raise ValueError("the stretch of time is empty")
    return words.get("have", ""), Focus(path, window)


def _words(query: str) -> dict[str, str]:
    return dict(parse_qsl(query, strict_parsing=True, keep_blank_values=True)) if query else {}


def _number(word: str) -> int:
    if not _NUMBER.fullmatch(word):
        raise ValueError("no number")
    return int(word)


def _equal(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(errors="backslashreplace"), other.encode())
