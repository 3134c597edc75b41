"""The embedding process that all servers of a user share: `python -m sonde.embedding.process`.

Whoever holds the lock is the one; the lock dies with it. It writes down where it listens, and ends
when nobody has asked for a while.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import threading
from pathlib import Path

from sonde.embedding.providers import load_provider
from sonde.embedding.serving import EmbeddingServer
from sonde.work import try_lock


def place_of(folder: Path, model: str) -> Path:
    """The file that says where the process of a model listens."""
    return folder / f"{model}.json"


def serve_until_idle(folder: Path, idle_s: float) -> bool:
    """Serve the bundled model until it is idle; false when another process does already."""
    embedder = load_provider("deep")
    place = place_of(folder, embedder.name)
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(place.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not try_lock(lock):
            return False
        with EmbeddingServer(embedder, 0, secrets.token_hex(16)) as server:
            serving = threading.Thread(target=server.serve_forever, args=(0.05,))
            serving.start()
            try:
                _announce(place, {"port": server.server_port, "token": server.token})
                waiting = threading.Event()
                while (left := idle_s - server.idle_s) > 0:
                    waiting.wait(left)
            finally:
                place.unlink(missing_ok=True)
                server.shutdown()
                serving.join()
        return True
    finally:
        os.close(lock)


def _announce(place: Path, facts: dict[str, object]) -> None:
    temporary = place.with_suffix(f".{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump({**facts, "pid": os.getpid()}, file)
    temporary.replace(place)


if __name__ == "__main__":
    serve_until_idle(Path(sys.argv[1]), float(sys.argv[2]))
