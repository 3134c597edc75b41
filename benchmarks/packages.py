"""Source archives by name from the package index, checked against its digests and unpacked."""

from __future__ import annotations

import hashlib
import html
import re
import tarfile
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

INDEX = "https://pypi.org/simple/"


def fetch_archive(file_name: str, folder: Path) -> Path:
    """Download one file of a project, by its full name, unless it is already there."""
    target = folder / file_name
    if target.exists():
        return target
    project = re.split(r"-\d", file_name, maxsplit=1)[0].replace("_", "-").lower()
    page = urllib.parse.urljoin(INDEX, f"{project}/")
    request = urllib.request.Request(page, headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        listing = answer.read().decode()
    found = re.search(rf'href="([^"]+/{re.escape(file_name)}#sha256=([0-9a-f]+))"', listing)
    if not found:
        raise SystemExit(f"{page} lists no {file_name} with a digest")
    place = urllib.parse.urljoin(page, html.unescape(found[1]).partition("#")[0])
    with urllib.request.urlopen(place, timeout=60) as answer:
        content = answer.read()
    if hashlib.sha256(content).hexdigest() != found[2]:
        raise SystemExit(f"{file_name} is not what the index says it is")
    folder.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return target


def unpack_archive(archive: Path, folder: Path) -> None:
    """Unpack a source archive or a wheel; links are left out."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(folder)
        return
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.isfile() or member.isdir():
                tar.extract(member, folder, filter="data")
