"""Office files: what the readers of zipped XML share."""

from __future__ import annotations

import posixpath
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sonde.knowledge.formats import (
    File,
    RefusedFormat,
    make_document,
    open_archive,
    parse_xml,
    read_member,
)
from sonde.stores.knowledge.base import Entry
from sonde.text.formats import read_time

R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_STRICT = (b"http://purl.oclc.org/ooxml/", b"http://schemas.openxmlformats.org/")
_RELATION = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"


def open_office(file: File) -> zipfile.ZipFile:
    """The archive of an office file. Raises `RefusedFormat`."""
    if file.data.startswith(b"\xd0\xcf\x11\xe0"):  # an OLE file: packed with a password
        raise RefusedFormat("encrypted")
    return open_archive(file.data)


def read_part(archive: zipfile.ZipFile, name: str, file: File | None = None) -> Any:
    """The root of a part; None if there is none. A damaged one is named, if a `file` is given."""
    if name not in archive.NameToInfo:
        return None
    try:
        data = read_member(archive, name)
        # the strict form of the standard has the same names under another address
        return parse_xml(data.replace(*_STRICT) if _STRICT[0] in data[:4096] else data)
    except RefusedFormat as error:
        if file is None or error.reason != "broken":
            raise
        file.skip_part(name, error.detail)
        return None


def read_relations(
    archive: zipfile.ZipFile, name: str, file: File | None = None
) -> Mapping[str, tuple[str, str]]:
    """The targets of a part's relations by id, each with the last word of its kind."""
    folder, base = posixpath.split(name)
    root = read_part(archive, posixpath.join(folder, f"_rels/{base}.rels"), file)
    found: dict[str, tuple[str, str]] = {}
    for each in root.iter(_RELATION) if root is not None else ():
        target = each.get("Target", "")
        if each.get("TargetMode") != "External":
            joined = target[1:] if target.startswith("/") else posixpath.join(folder, target)
            target = posixpath.normpath(joined)
        found[each.get("Id", "")] = target, each.get("Type", "").rsplit("/", 1)[-1]
    return found


def find_main(archive: zipfile.ZipFile) -> str:
    """The name of the main part. Raises `RefusedFormat`."""
    for target, kind in read_relations(archive, "").values():
        if kind == "officeDocument":
            return target
    raise RefusedFormat("broken", "no main part")


def make_office(
    file: File, kind: str, archive: zipfile.ZipFile, text: str, lost: Counter[str]
) -> Entry:
    """An entry with what the properties of an office file say."""
    said: dict[str, str] = {}
    core = read_part(archive, "docProps/core.xml", file)
    for each in core.iter() if core is not None else ():
        said[each.tag.rsplit("}", 1)[-1]] = (each.text or "").strip()
    lost["damaged part"] += len(file.left_out) - lost["damaged page"]
    return make_document(
        file, kind, said.get("title", ""), text, lost=lost, author=said.get("creator", ""),
        keywords=said.get("keywords", ""), created_at=read_time(said.get("created", "")),
        last_modified=read_time(said.get("modified", "")),
    )  # fmt: skip


def read_drawn_texts(root: Any) -> Iterator[str]:
    """The texts of a chart or a diagram."""
    for each in root.iter() if root is not None else ():
        if each.tag.endswith("}p") and "drawingml/2006/main" in each.tag:
            text = "".join(part.text or "" for part in each.iter() if part.tag.endswith("}t"))
            yield from [text] if text.strip() else []
        elif each.tag.endswith("}v") and "chart" in each.tag and each.text:
            yield each.text


def write_row(cells: Sequence[str]) -> str:
    """A row of a table as a line."""
    return " | ".join(" ".join(cell.split()) for cell in cells).rstrip(" |")
