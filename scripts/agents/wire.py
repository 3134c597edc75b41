"""Stands between an agent and the server, and writes down every line that passes.

The halves of an answer say the same, so nobody could tell which one a model was given. In the
answer to one question, the one that holds PROBE, each half therefore gets a mark of its own.

usage: wire.py LOG COMMAND [ARGUMENT…]
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

PROBE = "WHICH_HALF"
TEXT_MARK, STRUCTURED_MARK = "MARKED-TEXT", "MARKED-STRUCTURED"


def mark_halves(line: bytes) -> bytes:
    message = json.loads(line) if PROBE.encode() in line else {}
    result = message.get("result", {})
    if "structuredContent" not in result:
        return line
    result["structuredContent"]["mark"] = STRUCTURED_MARK
    text = json.loads(result["content"][0]["text"]) | {"mark": TEXT_MARK}
    result["content"][0]["text"] = json.dumps(text, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def pass_on(
    source: BinaryIO,
    sink: BinaryIO,
    mark: bytes,
    log: BinaryIO,
    change: Callable[[bytes], bytes] = lambda line: line,
) -> None:
    with contextlib.suppress(OSError):
        for line in source:
            log.write(mark + line)
            log.flush()
            sink.write(change(line))
            sink.flush()
    with contextlib.suppress(OSError):
        sink.close()


def main() -> int:
    with Path(sys.argv[1]).open("ab") as log:
        pipe = subprocess.PIPE
        server = subprocess.Popen(sys.argv[2:], stdin=pipe, stdout=pipe)
        forth = (sys.stdin.buffer, server.stdin, b"> ", log)
        threading.Thread(target=pass_on, args=forth, daemon=True).start()
        pass_on(server.stdout, sys.stdout.buffer, b"< ", log, mark_halves)
        return server.wait(timeout=10)


if __name__ == "__main__":
    sys.exit(main())
