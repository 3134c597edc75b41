"""A model on loopback that follows a script: it calls what the script says, and reads on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast
from urllib.parse import urlsplit

from dialects import Heard, Reply, choose_dialect

Script = Callable[[Heard], Reply]


class ScriptedModel(ThreadingHTTPServer):
    """Serves on a free port for as long as the block lasts; keeps every request."""

    daemon_threads = True

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Endpoint)
        self.heard: list[Heard] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._script = script
        self._lock = threading.Lock()

    def reply_to(self, heard: Heard) -> Reply:
        """One request at a time, so that the script sees them in order."""
        with self._lock:
            self.heard.append(heard)
            return self._script(heard)

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": "scripted", "object": "model"}]}
        self._send(200 if self.path.endswith("/models") else 404, models)

    def do_HEAD(self) -> None:
        self._send(200, {})

    def do_POST(self) -> None:
        body, path = self._read(), urlsplit(self.path).path
        dialect = choose_dialect(path)
        if dialect is None:  # all that is asked beside the talk is how long it is
            tokens = len(json.dumps(body)) // 4
            self._send(200, {"input_tokens": tokens, "totalTokens": tokens})
            return
        heard = dialect.hear(path, body)
        kind, parts = dialect.say(cast("ScriptedModel", self.server).reply_to(heard), heard)
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()
        for part in parts:
            self.wfile.write(part)
            self.wfile.flush()
        self.close_connection = True

    def _read(self) -> dict[str, Any]:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(data)
        except ValueError:
            return {}
        return body if isinstance(body, dict) else {}

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Nothing: what was said is in the requests."""
