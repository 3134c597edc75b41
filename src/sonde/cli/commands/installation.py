"""The installation: `sonde config` shows its settings, `sonde doctor` reports its problems."""

from __future__ import annotations

import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from sonde.cli.commands.daemon import describe_background
from sonde.cli.parse import FAILED, FOUND
from sonde.cli.session import Session
from sonde.cli.terminal import Screen, display_width, escape_controls
from sonde.errors import IndexNotFound, ProjectNotDetected, SondeError
from sonde.policy.roots import MARKERS
from sonde.runtime.logs import LOG_FILE
from sonde.runtime.system import read_watch_limit
from sonde.settings import RULES, Settings, apply_project_config
from sonde.text.formats import format_bytes, format_moment
from sonde.types import Json

_VALUE_COLUMNS = 32  # longer values push their source to the right
_MIN_FREE_BYTES = 200 * 1024 * 1024  # for the index of a large project while it is rewritten
_USUAL_WATCHES = 524_288  # what distributions that raise the limit of inotify set it to


def run_config(session: Session) -> int:
    """Show settings or the paths of their files, or open the project's file in an editor."""
    user = session.settings.home / "config.json"
    project = find_project_config(session)
    if session.args.action == "edit":
        return _edit(session, project)
    files = {"project": str(project) if project else None, "user": str(user)}
    settings = apply_project_config(session.settings, project)
    if session.args.action == "path":
        return session.print_answer(files, filter(None, files.values()))
    answer = {"settings": list_settings(settings), "files": files}
    code = session.print_answer(answer, render_settings(settings, session.out))
    for warning in settings.warnings:
        session.note(escape_controls(warning), "warn")
    return code


def find_project_config(session: Session) -> Path | None:
    """The config.json of the project around here, if there is a project."""
    return session.opened.folder / "config.json" if session.is_inside_project() else None


def list_settings(settings: Settings) -> Json:
    """Every setting with its value and source."""
    return {
        name: {"value": _plain(settings, name), "source": settings.sources[name]}
        for name in ("home", *RULES)
    }


def render_settings(
    settings: Settings, screen: Screen, *, chosen_only: bool = False
) -> Iterator[str]:
    """One line per setting: name in config.json, value, source; non-defaults in bold."""
    rows = [
        (
            RULES[name].key if name in RULES else "SONDE_HOME",
            _show(name, row["value"]),
            row["source"],
        )
        for name, row in list_settings(settings).items()
        if not chosen_only or row["source"] != "default"
    ]
    widths = [max((display_width(row[column]) for row in rows), default=0) for column in (0, 1)]
    for name, value, source in rows:
        chosen = source != "default"
        label = screen.paint("bold" if chosen else "dim", f"{name:<{widths[0]}}")
        padding = " " * (min(widths[1], _VALUE_COLUMNS) - display_width(value))
        shown = screen.paint("good" if chosen else "dim", escape_controls(source))
        yield f"{label}  {value}{padding}  {shown}"


def _show(name: str, value: object) -> str:
    """A value as config.json spells it."""
    if name == "max_file_size" and isinstance(value, int):
        whole, unit = (value >> 20, "MB") if value % (1 << 20) == 0 else (value / 1024, "KB")
        return f"{whole:g}{unit}"
    if isinstance(value, bool):
        return "true" if value else "false"
    shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return escape_controls(shown) or "-"


def _plain(settings: Settings, name: str) -> object:
    """A value for JSON; a secret is not shown."""
    value: object = getattr(settings, name)
    if name in RULES and RULES[name].is_secret and settings.sources[name] != "default":
        return "(set)"
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def _edit(session: Session, project: Path | None) -> int:
    if project is None:
        raise ProjectNotDetected("`config edit` needs a project")
    if not project.exists():
        raise IndexNotFound(f"{project} is written with the first index")
    if session.console.is_interactive():
        return session.open_place(str(project), 1)
    session.print_lines([str(project)])
    session.note("edit this file; the next command uses it")
    return FOUND


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check; it has advice if there is a problem."""

    name: str
    found: str
    advice: str = ""


def run_doctor(session: Session) -> int:
    """Print every check; exits with 0 if all passed."""
    checks = list(check_everything(session))
    healthy = not any(check.advice for check in checks)
    settings = _settings_here(session)
    answer = {
        "healthy": healthy,
        "checks": [{**asdict(check), "ok": not check.advice} for check in checks],
        "settings": list_settings(settings) if settings else {},
        "warnings": list(settings.warnings) if settings else [],
    }
    session.print_answer(answer, _render_checks(checks, settings, session.out))
    return FOUND if healthy else FAILED


def check_everything(session: Session) -> Iterator[Check]:
    """The checks, each building on the ones before; the first error ends them."""
    yield from _check_programs()
    try:
        yield _check_home(session.settings.home)
        yield Check("logs", str(session.settings.home / "logs" / LOG_FILE))
        yield Check("background process", describe_background(session))
        yield from _check_models(session)
        yield _check_project(session)
        if session.is_inside_project():
            yield from _check_index(session)
        yield from _check_agents(session)
    except SondeError as error:
        yield Check(error.code, error.user_message, error.next_action)


def _check_programs() -> Iterator[Check]:
    from sonde.version import __version__

    yield Check("sonde", __version__)
    yield Check("python", f"{platform.python_version()} on {platform.platform(terse=True)}")
    import apsw

    with_fts = "ENABLE_FTS5" in apsw.compile_options
    yield Check(
        "sqlite",
        apsw.sqlite_lib_version() + ("" if with_fts else " without FTS5"),
        "" if with_fts else "Install apsw from PyPI: pip install --force-reinstall apsw.",
    )


def _check_home(home: Path) -> Check:
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
        free = shutil.disk_usage(existing).free
    except OSError as error:
        advice = "Set SONDE_HOME to a folder you can write to."
        return Check("home", f"{home} cannot be written: {error.strerror}", advice)
    roomy = free >= _MIN_FREE_BYTES
    advice = "" if roomy else "Free some space, or set SONDE_HOME to another disk."
    return Check("home", f"{home}, {format_bytes(free)} free", advice)


def _check_models(session: Session) -> Iterator[Check]:
    own = session.app.workspace
    models = {"static": own.static.get("code"), "everyday": own.prose, "deep": own.deep}
    for label, embedder in models.items():
        if embedder is None:
            yield Check(f"{label} model", f"off (embedding = {session.settings.embedding})")
            continue
        began = time.perf_counter()
        try:
            embedder.embed(["def check(): ..."], "query")
        except SondeError as error:
            yield Check(f"{label} model", error.developer_message, error.next_action)
            continue
        took = f"loaded in {(time.perf_counter() - began) * 1000:.0f} ms"
        yield Check(f"{label} model", f"{embedder.name}, {embedder.dimensions} dimensions, {took}")


def _check_project(session: Session) -> Check:
    if not session.is_inside_project():
        return Check("project", "none here (no project marker in this folder or above)")
    root = session.opened.root
    marker = next((name for name in MARKERS if (root / name).exists()), None)
    how = "named" if session.args.project else f"found by {marker}" if marker else "indexed before"
    return Check("project", f"{root} ({how})")


def _check_index(session: Session) -> Iterator[Check]:
    from sonde.runtime.work import Work
    from sonde.tools.index import get_index_status

    try:
        status = get_index_status(session.app, project=session.project, work=Work())
    except IndexNotFound:
        yield Check("index", "none yet; create one with `sonde index`")
        return
    found = (
        f"{status['status']}, {status['totalFiles']:,} files, {status['totalChunks']:,} chunks, "
        f"{status['storageSize']}, updated {format_moment(status['lastUpdated'], time.time())}"
    )
    yield Check("index", found)
    yield Check("index log", str(session.opened.folder / "logs" / LOG_FILE))
    busy = "another process is writing the index; searches still work"
    free = "no process is writing the index"
    yield Check("writer", busy if session.opened.lock.is_taken() else free)
    yield from _check_watches(session)
    for kind, store in session.opened.stores().items():
        broken = store.verify()
        advice = "Run `sonde reindex` to rebuild the index." if broken else ""
        yield Check(f"{kind} store", "; ".join(broken) or "sound", advice)


def _check_watches(session: Session) -> Iterator[Check]:
    """On Linux, each watched folder counts against a limit per user."""
    limit = read_watch_limit()
    if limit is None:
        return
    paths = {path for store in session.opened.stores().values() for path in store.files()}
    folders = len({path.rpartition("/")[0] for path in paths})
    advice = f"Allow more: sysctl fs.inotify.max_user_watches={max(_USUAL_WATCHES, folders * 4)}."
    found = f"{folders:,} folders to watch, {limit:,} allowed"
    yield Check("watches", found, "" if folders < limit else advice)


def _check_agents(session: Session) -> Iterator[Check]:
    """Agents that start a missing program are a problem; agents not set up are not."""
    from sonde.agents.configs import find_setups
    from sonde.agents.machine import Machine

    machine = Machine(Path.home(), session.environ)
    project = session.opened.root if session.is_inside_project() else None
    setups = list(find_setups(machine, project))
    for agent in machine.find_agents():
        ours = [setup for setup in setups if setup.agent is agent]
        known = [setup for setup in ours if setup.command]
        advice = f"Run `sonde setup {agent.name}` to fix it."
        if lost := next((setup for setup in known if not shutil.which(setup.command)), None):
            found = f"{lost.path} starts {lost.command}, which does not exist"
            advice += "" if lost.scope == "user" else " With --scope project."
            yield Check(agent.title, found, advice)
        elif known:
            yield Check(agent.title, "set up: " + ", ".join(str(setup.path) for setup in known))
        else:
            faults = [f"{setup.path}: {setup.problem}" for setup in ours if setup.problem]
            unset = f"not set up; run `sonde setup {agent.name}`"
            yield Check(agent.title, "; ".join(faults) or unset)


def _settings_here(session: Session) -> Settings | None:
    """The settings including the project's; None if they cannot be read."""
    path = None
    with suppress(SondeError):
        settings = session.settings
        with suppress(SondeError):
            path = find_project_config(session)
        return apply_project_config(settings, path)
    return None


def _render_checks(checks: list[Check], settings: Settings | None, screen: Screen) -> Iterator[str]:
    width = max(len(check.name) for check in checks)
    for check in checks:
        mark = screen.paint("bad", "✗") if check.advice else screen.paint("good", "✓")
        yield f"{mark} {check.name:<{width}}  {escape_controls(check.found)}"
        if check.advice:
            yield f"  {'':<{width}}  {screen.paint('warn', '→')} {escape_controls(check.advice)}"
    if settings is None:
        return
    if chosen := list(render_settings(settings, screen, chosen_only=True)):
        yield ""
        yield "Settings that differ from their default (`sonde config` lists all):"
        yield from chosen
    if settings.warnings:
        yield ""
        yield from (f"{screen.paint('warn', '!')} {escape_controls(w)}" for w in settings.warnings)
