"""Drives real agents, headless and without login, against a scripted model on loopback.

Each agent gets a home and a project of its own, is configured by `sonde setup`, and is started once
with the user's configuration (the whole conversation) and once with the project's (a search and
its second page). What its model was given is compared with what it should have been given.

usage: drive.py CACHE [AGENT…]; without names, docs/agents-tested.md gets the table.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from clients import CLIENTS, Client, Run
from model import ScriptedModel
from report import Outcome, check, make_row, read_wire, render_table, write_table
from talk import FIRST_USE, STEPS, Talk

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "agents-tested.md"
SONDE = Path(sys.executable).parent / "sonde"
PATIENCE_S = 240


def make_project(folder: Path) -> None:
    """A hundred functions to page through, and two words whose answers are too much."""
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    for part in range(10):
        names = (f"handler_{part * 10 + each:04}" for each in range(10))
        text = "\n\n\n".join(f"def {name}(event):\n    return event" for name in names)
        (folder / f"handlers_{part:02}.py").write_text(text + "\n")
    (folder / "billing.py").write_text(
        'def send_invoice(customer):\n    """Invoices are sent here."""\n    return customer\n'
    )
    (folder / "half.txt").write_text("WHICH_HALF of an answer is read?\n")
    for word, width in (("HUGE", 70), ("WIDE", 300)):
        around = [f"{number:02} {'lorem ipsum ' * 30}"[:width] for number in range(21)]
        for part in range(5):
            lines = [line for hit in range(50) for line in (f"{word} {hit}", *around)]
            (folder / f"{word.lower()}_{part}.txt").write_text("\n".join(lines) + "\n")


def drive(client: Client, scope: str, cache: Path) -> Outcome:
    """One agent, one scope, in a folder that is kept until the next time."""
    place = cache / "runs" / f"{client.name}-{scope}"
    shutil.rmtree(place, ignore_errors=True)
    home, project, wire = place / "home", place / "project", place / "wire.log"
    make_project(project)
    for folder in (home, place / "tmp"):
        folder.mkdir()
    talk = Talk(STEPS if scope == "user" else FIRST_USE)
    with ScriptedModel(talk.answer) as model:
        run = Run(cache / "node_modules", home, project, model.url)
        environ = make_environ(run, place)
        for path, text in client.files(run).items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        first = [] if scope == "project" else [["index"]]
        for words in (
            *first,
            ["setup", client.name, "--scope", scope, "--guide", "--yes", "--json"],
        ):
            done = subprocess.run(
                [SONDE, *words],
                cwd=project,
                env=environ,
                capture_output=True,
                text=True,
                check=True,
            )
        put_recorder(Path(json.loads(done.stdout)["agents"][0]["file"]), place, wire)
        with (place / "output.txt").open("w") as output:
            command, variables = client.command(run), environ | client.environ(run)
            code = run_bounded(command, project, variables, output)
    (place / "seen.json").write_text(json.dumps(talk.seen, indent=1, ensure_ascii=False), "utf-8")
    (place / "requests.jsonl").write_text(
        "".join(json.dumps(heard.raw) + "\n" for heard in model.heard), "utf-8"
    )
    version = json.loads((run.modules / client.package / "package.json").read_text())["version"]
    return Outcome(client.title, version, scope, talk, code, read_wire(wire))


def make_environ(run: Run, place: Path) -> dict[str, str]:
    """Nothing of ours: an agent's own variables must not leak in, nor anybody's keys."""
    kept = {name: os.environ[name] for name in os.environ if name.upper().endswith("_PROXY")}
    return kept | {
        "PATH": f"{run.modules / '.bin'}:{os.environ['PATH']}",
        "HOME": str(run.home),
        "TMPDIR": str(place / "tmp"),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
    }


def put_recorder(config: Path, place: Path, wire: Path) -> None:
    """In what setup wrote, exchange the program for one that starts it and writes down the talk."""
    recorder = place / "sonde"
    recorder.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -I -S "{HERE}/wire.py" "{wire}" "{SONDE}" "$@"\n'
    )
    recorder.chmod(0o755)
    text = config.read_text("utf-8")
    assert text.count(str(SONDE)) == 1, f"{config} does not start {SONDE}"
    config.write_text(text.replace(str(SONDE), str(recorder)), "utf-8")


def run_bounded(
    command: list[str], folder: Path, environ: dict[str, str], output: object
) -> int | None:
    """The exit code, or None when time was up; nothing it started outlives it."""
    process = subprocess.Popen(
        command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=output,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        return process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def list_default_tools() -> set[str]:
    from sonde.mcp.listing import Listing
    from sonde.tools import TOOLS

    return {entry["name"] for entry in Listing(TOOLS).entries}


def main() -> int:
    cache, names = Path(sys.argv[1]).resolve(), sys.argv[2:]
    tools = list_default_tools()
    rows, faults = [], []
    for client in CLIENTS:
        if names and client.name not in names:
            continue
        outcomes = []
        for scope in ("user", "project"):
            began = time.monotonic()
            outcome = drive(client, scope, cache)
            check(outcome, tools)
            outcomes.append(outcome)
            state = "; ".join(outcome.faults) or "as expected"
            print(
                f"{client.title}, {scope}: {state} ({time.monotonic() - began:.0f} s)", flush=True
            )
            faults += [f"{client.title}, {scope}: {fault}" for fault in outcome.faults]
        rows.append(make_row(outcomes))
    table = render_table(rows, faults)
    print(f"\n{table}")
    if not names:
        write_table(PAGE, table)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
