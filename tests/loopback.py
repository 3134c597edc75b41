"""HTTP servers on loopback that tests talk to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from typing import Any, TypeVar

S = TypeVar("S", bound=HTTPServer)


@contextmanager
def running(server: S) -> Iterator[S]:
    """Serve in a thread for as long as the block lasts."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Exchange(BaseHTTPRequestHandler):
    """One request and its reply, of which nothing is logged."""

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def answer(self) -> None:
        """Answer the request, of whichever method."""
        raise NotImplementedError

    def read_json(self) -> Any:
        """What was sent."""
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def reply(self, status: int, data: bytes, **headers: str) -> None:
        """Answer with these bytes."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class LoopbackServer(ThreadingHTTPServer):
    """A server on a free port; who still waits for an answer does not hold up its end."""

    daemon_threads = True

    def __init__(self, exchange: type[Exchange]) -> None:
        super().__init__(("127.0.0.1", 0), exchange)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"
