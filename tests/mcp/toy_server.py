"""A server with small tools, for what the protocol does with any tool; run as a script."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

from sonde.errors import Cancelled, ConfirmationRequired, EmbeddingFailed, IndexNotFound
from sonde.mcp.listing import Listing
from sonde.mcp.stdio import serve_stdio
from sonde.runtime.work import Work
from sonde.tools.route import Route
from sonde.tools.tool import Param, Tool
from sonde.types import Caller, Content, Progress


class Said(TypedDict):
    """An answer."""

    said: str
    times: int


class Nothing(TypedDict, total=False):
    """An answer without anything."""

    done: bool


class Toy:
    """The app: writes down what happens to it."""

    def __init__(self, diary: Path) -> None:
        self._diary = diary
        self.write("opened")

    def write(self, event: str) -> None:
        """Add an event."""
        with self._diary.open("a") as file:
            file.write(event + "\n")

    def read(self) -> list[str]:
        """All events."""
        return self._diary.read_text().splitlines()

    def seen_by(self, _caller: Caller) -> Toy:
        return self

    def close(self) -> None:
        """Note the end."""
        self.write("closed")


def say(
    app: Toy,
    query: Annotated[str, Param("What to say", min_length=1)],
    times: Annotated[int, Param("How often", minimum=1, maximum=5)] = 1,
    *,
    work: Work,
) -> Said:
    return {"said": query, "times": times}


def fail(
    app: Toy, kind: Annotated[str, Param("Which error")] = "catalog", *, work: Work
) -> Nothing:
    if kind == "catalog":
        raise IndexNotFound("no index at {here}")
    if kind == "internal":
        raise EmbeddingFailed("the model fell over")
    raise ValueError("a secret that must not leave")


def count(app: Toy, to: Annotated[int, Param("How far")] = 3, *, work: Work) -> Nothing:
    """Count to a number twice, the second time in a thread of its own."""

    def run(stage: str) -> None:
        for done in range(1, to + 1):
            work.report(Progress(stage, done, to))

    run("read")
    writing = threading.Thread(target=run, args=("write",))
    writing.start()
    writing.join()
    return {"done": True}


def wait(app: Toy, *, work: Work) -> Nothing:
    """Go on until called off."""
    app.write("waiting")
    pause = threading.Event()
    try:
        for step in range(3000):
            work.report(Progress("wait", step))
            pause.wait(0.01)
    finally:
        app.write("stopped")
    return {"done": True}


def hang(app: Toy, *, work: Work) -> Nothing:
    """Never look up, as foreign code does."""
    app.write("hanging")
    threading.Event().wait(60)
    return {"done": True}


def linger(app: Toy, *, work: Work) -> Nothing:
    """Go on until somebody writes `enough`."""
    app.write("lingering")
    while "enough" not in app.read():
        work.check()
        threading.Event().wait(0.01)
    return {"done": True}


def remove(app: Toy, *, work: Work) -> Nothing:
    app.write("asking")
    try:
        consent = work.ask("Really remove {it}?")
    except Cancelled:
        app.write("gave up asking")
        raise
    if consent is None:
        raise ConfirmationRequired("", question="Really?", token="t1")
    sure = work.ask("Sure?") if consent else None
    app.write(f"consent {consent} {sure}")
    return {"done": consent}


def chatter(app: Toy, *, work: Work) -> Nothing:
    print("noise from python")
    os.write(1, b"noise from C\n")
    os.system("echo noise from a child; cat > /dev/null")
    return {"done": True}


def odd(app: Toy, *, work: Work) -> dict[str, Any]:
    return {"name": "caf\u00e9 \udce9 \u2028", "nothing": None}


TOYS: tuple[Tool, ...] = (
    Tool("say", say, "code", "Say", "Says it. Nothing else does.", "Loudly.", always_load=True),
    Tool("fail", fail, "code", "Fail", "Fails. Always."),
    Tool("count_up", count, "code", "Count", "Counts.", aliases=("count-up", "count.up")),
    Tool("wait", wait, "code", "Wait", "Waits."),
    Tool("hang", hang, "code", "Hang", "Hangs."),
    Tool("remove", remove, "index", "Remove", "Removes.", read_only=False, destructive=True),
    Tool("chatter", chatter, "files", "Chatter", "Prints."),
    Tool("odd", odd, "files", "Odd", "Answers with an odd name."),
    Tool("linger", linger, "files", "Linger", "Lingers."),
)


class Who(TypedDict):
    """Who called."""

    user: str
    session: str
    link: str


def tell_caller(app: Toy, *, work: Work) -> Who:
    return {
        "user": work.caller.user,
        "session": work.caller.session,
        "link": work.caller.link("toys/1"),
    }


def keep_toy(
    app: Toy,
    toy_id: Annotated[str, Param("Which toy")],
    size: Annotated[int, Param("How large", minimum=1, maximum=9)] = 1,
    tags: Annotated[tuple[str, ...], Param("Words")] = (),
    loud: Annotated[bool, Param("Noisy")] = False,
    *,
    work: Work,
) -> dict[str, Any]:
    return {"toyId": toy_id, "size": size, "tags": list(tags), "loud": loud}


def read_text(
    app: Toy, path: Annotated[str, Param("Which text")], *, work: Work
) -> Content | dict[str, Any]:
    return Content(f"text of {path}")


TOYS += (Tool("tell_caller", tell_caller, "files", "Who", "Says who calls."),)
TOY_ROUTES = (
    Route("caller", tell_caller, "Who calls"),
    Route("toys/{toyId}", keep_toy, "One toy"),
    Route("toys/{toyId}", keep_toy, "Keep a toy", method="POST", status=201),
    Route("texts/{path:path}", read_text, "A text", mime="text/plain"),
    Route("wait", wait, "Wait"),
    Route("fail", fail, "Fail"),
    Route("remove", remove, "Remove", method="DELETE"),
)
TOY_LISTING = Listing(TOYS, routes=TOY_ROUTES)


def open_slowly(diary: Path, permit: Path | None) -> Toy:
    """The app, once there is a file that permits it."""
    while permit and not permit.exists():
        time.sleep(0.01)
    return Toy(diary)


def serve_toys(diary: Path, token_file: Path | None) -> None:
    """Over HTTP; the address is the one line on stdout."""
    from sonde.web.accounts import Keyring, load_tokens
    from sonde.web.application import TimeLimits, build_application, serve_http
    from sonde.web.guard import Access

    access = Access(
        tokens=Keyring(load_tokens(None, token_file)) if token_file else None, rate_limit=0
    )
    app = build_application(lambda: Toy(diary), TOY_LISTING, access)
    limits = [float(limit) for limit in os.environ.get("TOY_PATIENCE", "").split(",") if limit]
    serve_http(app, access, lambda address: print(address, flush=True), TimeLimits(*limits))


def main() -> None:
    diary = Path(sys.argv[1])
    if sys.argv[2:3] == ["--http"]:
        serve_toys(diary, Path(sys.argv[3]) if sys.argv[3:] else None)
        return
    print("noise before serving")
    permit = Path(sys.argv[2]) if sys.argv[2:] else None
    serve_stdio(lambda: open_slowly(diary, permit), lambda: TOY_LISTING)
    print("noise after serving")


if __name__ == "__main__":
    main()
