"""Clients of an HTTP server, good and bad, over plain asyncio streams."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

_BODY_S = 60.0
_TOO_MUCH = 5 * 1024 * 1024


class Reply(NamedTuple):
    """One answer."""

    status: int
    headers: dict[str, str]
    body: bytes


class Target:
    """Where the server listens."""

    def __init__(self, url: str, key: str) -> None:
        split = urlsplit(url)
        self.host, self.port = split.hostname or "", split.port or 80
        self._head = f"Host: {split.netloc}\r\nAuthorization: Bearer {key}\r\n"

    def write(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> bytes:
        """A request as bytes."""
        data = b"" if body is None else json.dumps(body).encode()
        more = dict(headers or {})
        if body is not None:
            more |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in more.items())
        return f"{method} {path} HTTP/1.1\r\n{self._head}{lines}\r\n".encode() + data

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection."""
        return await asyncio.open_connection(self.host, self.port)


@dataclass
class Clients:
    """What several clients together were answered, and how fast."""

    times: list[float] = field(default_factory=list)
    seconds: float = 0.0
    """Until the last answer had come."""
    statuses: Counter[int] = field(default_factory=Counter)
    waits: set[str] = field(default_factory=set)
    """What refusals said under `Retry-After`."""

    @property
    def answers(self) -> int:
        """How many."""
        return len(self.times)

    def at(self, share: float) -> float:
        """The time in milliseconds that this share of the answers took at most."""
        ordered = sorted(self.times)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] * 1e3 if ordered else 0.0


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    """One answer, its body by length or in chunks."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
    }
    body = b""
    if headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Reply(int(head[0].split()[1]), headers, body)


async def ask(target: Target, method: str, path: str, body: Any = None) -> Reply:
    """One request on a connection of its own; what must be confirmed is confirmed."""
    reader, writer = await target.open()
    try:
        writer.write(target.write(method, path, body))
        return await read_reply(reader)
    finally:
        writer.close()


async def measure(
    target: Target, make: Callable[[], bytes], clients: int, seconds: float
) -> Clients:
    """Let clients send one request after another for so long."""
    found = Clients()
    start = time.perf_counter()
    end = start + seconds

    async def run() -> None:
        reader, writer = await target.open()
        while (began := time.perf_counter()) < end:
            writer.write(make())
            try:
                reply = await read_reply(reader)
            except (asyncio.IncompleteReadError, ConnectionError):
                found.statuses[0] += 1
                reader, writer = await target.open()
                continue
            found.times.append(time.perf_counter() - began)
            found.statuses[reply.status] += 1
            if "retry-after" in reply.headers:
                found.waits.add(reply.headers["retry-after"])
            if reply.headers.get("connection") == "close":
                writer.close()
                reader, writer = await target.open()
        writer.close()

    await asyncio.gather(*(run() for _ in range(clients)))
    found.seconds = time.perf_counter() - start
    return found


async def hold_stream(target: Target, job: str) -> str:
    """Follow a job until the server ends the stream; how it ended."""
    reader, writer = await target.open()
    writer.write(target.write("GET", f"/api/jobs/{job}/events"))
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head:
            return head.split(b"\r\n")[0].decode()
        while await reader.read(4096):
            pass
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        return type(error).__name__
    finally:
        writer.close()
    return "closed"


async def dribble(target: Target, seconds: float) -> Counter[str]:
    """Send a request a few bytes at a time, and never finish it."""
    told: Counter[str] = Counter()
    _, writer = await target.open()
    text = target.write("POST", "/api/indexes", {"root": "x" * 200})
    end = time.perf_counter() + seconds
    try:
        for at in range(0, len(text) - 20, 3):
            writer.write(text[at : at + 3])
            await writer.drain()
            await asyncio.sleep(0.05)
            if time.perf_counter() > end:
                break
        told["slow"] += 1
    except ConnectionError:
        told["slow, cut off"] += 1
    finally:
        writer.close()
    return told


async def abort(target: Target, seconds: float) -> Counter[str]:
    """Ask for something that takes a while, and go away before it comes."""
    told: Counter[str] = Counter()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        _, writer = await target.open()
        writer.write(target.write("GET", "/?q=who+may+come+in+over+http&part=results"))
        await asyncio.sleep(0.02)
        writer.transport.abort()
        told["aborted"] += 1
    return told


async def overfill(target: Target, seconds: float) -> Counter[str]:
    """Send more than is taken, by declared length and without one."""
    told: Counter[str] = Counter()
    end = time.perf_counter() + seconds
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    head = target.write("POST", "/api/queries", None, {"Content-Type": "application/json"})[:-2]
    while time.perf_counter() < end:
        for declared in (True, False):
            reader, writer = await target.open()
            try:
                if declared:
                    writer.write(head + f"Content-Length: {_TOO_MUCH}\r\n\r\n".encode())
                else:
                    writer.write(head + b"Transfer-Encoding: chunked\r\n\r\n")
                    for _ in range(_TOO_MUCH // 0x10000):
                        writer.write(chunk)
                        await writer.drain()
                reply = await read_reply(reader)
                told[f"too large: {reply.status}"] += 1
            except (ConnectionError, asyncio.IncompleteReadError):
                told["too large: cut off"] += 1
            finally:
                writer.close()
    return told
