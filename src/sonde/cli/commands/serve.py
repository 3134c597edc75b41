"""The commands that serve: MCP over stdio, everything over HTTP, and embeddings."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sonde.cli.parse import FOUND
from sonde.cli.session import Session
from sonde.errors import (
    InvalidRequest,
    SharedIndexMissing,
    SharedIndexRefused,
    SharedIndexUnreachable,
    SondeError,
    StorageUnusable,
)
from sonde.runtime.logs import open_logs
from sonde.runtime.processes import spare_threads
from sonde.settings import Settings, apply_project_config, load_settings
from sonde.stores.files import write_text
from sonde.stores.records import find_config

if TYPE_CHECKING:
    from sonde.app import App
    from sonde.mcp.calls import Closable
    from sonde.mcp.listing import Listing
    from sonde.web.accounts import Issuer, Keyring
    from sonde.web.guard import Access
    from sonde.web.oidc import Provider

log = logging.getLogger(__name__)


def run_mcp(session: Session) -> int:
    """Serve agents until stdin closes; stdout carries nothing but the protocol."""
    from sonde.mcp.manifest import load_manifest
    from sonde.mcp.stdio import serve_stdio

    settings, own = _read_settings(session, serve_from="")
    early = load_manifest(own.toolsets, own.tool_names, enhanced=own.enhanced_tool_descriptions)
    if own.agent_notes or own.tool_limits:
        early = None  # one tool more than it has; limits may name a tool that is none
    listing = None if early else _make_listing(own)
    open_app = _open_later(session, settings)
    _check_embedding(own)
    if sys.stdin and sys.stdin.isatty():
        session.note(
            "sonde is waiting for MCP messages on stdin, from the agent that starts it; "
            "configure your agents with `sonde setup`. Ctrl-C stops it."
        )
    serve = session.serve_client or serve_stdio
    serve(open_app, lambda: listing or _make_listing(own), _begin, early)
    return FOUND


def run_serve(session: Session) -> int:
    """Serve over HTTP until interrupted."""
    from sonde.agents.machine import Machine, find_launch
    from sonde.mcp.calls import end_if_busy
    from sonde.web.accounts import make_login_code
    from sonde.web.agent_setup import add_setup
    from sonde.web.application import build_application, serve_http
    from sonde.web.metrics import AuditLog
    from sonde.web.pages.table import PAGES

    options = ("host", "port", "token_file", "public_url", "serve_from", "cache_folder",
               "cache_size", "access_file", "audit_log")  # fmt: skip
    given = {name: getattr(session.args, name) for name in options}
    base, settings = _read_settings(session, **given)
    _check_embedding(settings)
    access, tokens = _make_access(session, settings)
    open_app, listing = _open_later(session, base), _make_listing(settings)
    if settings.serve_from:
        open_app = _open_now(open_app)
    machine = Machine(Path.home(), session.environ)
    setup = add_setup(machine, find_launch(session.environ), settings.home / "backups")
    record = AuditLog(Path(settings.audit_log).expanduser()).record if settings.audit_log else None
    pages = (*PAGES, setup)
    app = build_application(open_app, listing, access, pages=pages, begin=_begin, record=record)

    def announce(address: str) -> None:
        address = settings.public_url.rstrip("/") or address
        facts = {"url": address, "mcp": f"{address}/mcp"}
        lines = [f"sonde serves {address}/  (Ctrl-C stops it)"]
        programs, key = f"agents: MCP at {address}/mcp", tokens.signing_key
        link = f"{address}/login?code={make_login_code(key)}" if key else ""
        if link:
            facts["link"] = link
            lines.append(f"sign in with this link, once, within 10 minutes:\n  {link}")
            if not tokens:  # nobody else was given a key, so this one serves programs as well
                facts["key"] = tokens.own_key
                programs += ", with the key that `sonde users key` prints"
        session.print_answer(facts, [*lines, programs])
        sys.stdout.flush()
        if link and not session.args.no_browser and session.console.is_interactive():
            _open_browser(session, link)

    serve_http(app, access, announce)
    end_if_busy()
    return FOUND


def _make_access(session: Session, settings: Settings) -> tuple[Access, Keyring]:
    """Where the server listens, and the tokens that it accepts."""
    from sonde.stores.users import Users
    from sonde.team_server import read_signing_key
    from sonde.web.accounts import Keyring, load_tokens
    from sonde.web.application import check_access
    from sonde.web.guard import Access

    file = Path(settings.token_file).expanduser() if settings.token_file else None
    access = Access(settings.host, settings.port, public_url=settings.public_url)
    tokens = Keyring(
        load_tokens(settings.token or None, file),
        Users(settings.home / "users.json"),
        _find_issuer(settings),
        read_signing_key(settings) if access.is_loopback else None,
        _find_provider(session, settings),
    )
    access = replace(access, tokens=tokens, rate_limit=settings.rate_limit)
    check_access(access)
    return access, tokens


def _open_browser(session: Session, link: str) -> None:
    """Open the link if there is a screen, through a file: other users can see command lines."""
    import webbrowser

    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    if sys.platform not in ("darwin", "win32") and not any(map(session.environ.get, screens)):
        return
    page = session.settings.home / "open.html"
    with suppress(SondeError, webbrowser.Error):
        write_text(page, f'<!doctype html><meta http-equiv="refresh" content="0; url={link}">\n')
        threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()


def _begin(app: Closable) -> None:
    from sonde.projects.follow import begin_following
    from sonde.projects.views import begin_chunk_files

    workspace = cast("App", app).workspace  # `_open_later` has built it
    if workspace.mirrors:
        workspace.mirrors.start()
        return
    begin_following(workspace)
    begin_chunk_files(workspace)


def _check_embedding(settings: Settings) -> None:
    """Fail now if the configured embedding service cannot embed queries."""
    if settings.embedding not in ("http", "openai"):
        return
    from sonde.wiring import open_provider

    if embedder := open_provider(settings, log.warning):
        embedder.embed(["ready"], "query")
        embedder.close()


def _find_issuer(settings: Settings) -> Issuer | None:
    from sonde.web.accounts import Issuer

    if not settings.jwt_keys:
        return None
    if not settings.jwt_issuer:
        raise InvalidRequest(
            "jwtKeys without jwtIssuer",
            user_message="The issuer of signed tokens is not set.",
            next_action="Set SONDE_JWT_ISSUER to the `iss` claim of the tokens.",
        )
    return Issuer(Path(settings.jwt_keys).expanduser(), settings.jwt_issuer, settings.jwt_audience)


def _find_provider(session: Session, settings: Settings) -> Provider | None:
    from sonde.team_server import open_access, read_signing_key
    from sonde.web.oidc import Provider

    given = open_access(settings).provider
    if given is None:
        return None
    secret = session.environ.get(given.secret_variable or "-", "")
    return Provider(given, secret, read_signing_key(settings))


def _read_settings(session: Session, **given: Any) -> tuple[Settings, Settings]:
    """The settings with command-line options, first without and then with the config file of
    the project the server is started in; also prepares the process and opens the logs."""
    spare_threads()
    names = session.args.toolsets
    settings = load_settings(
        session.environ,
        assume_yes=True if session.args.yes else None,
        toolsets=[name.strip() for name in names.split(",")] if names else None,
        **given,
    )
    own = apply_project_config(settings, find_config(settings.home, _find_start(session)))
    if session.lend_app is None:
        open_logs(own.home, own.log_level)
    for warning in settings.warnings:
        log.warning("%s", warning)
    return settings, own


def _make_listing(settings: Settings) -> Listing:
    from sonde.mcp.listing import Listing
    from sonde.tools import ROUTES, TOOLS

    listing = Listing(
        TOOLS,
        toolsets=settings.toolsets,
        spelling=settings.tool_names,
        enhanced=settings.enhanced_tool_descriptions,
        routes=ROUTES,
        tool_limits=settings.tool_limits,
        offered=("notes_add",) if settings.agent_notes else (),
    )
    _ = listing.limits  # an unknown tool name is an error at start-up
    return listing


def _find_start(session: Session) -> Path:
    named = session.args.project or "."
    if named.startswith("${"):  # a variable that the agent had no folder to substitute for
        named = "."
    return session.here / Path(named).expanduser()


def _open_later(session: Session, settings: Settings) -> Callable[[], App]:
    start = _find_start(session)

    def open_app() -> App:
        from sonde.wiring import build_app

        lend = session.lend_app
        app = lend(settings, start) if lend else build_app(settings, start=start, stays=True)
        if app.workspace.auto_index:
            from sonde.projects.index import index_at_start

            index_at_start(app.workspace)
        return app

    return open_app


def _open_now(open_app: Callable[[], App]) -> Callable[[], App]:
    """The app of a team server, opened now unless the shared index is temporarily unreachable."""
    try:
        app = open_app()
    except SharedIndexRefused:
        raise
    except (SharedIndexMissing, SharedIndexUnreachable):  # the server says so, and tries again
        return open_app
    return lambda: app


def run_embed(session: Session) -> int:
    """Serve `POST /embed` on this machine until interrupted."""
    from sonde.embedding.base import load_provider
    from sonde.embedding.server import PORT, EmbeddingServer

    port = PORT if session.args.port is None else session.args.port
    embedder = load_provider("deep")
    try:
        server = EmbeddingServer(embedder, port)
    except (OSError, OverflowError) as error:
        raise StorageUnusable(
            f"127.0.0.1:{port}: {error}",
            user_message="The port for embeddings is taken.",
            next_action="Choose another with --port, or 0 for any free one.",
        ) from error
    with server:
        facts = {"url": server.address, "model": embedder.name, "dimensions": embedder.dimensions}
        session.print_answer(facts, [f"{embedder.name} at {server.address}  (Ctrl-C stops it)"])
        sys.stdout.flush()
        try:
            server.serve_forever()
        finally:
            embedder.close()
    return FOUND
