"""When a folder that was brought in should be looked at again."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from sonde.work import Work

_STEP_MS = 200
_SETTLE_MS = 400
_LOOK_S = 30.0
"""Events are hints: everything is looked at now and then without any."""
_LOOK_BLIND_S = 2.0


def watch_source(root: Path, work: Work) -> Iterator[None]:
    """Yields whenever something below a folder, or one file, may have changed; ends never.

    Raises `Cancelled` when the work is called off. Where the system reports nothing, such as with
    too many folders, it yields every other second.
    """
    from watchfiles import watch

    def is_wanted(_change: object, path: str) -> bool:
        # programs that keep notes write into folders of their own all the time
        inside = Path(path).relative_to(root) if path.startswith(str(root)) else Path(path)
        return not any(part.startswith(".") for part in inside.parts[:-1])

    looked, longest = 0.0, 0.0  # the first look is for what changed before the watch began
    try:
        events = watch(
            root, watch_filter=is_wanted, step=_STEP_MS, debounce=_SETTLE_MS,
            rust_timeout=_STEP_MS, yield_on_timeout=True, raise_interrupt=True,
        )  # fmt: skip
        for changes in events:
            work.check()
            if changes or time.monotonic() - looked >= longest:
                yield
                looked, longest = time.monotonic(), _LOOK_S
    except OSError:
        pass
    while True:
        until = time.monotonic() + _LOOK_BLIND_S
        while time.monotonic() < until:
            work.check()
            time.sleep(_STEP_MS / 1000)
        yield
