"""`sonde uninstall`: list everything sonde put on this machine, ask, and remove it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sonde.agents.machine import Machine, Scope, find_launch
from sonde.agents.steps import Step, plan_steps, write_step
from sonde.cli.commands.daemon import stop_processes
from sonde.cli.parse import FAILED, FOUND, NOTHING
from sonde.cli.session import Session
from sonde.cli.terminal import escape_controls
from sonde.errors import ConfirmationRequired, IndexBusy, SondeError
from sonde.policy.changes import has_hook, remove_hook
from sonde.runtime.private import OWN_NAMES
from sonde.runtime.work import WriterLock
from sonde.stores.files import measure_folder, read_json
from sonde.stores.records import list_recorded
from sonde.text.formats import format_bytes

_LOCKS = ("writer.lock", "watcher.lock")
_KEPT = "knowledge"


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file, a folder or a git hook that sonde created."""

    path: Path
    about: str
    size: int = 0
    is_hook: bool = False


def run_uninstall(session: Session) -> int:
    """List everything, ask, and remove it, except for the program, which its installer removes."""
    args, home = session.args, session.settings.home
    roots = [root for _, root in list_recorded(home) if root.is_dir()]
    steps = list(_plan_agents(session, roots))
    leftovers = [*_list_hooks(roots), *_list_storage(home, keep_knowledge=not args.all)]
    rows = [{"file": str(step.file), "about": step.title, "size": 0} for step in steps]
    rows += [{"file": str(o.path), "about": o.about, "size": o.size} for o in leftovers]
    answer = {"dryRun": args.dry_run, "removed": rows}
    if not args.json:
        session.print_lines(_render(session, steps, leftovers, home))
    if not rows or args.dry_run:
        session.print_answer(answer, ()) if args.json else None
        return FOUND if rows else NOTHING
    _confirm(session, len(rows))
    stop_processes(session)
    failed = [*_remove_entries(steps, home / "backups")]
    for folder in (home / "indexes").glob("*") if not failed else ():
        _refuse_running(folder)  # it would write the index again
    for leftover in leftovers if not failed else ():
        _remove(leftover)
    for error in failed:
        session.show_error(error)
    with suppress(OSError):
        home.rmdir()
        home.parent.rmdir()
    if failed:
        return FAILED
    session.print_answer(answer, ["✓ removed"])
    session.note("the program itself goes with the tool that installed it: pip, pipx or uv")
    return FOUND


def _refuse_running(folder: Path) -> None:
    """Raise `IndexBusy` if a running sonde holds a lock of an index."""
    for name in _LOCKS:
        if (folder / name).exists() and WriterLock(folder, name).is_taken():
            raise IndexBusy(
                f"{folder / name} is held",
                user_message="sonde is running: another process uses an index.",
                next_action="End `sonde serve` and your agents, then repeat the command.",
            )


def _confirm(session: Session, count: int) -> None:
    if session.settings.assume_yes:
        return
    question = f"This removes {count} {'thing' if count == 1 else 'things'}."
    if session.args.json or not session.console.is_interactive():
        raise ConfirmationRequired("nobody to ask", question=question, token="--yes")  # noqa: S106
    if not session.console.ask_yes(f"{question} Go on?"):
        raise ConfirmationRequired("declined", question=question, token="", declined=True)


def _plan_agents(session: Session, roots: list[Path]) -> Iterator[Step]:
    """Our entries, skills and sections in the user's files and in every known project."""
    machine = Machine(Path.home(), session.environ)
    backups, launch = session.settings.home / "backups", find_launch(session.environ)
    agents = machine.find_agents()
    places: list[tuple[Scope, Path | None]] = [("user", None)]
    places += [("project", root) for root in dict.fromkeys((*roots, Path.cwd()))]
    for scope, root in places:
        for step in plan_steps(machine, agents, scope, root, launch, backups, remove=True):
            if step.is_pending or step.error:
                yield step


def _remove_entries(steps: list[Step], backups: Path) -> Iterator[SondeError]:
    for step in steps:
        if step.error:
            yield step.error
            continue
        try:
            write_step(step, backups)
        except SondeError as error:
            yield error


def _list_hooks(roots: list[Path]) -> Iterator[Leftover]:
    for root in roots:
        with suppress(SondeError, OSError):
            if has_hook(root):
                yield Leftover(root, "post-commit hook", is_hook=True)


def _list_storage(home: Path, *, keep_knowledge: bool) -> Iterator[Leftover]:
    """Everything of sonde's in the storage folder; other files stay."""
    for folder in sorted((home / "indexes").glob("*")):
        with suppress(OSError, ValueError):
            project = (read_json(folder / "metadata.json") or {}).get("projectPath", "unknown")
            yield Leftover(folder, f"index of {project}", _measure(folder))
    for path in sorted(home.glob("*")):
        known = path.name in OWN_NAMES or path.name.startswith(".key-")
        if known and path.name != "indexes" and not (path.name == _KEPT and keep_knowledge):
            yield Leftover(path, path.name.partition(".")[0], _measure(path))
    if (home / "indexes").exists():
        yield Leftover(home / "indexes", "folder of indexes")


def _measure(path: Path) -> int:
    return measure_folder(path) if path.is_dir() else path.lstat().st_size


def _remove(leftover: Leftover) -> None:
    if leftover.is_hook:
        remove_hook(leftover.path)
    elif leftover.path.is_dir() and not leftover.path.is_symlink():
        shutil.rmtree(leftover.path, ignore_errors=True)
    else:
        leftover.path.unlink(missing_ok=True)


def _render(
    session: Session, steps: list[Step], leftovers: list[Leftover], home: Path
) -> Iterator[str]:
    paint = session.out.paint
    for step in steps:
        yield f"{'':>10}  {paint('path', escape_controls(str(step.file)))}  entry of {step.title}"
    for each in leftovers:
        size = format_bytes(each.size) if each.size else ""
        yield f"{size:>10}  {paint('path', escape_controls(str(each.path)))}  {each.about}"
    if (home / _KEPT).exists() and not session.args.all:
        size = format_bytes(_measure(home / _KEPT))
        yield f"{'kept':>10}  {paint('path', str(home / _KEPT))}  {size}; --all deletes it too"
    if not steps and not leftovers:
        yield "There is nothing of sonde's here."
