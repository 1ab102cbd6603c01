"""A webhook on a free port that answers as badly as services do, and keeps what it saw."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answerer = Callable[[int], str]
"""Request number, from 0, to one of the behaviours of `Receiver`."""


@dataclass
class Receiver:
    """A webhook on a free port; keeps every request that it accepted and every one that it saw."""

    answer: Answerer
    seen: list[dict[str, Any]] = field(default_factory=list)
    accepted: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    behaviours: list[str] = field(default_factory=list)
    moments: list[float] = field(default_factory=list)
    """When each request came, by `now`."""
    now: Callable[[], float] = time.monotonic
    redirected_to: str = "http://127.0.0.2:9/elsewhere"
    server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"http://127.0.0.1:{self.server.server_address[1]}/services/T000/B000/verysecretpath"

    def ids(self) -> list[str]:
        """The finding ids in the order in which they were accepted, repeats left in."""
        return [message["finding_id"] for body in self.accepted for message in body["messages"]]


class Handler(BaseHTTPRequestHandler):
    receiver: Receiver

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        raw = self.rfile.read(length)
        if len(raw) < length:  # the sender was killed in the middle: no server takes that for a request
            return
        body = json.loads(raw) if raw.startswith(b"{") else {"raw": raw.decode()}
        receiver = self.receiver
        behaviour = receiver.answer(len(receiver.seen))
        receiver.paths.append(self.path)
        receiver.behaviours.append(behaviour)
        receiver.moments.append(receiver.now())
        receiver.seen.append(body)
        receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
        getattr(self, f"_{behaviour}")(body)

    def _ok(self, body: dict[str, Any]) -> None:
        self.receiver.accepted.append(body)
        self._say(200, b"ok")

    def _ok_false(self, body: dict[str, Any]) -> None:
        self._say(200, b'{"ok": false, "error": "no_service"}')

    def _yes(self, body: dict[str, Any]) -> None:
        """A yes in the words of every service that has words for it."""
        self._say(200, b'{"ok": true, "errcode": 0, "errmsg": "ok", "code": 0, "msg": "success"}')

    def _errcode(self, body: dict[str, Any]) -> None:
        self._say(200, b'{"ok": false, "error": "ratelimited", "errcode": 45009, "code": 11232}')

    def _yes_unheard(self, body: dict[str, Any]) -> None:
        """Taken, and the answer is lost."""
        self.connection.shutdown(socket.SHUT_RDWR)

    def _400(self, body: dict[str, Any]) -> None:
        self._say(400, b"invalid_blocks")

    def _404(self, body: dict[str, Any]) -> None:
        self._say(404, b"no_team")

    def _429(self, body: dict[str, Any]) -> None:
        self._say(429, b"rate limited", {"Retry-After": "7"})

    def _500(self, body: dict[str, Any]) -> None:
        self._say(500, b"oops")

    def _redirect(self, body: dict[str, Any]) -> None:
        self._say(302, b"", {"Location": self.receiver.redirected_to})

    def _hang(self, body: dict[str, Any]) -> None:
        """Says nothing until the other end has had enough."""
        self.connection.settimeout(60)
        with contextlib.suppress(OSError):
            self.connection.recv(1)
        self.close_connection = True

    def _close(self, body: dict[str, Any]) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)

    def _echo_secret(self, body: dict[str, Any]) -> None:
        self._say(403, f"forbidden: {self.path}".encode())

    def _echo_body(self, body: dict[str, Any]) -> None:
        self._say(400, body["messages"][0]["links"]["snooze"].encode())

    def __getattr__(self, name: str) -> Any:
        """`_pad_N`: N characters, then the address."""
        if name.startswith("_pad_"):
            room = int(name.removeprefix("_pad_"))
            return lambda _: self._say(400, b"x" * room + self.path.encode())
        raise AttributeError(name)

    def _say(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


@contextlib.contextmanager
def receivers() -> Iterator[Callable[..., Receiver]]:
    """Starts receivers, and stops them at the end of the block."""
    started: list[tuple[ThreadingHTTPServer, threading.Thread]] = []

    def start(answer: Answerer = lambda _: "ok") -> Receiver:
        receiver = Receiver(answer=answer)
        handler = type("BoundHandler", (Handler,), {"receiver": receiver})
        receiver.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        thread = threading.Thread(target=receiver.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        started.append((receiver.server, thread))
        return receiver

    try:
        yield start
    finally:
        for server, thread in started:
            server.shutdown()
            thread.join()
            server.server_close()
