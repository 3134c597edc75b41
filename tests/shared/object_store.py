"""A small S3 server on loopback that can be slow, fail now and then, or refuse a key.

With an empty key it takes all callers, and so stands for Google Cloud Storage as well, whose XML
API differs in two headers.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import MutableMapping
from contextlib import nullcontext
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "team"


class ObjectStore(ThreadingHTTPServer):
    """Objects in memory or in another mapping; conditional writes, ranges, uploads in parts."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(
        self,
        objects: MutableMapping[str, Any] | None = None,
        *,
        failing: float = 0.0,
        delay_s: float = 0.0,
        key: str = "dev",
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.objects = {} if objects is None else objects
        self.parts: dict[str, dict[int, bytes]] = {}
        self.failing, self.delay_s, self.key = failing, delay_s, key
        self.random = random.Random(1)
        self.lock, self.counting = threading.Lock(), threading.Lock()
        self.requests = self.failed = self.bytes_sent = 0

    @property
    def environ(self) -> dict[str, str]:
        """What a client must be given to reach it."""
        return {
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_port}",
            "AWS_ALLOW_HTTP": "true",
        }


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer in one packet
    server: ObjectStore

    def do_GET(self) -> None:
        self._answer()

    do_PUT = do_HEAD = do_POST = do_DELETE = do_GET  # noqa: N815 - names of the base class

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        store, address = self.server, urlsplit(self.path)
        bucket, _, key = unquote(address.path).lstrip("/").partition("/")
        asked = {
            name: values[0]
            for name, values in parse_qs(address.query, keep_blank_values=True).items()
        }
        time.sleep(store.delay_s)
        with store.counting:
            store.requests += 1
            fails = store.random.random() < store.failing
            store.failed += fails
        with nullcontext() if self.command in ("GET", "HEAD") else store.lock:
            if fails:
                self._send(503, b"<Error><Code>SlowDown</Code></Error>")
            elif store.key and f"Credential={store.key}/" not in self.headers["Authorization"]:
                self._send(403, b"<Error><Code>InvalidAccessKeyId</Code></Error>")
            elif bucket != BUCKET:
                self._send(404, b"<Error><Code>NoSuchBucket</Code></Error>")
            elif not key and self.command == "GET":
                self._send(200, self._list(asked))
            else:
                getattr(self, f"_{self.command.lower()}")(key, asked, body)

    def _list(self, asked: dict[str, str]) -> bytes:
        prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
        found, folders = [], set()
        for key in sorted(self.server.objects):
            if key.startswith(prefix) and key > asked.get("start-after", ""):
                below, mark, _ = key[len(prefix) :].partition(delimiter or "\0")
                if mark and delimiter:
                    folders.add(prefix + below + delimiter)
                else:
                    found.append(key)
        # objects count as new: files that are in no version yet would be cleaned away after a week
        now = datetime.now(UTC)
        rows = "<IsTruncated>false</IsTruncated>" + "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.server.objects[key])}</Size>"
            f"<LastModified>{now:%Y-%m-%dT%H:%M:%S}.000Z</LastModified><ETag>x</ETag></Contents>"
            for key in found
        )
        rows += "".join(
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>"
            for each in sorted(folders)
        )
        return (
            f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode()
        )

    def _get(self, key: str, _asked: dict[str, str], _body: bytes) -> None:
        data = self.server.objects.get(key)
        if data is None:
            self._send(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        status, extra, span = 200, {}, self.headers.get("Range", "")
        if span:
            first, _, last = span.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(len(data) - int(last), 0)
            end = min(int(last) + 1 if first and last else len(data), len(data))
            extra = {"Content-Range": f"bytes {start}-{end - 1}/{len(data)}"}
            status, data = 206, data[start:end]
        self._send(status, data, **extra)

    _head = _get

    def _put(self, key: str, asked: dict[str, str], body: bytes) -> None:
        objects = self.server.objects
        if "partNumber" in asked:
            self.server.parts[asked["uploadId"]][int(asked["partNumber"])] = body
        elif key in objects and (
            self.headers.get("If-None-Match") == "*"
            or self.headers.get("x-goog-if-generation-match") == "0"
        ):
            self._send(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            return
        elif source := self.headers.get(
            "x-amz-copy-source", self.headers.get("x-goog-copy-source")
        ):
            objects[key] = objects[unquote(source).lstrip("/").removeprefix(f"{BUCKET}/")]
            self._send(200, b"<CopyObjectResult><ETag>x</ETag></CopyObjectResult>")
            return
        else:
            objects[key] = body
        self._send(200)

    def _post(self, key: str, asked: dict[str, str], body: bytes) -> None:
        if "uploads" in asked:
            name = f"upload-{self.server.requests}-{key}"
            self.server.parts[name] = {}
            text = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId>"
            self._send(200, f"{text}</InitiateMultipartUploadResult>".encode())
        elif "delete" in asked:
            for part in body.decode().split("<Key>")[1:]:
                self.server.objects.pop(part.partition("</Key>")[0], None)
            self._send(200, b"<DeleteResult></DeleteResult>")
        else:
            parts = self.server.parts.pop(asked["uploadId"])
            self.server.objects[key] = b"".join(parts[number] for number in sorted(parts))
            text = "<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>"
            self._send(200, text.encode())

    def _delete(self, key: str, _asked: dict[str, str], _body: bytes) -> None:
        self.server.objects.pop(key, None)
        self._send(204)

    def _send(self, status: int, data: bytes = b"", **extra: str) -> None:
        self.send_response(status)
        for name, value in extra.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", '"x"')
        self.send_header("Last-Modified", self.date_time_string())
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
            with self.server.counting:
                self.server.bytes_sent += len(data)
