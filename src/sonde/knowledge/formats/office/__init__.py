"""Office files: shared readers of zipped XML and of OLE files (Office 97 to 2003)."""

from __future__ import annotations

import io
import posixpath
import struct
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
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

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # signature of an OLE file
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_STRICT = (b"http://purl.oclc.org/ooxml/", b"http://schemas.openxmlformats.org/")
_RELATION = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"


def open_office(file: File) -> zipfile.ZipFile:
    """Open the archive of an office file. Raises `RefusedFormat`."""
    if file.data.startswith(OLE):  # the container of an encrypted one
        raise RefusedFormat("encrypted")
    return open_archive(file.data)


def read_part(archive: zipfile.ZipFile, name: str, file: File | None = None) -> Any:
    """The root of an XML part; None if it is missing. With `file`, a damaged part is reported."""
    if name not in archive.NameToInfo:
        return None
    try:
        data = read_member(archive, name)
        # strict OOXML differs in its namespaces alone
        return parse_xml(data.replace(*_STRICT) if _STRICT[0] in data[:4096] else data)
    except RefusedFormat as error:
        if file is None or error.reason != "broken":
            raise
        file.skip_part(name, error.detail)
        return None


def read_relations(
    archive: zipfile.ZipFile, name: str, file: File | None = None
) -> Mapping[str, tuple[str, str]]:
    """The relations of a part by id: target, and last word of the type."""
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
    """The entry of an office file, with its properties."""
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
    """The cells of a row on one line."""
    return " | ".join(" ".join(cell.split()) for cell in cells).rstrip(" |")


def is_legacy(data: bytes) -> bool:
    """Whether a file is in an OLE format by its content, and not an encrypted newer one."""
    return data.startswith(OLE) and "EncryptedPackage".encode("utf-16-le") not in data


def open_ole(file: File) -> Any:
    """Open an OLE file. Raises `RefusedFormat`."""
    import olefile

    if not file.data.startswith(OLE):
        raise RefusedFormat("broken", "not a file of Office 97 to 2003")
    try:
        return olefile.OleFileIO(io.BytesIO(file.data))
    except (OSError, ValueError, struct.error) as error:
        raise RefusedFormat("broken", str(error)) from error


def read_stream(archive: Any, name: str) -> bytes:
    """A stream of an OLE file. Raises `RefusedFormat`."""
    if not archive.exists(name):
        raise RefusedFormat("broken", f"no part {name}")
    data: bytes = archive.openstream(name).read()
    return data


def make_legacy(file: File, archive: Any, text: str, lost: Counter[str]) -> Entry:
    """The entry of an OLE file, with its properties."""
    said: dict[str, Any] = {}
    created, encoding = 0, "cp1252"
    with suppress(OSError, ValueError, AttributeError, TypeError):
        known = archive.get_metadata()
        said = {name: getattr(known, name) for name in ("title", "author", "keywords")}
        created = max(read_time(known.create_time) or 0, 0)  # an unset time is in the year 1601
        encoding = f"cp{known.codepage & 0xFFFF}" if known.codepage else "cp1252"
    encoding = "utf-8" if encoding == "cp65001" else encoding
    rows = ((name, value) for name, value in said.items() if isinstance(value, bytes))
    words = {name: decode_property(value, encoding) for name, value in rows}
    title = words.pop("title", "")
    return make_document(file, file.suffix, title, text, lost=lost, created_at=created, **words)


def decode_property(value: bytes, encoding: str) -> str:
    """Decode a property without padding; an unknown encoding counts as cp1252."""
    try:
        return value.decode(encoding, "replace").strip("\0 ")
    except LookupError:
        return value.decode("cp1252", "replace").strip("\0 ")
