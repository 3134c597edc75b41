"""The bundle of a release for MCP hosts (`sonde.mcpb`), and its entry in the MCP registry.

A bundle is a zip with a manifest. This one holds the wheel, a project file that names it by its
path, and three lines that start the server; the host's `uv` installs what the wheel requires.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

from sonde.mcp.listing import DEFAULT_TOOLSETS
from sonde.tools import TOOLS
from sonde.version import __version__

ABOUT = "Local search for agents: code, documents, notes and disks, in small exact answers"
STARTED = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the bundle: the same wheel makes the same bundle."""
SERVER = """\
import sys

from sonde.cli.main import main

sys.exit(main(["mcp", *sys.argv[1:]]))
"""


def write_manifest() -> dict[str, object]:
    return {
        "manifest_version": "0.4",
        "name": "sonde",
        "display_name": "sonde",
        "version": __version__,
        "description": ABOUT,
        "author": {"name": "The sonde authors"},
        "license": "Apache-2.0",
        "keywords": ["search", "code", "documents", "notes", "local"],
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", "server.py",
                         "--project", "${user_config.project}"],
            },
        },
        "tools": [
            {"name": tool.name, "description": tool.description}
            for tool in TOOLS
            if tool.toolset in DEFAULT_TOOLSETS and tool.listed
        ],
        "compatibility": {"platforms": ["linux"], "runtimes": {"python": ">=3.11"}},
        "user_config": {
            "project": {
                "type": "directory",
                "title": "Project",
                "description": "The folder to search: a repository, or any folder of yours",
                "required": True,
            }
        },
    }  # fmt: skip


def write_project(wheel: str) -> str:
    return (
        f'[project]\nname = "sonde-bundle"\nversion = "{__version__}"\n'
        'requires-python = ">=3.11"\ndependencies = ["sonde"]\n\n'
        f'[tool.uv]\npackage = false\n\n[tool.uv.sources]\nsonde = {{ path = "{wheel}" }}\n'
    )


def write_bundle(wheel: Path, path: Path) -> Path:
    """The bundle at `path`."""
    texts = {
        "manifest.json": json.dumps(write_manifest(), indent=1, ensure_ascii=False) + "\n",
        "pyproject.toml": write_project(wheel.name),
        "server.py": SERVER,
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in texts.items():
            bundle.writestr(zipfile.ZipInfo(name, STARTED), text, zipfile.ZIP_DEFLATED)
        # a wheel is compressed already
        bundle.writestr(zipfile.ZipInfo(wheel.name, STARTED), wheel.read_bytes())
    return path


def write_server_entry(home: str, bundle: Path, path: Path) -> None:
    """`server.json`: where the bundle is downloaded from, under the reversed name of its host."""
    namespace = ".".join(reversed((urlsplit(home).hostname or "").split(".")))
    entry = {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": f"{namespace}/sonde",
        "title": "sonde",
        "description": ABOUT,
        "version": __version__,
        "websiteUrl": home,
        "packages": [
            {
                "registryType": "mcpb",
                "identifier": f"{home}/releases/download/v{__version__}/{bundle.name}",
                "version": __version__,
                "fileSha256": hashlib.sha256(bundle.read_bytes()).hexdigest(),
                "transport": {"type": "stdio"},
            }
        ],
    }
    path.write_text(json.dumps(entry, indent=1) + "\n")
