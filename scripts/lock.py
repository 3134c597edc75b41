"""The lock file: exact versions of everything that development and CI install, with their hashes.

    python scripts/lock.py            write requirements.lock (asks the package index)
    python scripts/lock.py --check    compare it with pyproject.toml (asks nobody)
    python scripts/lock.py --lowest   print the lowest versions that pyproject.toml allows

`pip install --require-hashes -r requirements.lock` installs from any index or mirror; it refuses a
file whose contents differ from what was locked.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from packaging.requirements import Requirement
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
INDEX = "https://pypi.org/simple"
PYTHONS = re.compile(r"py3|py2\.py3|cp3(?:[0-9]|1[123])(?:\.|$)")
"""Wheels for the Pythons that are supported, and those that suit all."""
LINK = re.compile(r'href="([^"#]+)#sha256=([0-9a-f]{64})"')
"""A file on the page of a package, as every index and mirror writes it (PEP 503)."""
HEAD = """\
# Written by `python scripts/lock.py` from pyproject.toml, for development and CI.
# pip install --require-hashes -r requirements.lock && pip install --no-deps --editable .
"""


def read_project() -> dict[str, list[str]]:
    """The requirements of pyproject.toml: those of the package, of each extra, of each group."""
    read = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {
        "": read["project"]["dependencies"],
        **read["project"]["optional-dependencies"],
        "dev": read["dependency-groups"]["dev"],
    }


def resolve() -> dict[str, tuple[Version, str]]:
    """What pip would install today for the Python that runs this: version, hash of the file."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
    command += ["--report", "-", f"{ROOT}[lance,documents,postgres,model]", "--group", "dev"]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, tuple[Version, str]] = {}
    for each in json.loads(done.stdout)["install"]:
        archive = each["download_info"].get("archive_info", {})
        version = Version(each["metadata"]["version"])
        digest = archive.get("hashes", {}).get("sha256", "")
        found[canonicalize_name(each["metadata"]["name"])] = version, digest
    found.pop("sonde")
    return found


def list_hashes(name: str, version: Version) -> list[str]:
    """SHA-256 of every file of this version that a supported Python may install."""
    try:
        with urllib.request.urlopen(f"{INDEX}/{name}/", timeout=60) as answer:
            page = answer.read().decode()
    except urllib.error.HTTPError:
        return []
    files = ((unquote(path.rpartition("/")[2]), digest) for path, digest in LINK.findall(page))
    return sorted({digest for filename, digest in files if is_wanted(filename, version)})


def is_wanted(filename: str, version: Version) -> bool:
    try:
        if not filename.endswith(".whl"):
            return parse_sdist_filename(filename)[1] == version
        _, found, _, tags = parse_wheel_filename(filename)
    except (InvalidSdistFilename, InvalidWheelFilename):
        return False
    return found == version and any(PYTHONS.match(tag.interpreter) for tag in tags)


def write_lock() -> None:
    lines = [HEAD]
    for name, (version, digest) in sorted(resolve().items()):
        # a mirror may have files that the index has not
        hashes = sorted({*list_hashes(name, version), *([digest] if digest else ())})
        if not hashes:
            sys.exit(f"{name} {version} has no hash")
        lines.append(
            " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{h}" for h in hashes)])
        )
    LOCK.write_text("\n".join(lines) + "\n")


def read_lock() -> dict[str, tuple[Version, list[str]]]:
    """Package -> its version and the hashes of its files."""
    found: dict[str, tuple[Version, list[str]]] = {}
    for entry in LOCK.read_text().replace("\\\n", " ").splitlines():
        if entry and not entry.startswith("#"):
            pin, *hashes = entry.split()
            name, _, version = pin.partition("==")
            found[name] = Version(version), [each.removeprefix("--hash=sha256:") for each in hashes]
    return found


def check_lock() -> Iterator[str]:
    """What is wrong with the lock or with the bounds."""
    locked = read_lock()
    for name, (version, hashes) in locked.items():
        if not hashes or not all(re.fullmatch("[0-9a-f]{64}", each) for each in hashes):
            yield f"{name} {version} has no valid hashes"
    for part, texts in read_project().items():
        for requirement in map(Requirement, texts):
            name = canonicalize_name(requirement.name)
            signs = {each.operator for each in requirement.specifier}
            if part != "dev" and signs != {">=", "<"}:
                yield f"{requirement} needs a lower and an upper bound"
            if name not in locked:
                yield f"{name} is not locked; run python scripts/lock.py"
            elif locked[name][0] not in requirement.specifier:
                yield f"{name} is locked at {locked[name][0]}, which {requirement} does not allow"


def list_lowest() -> Iterator[str]:
    for part, texts in read_project().items():
        for requirement in map(Requirement, texts if part != "dev" else ()):
            (least,) = (each.version for each in requirement.specifier if each.operator == ">=")
            yield f"{canonicalize_name(requirement.name)}=={least}"


def main() -> None:
    if sys.argv[1:] == ["--check"]:
        problems = list(check_lock())
        sys.exit("\n".join(problems) if problems else 0)
    elif sys.argv[1:] == ["--lowest"]:
        print("\n".join(list_lowest()))
    else:
        write_lock()


if __name__ == "__main__":
    main()
