"""Settings -> App: the only place that names a concrete store or provider."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde import errors, team_server
from sonde.app import App, open_grounds
from sonde.disk.trees import Disk
from sonde.embedding.base import BackgroundEmbedder, Embedder, load_provider
from sonde.indexing.sources import Following, Tree, exclude_folder, list_sources
from sonde.knowledge.library import Library
from sonde.knowledge.vectors import KnowledgeModels
from sonde.paging.cursor import ResultSets
from sonde.policy.admit import Rules
from sonde.policy.deny_list import public_deny_list
from sonde.policy.read import read_document
from sonde.policy.roots import close_off, resolve_inside
from sonde.projects.project import Project, Projects, ProjectSettings, Workspace
from sonde.runtime.jobs import RECORD_AFTER_S, Job, Jobs, JobStore
from sonde.runtime.logs import project_log
from sonde.runtime.private import mend_storage
from sonde.runtime.processes import Child, name_process, require_room, serve_parent, share_heap
from sonde.runtime.work import Work
from sonde.settings import (
    CORTEX_FILE,
    Settings,
    apply_cortex_config,
    apply_project_config,
    read_key,
    render_config,
)
from sonde.shared import seed_new_index
from sonde.stores.chunks.base import ChunkStore
from sonde.stores.files import clear_scratch
from sonde.stores.knowledge.base import KnowledgeStore
from sonde.stores.records import Findings, find_config, load_metadata, project_folder
from sonde.stores.users import USER_NAME, Users
from sonde.text.globs import match_any
from sonde.types import Kind, Progress, Skipped

if TYPE_CHECKING:
    from sonde.stores.knowledge.postgres.database import PostgresDatabase

_SWITCH_S = 0.0005
"""How long a thread may keep the interpreter. Python's default of 5 ms adds up, since an answer
releases the interpreter at every file it looks at."""
_REQUIRED_BYTES = 128 << 20  # with less memory left, libraries end the process instead of raising
_CORTEX_FILE_BYTES = 100_000  # a `.cortex/config.yml` that is larger is not read
_CHECK_REPORT_S = 0.2  # how often a check in a child process reports its progress

log = logging.getLogger(__name__)


def build_app(
    settings: Settings,
    *,
    start: Path,
    stays: bool = False,
    tell: Callable[[str], None] = log.warning,
    record_after_s: float = RECORD_AFTER_S,
    clock: Callable[[], float] = time.monotonic,
) -> App:
    """Build an app; heavy parts are loaded on first use.

    `tell` gets a message when something takes long on the first run. Jobs are recorded once they
    take longer than `record_after_s`. Projects measure time by `clock`.
    """
    share_heap()
    try:
        require_room(_REQUIRED_BYTES, serves=stays)
    except MemoryError as error:
        raise errors.OutOfMemory(str(error)) from error
    mend_storage(settings.home)
    key, open_ = team_server.read_signing_key(settings), partial(open_project, clock=clock)
    own = apply_project_config(settings, find_config(settings.home, start))
    results = ResultSets(key, portable=bool(settings.signing_key))
    if stays:
        results.start_sweeping()
        sys.setswitchinterval(_SWITCH_S)
    is_local = own.embedding in ("auto", "static", "local")
    prose = None if own.embedding in ("none", "deep") else load_provider("everyday")
    workspace = Workspace(
        home=settings.home,
        start=start,
        key=key,
        projects=Projects(partial(team_server.open_any_project, settings, open_), clock),
        jobs=_open_jobs(settings.home / "files", record_after_s),
        results=results,
        static={"docs": prose, "code": load_provider("static")} if prose and is_local else {},
        prose=prose,
        deep=open_provider(own, tell),
        background_deep=BackgroundEmbedder if own.embedding in ("auto", "deep", "local") else None,
        start_checker=partial(_start_checker, settings),
        start_follower=_start_follower,
        seed_shared=seed_new_index,
        max_tokens=own.max_tokens,
        assume_yes=own.assume_yes,
        auto_index=own.auto_index and stays,
        stays=stays,
        editor=own.editor,
    )
    workspace = team_server.add_mirrors(settings, workspace, open_, clock)
    files = (own.token_file, own.jwt_keys, own.access_file, own.audit_log)
    for path in (str(settings.home), *filter(None, files)):
        close_off(team_server.expand_home(path))
    grounds = team_server.add_repositories(
        settings, open_grounds(settings.home, start, settings.file_roots)
    )
    library = _open_library(settings, workspace, grounds.users)
    return App(workspace, Disk(settings.home / "files", workspace), library, grounds)


def _open_jobs(folder: Path, record_after_s: float) -> Jobs:
    def open_store() -> JobStore:
        from sonde.stores.jobs import SqliteJobStore

        return SqliteJobStore(folder / "jobs.db")

    return Jobs(open_store, name_process(), record_after_s=record_after_s)


def _open_model(settings: Settings, tell: Callable[[str], None]) -> Embedder:
    """The user's model: a folder, or a name on the hub."""
    from sonde.embedding.model import is_hub_name

    text = settings.embedding_model
    path = team_server.expand_home(text)
    at = path if path.is_absolute() or text.startswith((".", "~")) else None
    if not text or not (at or is_hub_name(text)):
        raise errors.InvalidRequest(
            f"embedding = model, embeddingModel = {text!r}",
            user_message="Which embedding model? Its folder or its name is not set.",
            next_action="Set SONDE_EMBEDDING_MODEL to the path of a folder, or to owner/name.",
        )
    return load_provider(
        "model",
        model=at.resolve().name if at else text,
        folder=settings.home / "models",
        report=tell,
        hub=settings.embedding_hub.rstrip("/"),
        cache=Path("~/.cache/huggingface/hub").expanduser(),
        path=at,
    )


def open_provider(settings: Settings, tell: Callable[[str], None]) -> Embedder | None:
    """The deep model, or the provider that was chosen instead."""
    address, model = settings.embedding_endpoint, settings.embedding_model
    named = settings.sources.get("embedding_dimensions", "default") != "default"
    place = settings.home / "embedding" / "services.json"
    match settings.embedding:
        case "auto" | "deep" | "local":
            return load_provider("deep")
        case "http":
            if not address:
                raise errors.InvalidRequest(
                    "embedding = http without embeddingEndpoint",
                    user_message="The address of the embedding service is not set.",
                    next_action="Set SONDE_EMBEDDING_ENDPOINT, e.g. http://127.0.0.1:8121/embed.",
                )
            size = settings.embedding_dimensions
            name = f"http:{model or address}"
            return load_provider(
                "http", address=address, dimensions=size, name=name, model=model, place=place
            )
        case "model":
            return _open_model(settings, tell)
        case "openai":
            options: dict[str, Any] = {"address": address, "model": model}
            return load_provider(
                "openai",
                **{key: value for key, value in options.items() if value},
                dimensions=settings.embedding_dimensions if named else 0,
                place=place,
                read_key=partial(read_key, settings.embedding_key_variable, address),
            )
    return None


def open_project(
    settings: Settings, root: Path, clock: Callable[[], float] = time.monotonic
) -> Project:
    """One project under the settings that hold for it."""
    try:
        folder = project_folder(settings.home, root)
    except OSError as error:
        raise errors.StorageUnusable(f"{settings.home}: {error}") from error
    cortex = apply_cortex_config(settings, root / CORTEX_FILE, _read_cortex_file(root))
    own = apply_project_config(cortex, folder / "config.json")
    chunk_folder, warnings = _find_chunk_folder(own, root), own.warnings
    if chunk_folder is None:
        warnings += (f"chunk files in {own.chunks_dir} lie outside the project; they are not read",)
    rules = Rules(
        include=own.include,
        # views of the project, and as large as it: no part of it
        exclude=(*own.exclude, *exclude_folder(chunk_folder, root)),
        allow=own.allow,
        respect_gitignore=own.respect_gitignore,
        max_file_bytes=own.max_file_size,
    )
    tree = Tree(
        sources=list_sources(root, own.roots, rules, settings.home),
        is_docs=match_any(own.doc_patterns),
        index_docs=own.index_docs,
        chunking=own.chunking,
    )
    for warning in warnings[len(settings.warnings) :]:
        project_log(folder).warning("%s", warning)
    chosen = ProjectSettings(
        tree=tree,
        store_name=_choose_store(own, folder),
        max_files=own.max_files,
        config_text=render_config(public_deny_list()),
        strategy=own.indexing_strategy,
        lazy_idle_s=own.lazy_idle_threshold,
        check_interval_s=own.check_interval * 3600.0,
        watching=own.watching,
        warnings=warnings,
        chunk_folder=chunk_folder,
        needs_chunks=own.sources["chunks_dir"] != "default",
        chunk_embedder=_endpoint(own),
        shared_index=own.shared_index,
    )
    return Project(root, folder, chosen, _open_store, partial(_open_views, folder), clock=clock)


def _choose_store(own: Settings, folder: Path) -> str:
    """The store that is set, else the one that the index is in already."""
    metadata = None
    if own.sources["store"] == "default":
        with suppress(errors.SondeError):  # opening the index reports what is wrong with it
            metadata = load_metadata(folder)
    return metadata.store if metadata else own.store


def _read_cortex_file(root: Path) -> str:
    """The text of the project's `.cortex/config.yml`; empty if it is missing or may not be read."""
    if not os.path.lexists(root / CORTEX_FILE):
        return ""  # the usual case: a folder that may turn out to be no project is not opened
    data = read_document(root, CORTEX_FILE, _CORTEX_FILE_BYTES)
    with suppress(ValueError):
        return "" if isinstance(data, Skipped) else data.decode("utf-8")
    return ""


def _find_chunk_folder(own: Settings, root: Path) -> Path | None:
    """The folder of chunk files: anywhere for a user's setting, inside the project for its own."""
    source = own.sources["chunks_dir"]
    if source != "default" and not source.endswith(CORTEX_FILE):
        return root / team_server.expand_home(own.chunks_dir)
    with suppress(errors.OutsideRoots, errors.SymlinkNotAllowed):
        return resolve_inside(root, own.chunks_dir)
    return None


def _endpoint(own: Settings) -> Embedder | None:
    """The service that embeds queries for chunk files of another model; not for `openai`, whose
    protocol differs."""
    if not own.embedding_endpoint or own.embedding == "openai":
        return None
    from sonde.embedding.services import EndpointEmbedder

    return EndpointEmbedder(own.embedding_endpoint, own.embedding_dimensions)


def _open_views(folder: Path) -> ChunkStore:
    from sonde.chunking.views import VERSION

    return _open_store(folder / f"views-{VERSION}", "sqlite", "code")


def _open_store(folder: Path, name: str, kind: Kind) -> ChunkStore:
    if name == "lance":
        from sonde.stores.chunks.lance import LanceChunkStore

        return LanceChunkStore(folder, kind)
    from sonde.stores.chunks.sqlite import SqliteChunkStore

    return SqliteChunkStore(folder, kind)


def _open_library(settings: Settings, workspace: Workspace, users: Users) -> Library:
    models = KnowledgeModels(
        workspace.prose, workspace.deep, workspace.background_deep, settings.home / "knowledge",
        in_background=workspace.stays,
    )  # fmt: skip
    uploads = settings.home / "uploads"
    if workspace.stays and uploads.is_dir():
        clear_scratch(uploads)
    make = partial(
        Library, uploads=uploads, start=workspace.start, jobs=workspace.jobs,
        results=workspace.results, models=models, max_tokens=workspace.max_tokens,
        list_shared=partial(users.list_given, "knowledge"),
        list_filled=partial(users.list_given, "collections"), agent_notes=settings.agent_notes,
    )  # fmt: skip
    if settings.knowledge_store == "sqlite":
        return make(open_store=partial(_open_knowledge, settings.home))
    lock = threading.Lock()
    opened: list[PostgresDatabase] = []

    def open_store(user: str) -> KnowledgeStore:
        from sonde.stores.knowledge.postgres import PostgresKnowledge
        from sonde.stores.knowledge.postgres.database import PostgresDatabase

        with lock:
            if not opened:
                opened.append(PostgresDatabase(settings.knowledge_store))
        return PostgresKnowledge(opened[0], user)

    def close() -> None:
        while opened:
            opened.pop().close()

    return make(open_store=open_store, close_stores=close)


def _open_knowledge(home: Path, user: str) -> KnowledgeStore:
    from sonde.stores.knowledge.sqlite import SqliteKnowledge

    # a name that is no plain folder's cannot lead anywhere else
    plain = USER_NAME.fullmatch(user)
    name = user if plain else hashlib.sha256(user.encode("utf-8", "replace")).hexdigest()
    return SqliteKnowledge(home / "knowledge" / name)


def _start_follower(workspace: Workspace, project: Project) -> Following:
    from sonde.projects.follow import Follower  # with all that updates an index; for servers only

    return Follower(workspace, project)


def _start_checker(settings: Settings, root: Path) -> Child:
    """A process that checks a project; it answers None with its progress, then its findings."""
    child = Child(__name__)
    child.ask((settings, root))
    return child


def _check_for_parent() -> None:
    """In the child: check the project that the first request names."""
    from sonde.projects.maintenance import check_project

    jobs: list[Job] = []

    def check(settings: Settings, root: Path, work: Work) -> Findings:
        app = build_app(settings, start=root)
        try:
            workspace = app.workspace
            return check_project(workspace, workspace.projects.get(root), work)
        finally:
            app.close()

    def answer(request: tuple[Settings, Path] | None) -> Progress | Findings:
        if request:
            jobs.append(Job("check", partial(check, *request)))
            threading.Thread(target=jobs[0].run, daemon=True).start()
        if jobs[0].wait(timeout_s=_CHECK_REPORT_S):
            findings: Findings = jobs[0].outcome()
            return findings
        return jobs[0].progress

    serve_parent(answer)


if __name__ == "__main__":
    _check_for_parent()
