"""Another user of the machine, who tries whatever modes, sockets, ports and /proc let them.

    python intruder.py USER_ID < JSON

The JSON names `paths` to open, `ports` to ask, a folder to `watch` until stdin has another line,
and words (`marks`) that must not be seen. Prints what came of it as JSON.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - what is imported later may be out of reach
import http.client
import json
import os
import select
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

WAYS = (
    "/", "/api/projects", "/api/jobs", "/metrics", "/api/openapi.json", "/projects", "/knowledge",
    "/api/search/knowledge?query=x", "/api/files/main.py", "/login?code=guess",
)  # fmt: skip
UPGRADE = {
    "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": "mcp",
}  # fmt: skip


def connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)


def make_file(path: str) -> None:
    place = Path(path) / "intruder"
    place.touch(exist_ok=False)
    place.unlink()


def try_path(path: str, kind: int) -> Iterator[str]:
    """What can be done to a path that is there."""
    tries: dict[str, Callable[[], Any]] = {
        "read": lambda: os.close(os.open(path, os.O_RDONLY)),
        "write": lambda: os.close(os.open(path, os.O_WRONLY)),
    }
    if stat.S_ISDIR(kind):
        tries = {"list": lambda: os.listdir(path), "create": lambda: make_file(path)}  # noqa: PTH208
    elif stat.S_ISSOCK(kind):
        tries = {"connect": lambda: connect(path)}
    for name, do in tries.items():
        with suppress(OSError):
            do()
            yield f"{name} {path}"


def ask(port: int, way: str, method: str = "GET", **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, way, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def ask_everything(port: int) -> dict[str, int]:
    """The status of each request that has no key, or a made-up one."""
    found = {way: ask(port, way) for way in WAYS}
    found |= {f"{way} made up": ask(port, way, Authorization="Bearer local") for way in WAYS}
    found["cookie"] = ask(port, "/projects", Cookie=f"sonde_{port}=local")
    found["mcp"] = ask(port, "/mcp", "POST", Accept="application/json, text/event-stream")
    found["upload"] = ask(port, "/api/knowledge/files", "POST")
    found["socket"] = ask(port, "/mcp/ws", **UPGRADE)
    return found


def look_at_processes(marks: list[str]) -> Iterator[str]:
    """What /proc tells of the processes of sonde beyond their names."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (folder / "cmdline").read_bytes().decode("utf-8", "replace")
            if "sonde" not in line or int(folder.name) == os.getpid():
                continue
            yield from (f"mark in the command line: {line}" for mark in marks if mark in line)
            for inner in ("environ", "maps", "mem"):
                with suppress(OSError), (folder / inner).open("rb", 0) as file:
                    # one that is about to end can be opened, and says nothing
                    if inner == "mem" or file.read(1):
                        yield f"{inner} of {line}"
            for inner in ("fd", "cwd", "root"):
                with suppress(OSError):
                    os.listdir(folder / inner)  # noqa: PTH208
                    yield f"{inner} of {line}"


def look_at_files(folder: str, marks: list[str]) -> Iterator[str]:
    """Files below a folder that hold a mark, or have one in their name."""
    for place, _, names in os.walk(folder):
        for path in (Path(place) / name for name in names):
            with suppress(OSError):
                text = path.read_bytes()[:1_000_000]
                if any(mark.encode() in text or mark in path.name for mark in marks):
                    yield f"read {path}"


def main() -> None:
    user = int(sys.argv[1])
    os.chdir("/")
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    asked = json.loads(sys.stdin.readline())
    done: set[str] = set()
    print("ready", flush=True)
    while watched := asked.get("watch"):
        done |= {*look_at_files(watched, asked["marks"]), *look_at_processes(asked["marks"])}
        if select.select([sys.stdin], [], [], 0.02)[0]:
            break
    for path, kind in asked.get("paths", {}).items():
        done |= {*try_path(path, kind)}
    done |= {*look_at_processes(asked["marks"])}
    ports = {port: ask_everything(port) for port in asked.get("ports", ())}
    print(json.dumps({"done": sorted(done), "ports": ports}))


if __name__ == "__main__":
    main()
