"""Formats that knowledge is imported from, and what their parsers share.

A parser turns the bytes of a file into entries. Parsers run in a limited child process
(`knowledge.parsing`): they may be slow, greedy or crash.
"""

from __future__ import annotations

import contextlib
import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from operator import attrgetter
from typing import Any, TypeVar

from sonde.knowledge.retrieval import cut_fields
from sonde.policy.read import decode_text
from sonde.stores.knowledge.base import MEDIA_TYPES, Entry, Piece, Source
from sonde.text.encodings import decode_utf16
from sonde.text.formats import count_of, read_time
from sonde.types import Json, Skipped

MAX_MEMBERS = 20_000  # files of an archive; bounds the time that its parsers take
MAX_UNPACKED_BYTES = 1 << 29  # a quarter of the memory that a parser may use
MAX_RATIO = 200
"""Of unpacked to packed bytes; text compresses to a tenth or so, a bomb to a thousandth."""
MAX_URL_CHARS = 2_000  # the most that browsers and servers agree on
_CREATED = ("created", "date", "created_at", "creation_date", "date created", "created time",
            "published", "upload_date")  # fmt: skip
_MODIFIED = ("updated", "modified", "last_modified", "updated_at", "date modified")
_ADDRESSES = ("canonical", "url", "source", "source_url", "canonical_url", "link", "webpage_url")
_SYMBOL = re.compile(r"(?m)^[ \t]*[\uf000-\uf0ff](?=\s)")
"""A bullet in a font of symbols, at the start of a line."""
_KIND = re.compile(r"[\w .+/-]{1,40}")
_FRONT = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
MAX_FRONT_MATTER_CHARS = 1 << 16  # longer stays text: YAML is slow to parse
MAX_NESTING = 200  # of YAML; the parser would run out of stack
Row = TypeVar("Row")
_list_rest = attrgetter(*(each.name for each in fields(Piece)[2:]))
"""What of a piece stands behind its text and place: `replace` takes ten times as long."""
_NESTING = re.compile(r"[\[\]{}]")
_DASHES = re.compile(r"(?:[-?:][ \t]+){200}")
SAMPLE_BYTES = 1 << 16  # of a file, to guess its encoding by
_FEW_BYTES = 4  # fewer are damage or a sign, and no word in another script
_ASCII = bytes(range(128))
_LINE_ENDS = re.compile(rb"[\r\n<>]")  # and those of markup
_WIDER = {"iso-8859-1": "cp1252", "latin-1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252",
          "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "ks_c_5601-1987": "cp949",
          "euc-kr": "cp949", "iso-8859-9": "cp1254"}  # fmt: skip
"""What programs write where they name the narrower encoding, as browsers read it."""
_SEVEN_BIT = ("iso-2022", "hz", "utf-7")  # encodings whose bytes look like ASCII
_NO_LETTERS = bytes(each for each in range(128) if not chr(each).isalpha())


class RefusedFormat(Exception):
    """A file that is not imported: the name of the reason, and details for the user."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


LEFT_OUT = "left_out"
"""The fact that counts what of an entry could not be read, by kind."""
BY_TESSERACT = "read_by_tesseract"
"""The fact that names what of an entry tesseract read."""
UNREAD = ("scanned page", "unread picture")
"""What tesseract reads once it is installed."""
LOSSES: Mapping[str, str] = {
    "scanned page": "install tesseract with the language of the pages, then import again",
    "unread picture": "install tesseract, then import again: it reads text in pictures",
    "unreadable page": "install its language for tesseract, scan it again, or split the file",
    "damaged page": "open the file in its own program, save it, and import it again",
    "damaged part": "open the file in its own program, save it, and import it again",
    "encrypted part": "save it without a password or signature, and import it again",
    "picture": "text in pictures is not read; import the pictures themselves to have them read",
    "stamp": "a picture without text on a page of a PDF; look at it there",
    "drawing": "handwriting and drawings on a page of a PDF are not read; look at them there",
    "recording": "sound and video are not heard; import a transcript",
    "attached file": "save it and import it: its format is not read",
    "embedded object": "open it in its own program and save it as a file",
    "formula without a result": "open the workbook in a spreadsheet program and save it",
    "tracked deletion": "text that somebody deleted and nobody accepted; accept or reject it",
    "menu": "menus, banners and forms of a web page; nothing to do",
    "message without text": "the export names a sticker, call or file that it does not contain",
    "note that is locked": "unlock it in its program and export it again",
    "row over the limit": "split the table into smaller files",
}
"""What may be left out of an entry, and what to do about it."""
LOSS_OF = {"image": "picture", "audio": "recording", "video": "recording"}  # by media type


@dataclass(frozen=True, slots=True)
class File:
    """A file to parse: its path in the import, its bytes, its modification time (ms)."""

    path: str
    data: bytes
    modified: int = 0
    beside: bytes = b""
    """A file beside it that is needed to read it: the users of a Slack export."""
    is_named: bool = False
    """Whether a person named this very file, and not a folder that it lies in."""
    left_out: list[Skipped] = field(default_factory=list)
    """Parts that a parser could not read, to be named in the report."""
    nested: Callable[[File], Sequence[Entry]] | None = None
    """Reads a file inside this one: an attachment. None inside of one."""

    @property
    def name(self) -> str:
        """Without its folders."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def folder(self) -> str:
        """The name of the folder or archive it lies in; empty at the top."""
        return self.path.split("/")[-2].removesuffix(".zip") if "/" in self.path else ""

    @property
    def stem(self) -> str:
        """Without its last ending."""
        return self.name.rsplit(".", 1)[0] or self.name

    @property
    def suffix(self) -> str:
        """Its ending in lower case, without the dot."""
        return self.name.rsplit(".", 1)[-1].lower() if "." in self.name else ""

    def text(self, declared: str = "") -> str:
        """Its text, in the encoding that it declares if it names one. Raises `RefusedFormat`."""
        text = decode_bytes(self.data, declared)
        if text is None and self.data.count(0) * 100 < len(self.data):  # damage, not a binary file
            text = decode_bytes(self.data.replace(b"\0", b" "), declared)
        if text is None:
            raise RefusedFormat("binary")
        return text.replace("\r\n", "\n").removeprefix("\ufeff")

    def read_nested(self, name: str, data: bytes) -> str:
        """The text of a file inside this one. Raises `RefusedFormat`."""
        if self.nested is None:
            raise RefusedFormat("hostile", "files in files in files")
        entries = self.nested(File(name, data, self.modified))
        return "\n\n".join("".join(piece.text for piece in entry.pieces) for entry in entries)

    def skip_part(self, name: str, detail: str) -> None:
        """Name a part that is damaged; the rest is imported."""
        self.left_out.append(Skipped(f"{self.path}/{name}", "damaged", detail))


def decode_bytes(data: bytes, declared: str = "") -> str | None:
    """Text in the declared encoding if it is in it, else in a guessed one; None if it is binary."""
    if b"\x1b$" in data or declared.lower().startswith(_SEVEN_BIT):
        with contextlib.suppress(LookupError, UnicodeDecodeError):
            return data.decode(declared or "iso2022_jp_2")
    has_nul = b"\0" in data[:SAMPLE_BYTES]
    with contextlib.suppress(UnicodeDecodeError):
        return decode_utf16(data) or decode_text(data) if has_nul else data.decode("utf-8-sig")
    if declared:
        with contextlib.suppress(LookupError, UnicodeDecodeError):
            return data.decode(_WIDER.get(declared.strip().lower(), declared))
    text = data.decode("utf-8", "replace")
    if text.count("\ufffd") * 50 < len(text) - len(text.encode("ascii", "ignore")):
        return None if has_nul else text.removeprefix("\ufeff")
    return _guess_encoding(data) or decode_text(data)


def _guess_encoding(data: bytes) -> str | None:
    """Text in a legacy encoding of another script; None if most of its letters are Latin."""
    lines = _LINE_ENDS.split(data[:SAMPLE_BYTES])
    found = b"\n".join(line for line in lines if not line.isascii())
    high = len(found.translate(None, _ASCII))
    if high * 2 < len(found.translate(None, _NO_LETTERS)) or high < _FEW_BYTES or b"\0" in found:
        return None
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return None
    best = from_bytes(found, cp_exclusion=["utf_16", "utf_32", "utf_7"]).best()
    # one that spells ASCII otherwise, as EBCDIC does, is no guess for our formats
    fits = best and b'aZ{"<'.decode(best.encoding, "replace") == 'aZ{"<'
    return data.decode(best.encoding, "replace") if best and fits else None


def make_each(
    file: File, kind: str, rows: Iterable[Row], make: Callable[[Row], Iterable[Entry]]
) -> Iterator[Entry]:
    """The entries of a container's rows. One that cannot be read is left out and named."""
    is_any = False
    for number, row in enumerate(rows, 1):
        made: list[Entry] = []
        try:
            made = list(make(row))
        except RefusedFormat as error:
            if error.reason != "no_text":
                file.skip_part(f"{kind} {number}", error.detail or error.reason)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - of this row, not of the others
            file.skip_part(f"{kind} {number}", f"{type(error).__name__}: {error}")
        is_any = is_any or bool(made)
        yield from made
    if not is_any:
        raise RefusedFormat("broken" if file.left_out else "no_text", f"no {kind} that can be read")


def split_front(text: str) -> tuple[dict[str, Any], str]:
    """Front matter and the rest; front matter that is no mapping stays in the text."""
    found = _FRONT.match(text)
    if not found or len(found[0]) > MAX_FRONT_MATTER_CHARS:
        return {}, text
    try:
        import yaml
    except ImportError:
        return _read_plain(found[1] or ""), text[found.end() :]
    try:
        front = load_yaml(found[1] or "")
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, text
    if isinstance(front, dict):
        return front_matter_to_json(front), text[found.end() :]
    return {}, text


def read_times(said: Mapping[str, Any], file: File) -> dict[str, int]:
    """When an entry was made and changed: as it says, else as its file does."""
    created = next((read_time(str(said[key])) for key in _CREATED if said.get(key)), None)
    modified = next((read_time(str(said[key])) for key in _MODIFIED if said.get(key)), None)
    return {"created_at": created or file.modified, "last_modified": modified or file.modified}


def list_said_tags(said: Mapping[str, Any]) -> list[str]:
    """The tags that front matter names, as a list or with commas."""
    tags: list[str] = []
    for key in ("tags", "tag", "keywords"):
        given = said.get(key) or []
        if isinstance(given, str):
            given = re.split(r"[,;]\s*|\s(?=#)", given) if "," in given else given.split()
        tags += [str(tag) for tag in given] if isinstance(given, list) else []
    cleaned = (tag.strip().strip("#[]").strip() for tag in tags)
    return list(dict.fromkeys(tag for tag in cleaned if tag))


def read_media_facts(said: Mapping[str, Any], file: File, kind: str) -> Json:
    """What a document says of itself: its address, kind, tags and times."""
    addresses = (str(said.get(key) or "").strip() for key in _ADDRESSES)
    urls = (text for text in addresses if text.lower().startswith(("https://", "http://")))
    given, named = (str(said.get(key) or "").strip().lower() for key in ("media_type", "type"))
    kind = named if named in MEDIA_TYPES else kind
    url, kind = next(urls, "")[:MAX_URL_CHARS], given if _KIND.fullmatch(given) else kind
    known = {"url": url, "media_type": kind, "tags": tuple(list_said_tags(said))}
    return known | read_times(said, file)


def load_yaml(text: str) -> Any:
    """YAML as plain values, by libyaml where it is installed: ten times as fast."""
    import yaml

    depth = deepest = 0
    for mark in _NESTING.findall(text):
        depth += 1 if mark in "[{" else -1 if mark in "]}" else 0
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING or _DASHES.search(text):
        raise ValueError("nested too deeply")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, loader)  # noqa: S506 - both are safe


def _read_plain(text: str) -> dict[str, str | list[str]]:
    """Front matter of plain `key: value` lines, where YAML is not installed."""
    front: dict[str, str | list[str]] = {}
    key = ""
    for line in text.splitlines():
        if re.match(r"\s*- ", line) and key:
            front[key] = [*([] if isinstance(front[key], str) else front[key]), line.strip()[2:]]
        elif ":" in line and not line.startswith((" ", "#")):
            key, _, value = (part.strip() for part in line.partition(":"))
            items = [item.strip() for item in value[1:-1].split(",")]
            front[key] = items if value[:1] == "[" and value[-1] == "]" else value.strip("\"'")
    return front


def front_matter_to_json(value: Any) -> Any:
    """A YAML value as JSON can hold it."""
    if isinstance(value, Mapping):
        return {str(key): front_matter_to_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [front_matter_to_json(each) for each in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def list_dicts(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list in JSON; none if it is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def write_link(shown: str, target: str) -> str:
    """A link as in Markdown, unless it shows its address."""
    is_link = target.startswith(("http", "mailto:")) and shown.strip() not in target
    return f"[{shown}]({target})" if is_link and shown.strip() else shown


def open_archive(data: bytes, most: int = MAX_UNPACKED_BYTES) -> zipfile.ZipFile:
    """A ZIP whose contents are bounded; `RefusedFormat` for bombs, passwords and broken ones."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise RefusedFormat("broken", str(error)) from error
    size = sum(member.file_size for member in members)
    packed = sum(member.compress_size for member in members)
    if len(members) > MAX_MEMBERS or size > most:
        raise RefusedFormat("bomb", f"{len(members)} files, {size} bytes unpacked")
    if size > (1 << 22) and size > packed * MAX_RATIO:
        raise RefusedFormat("bomb", f"{packed} bytes unpack to {size}")
    if any(member.flag_bits & 1 for member in members):
        raise RefusedFormat("encrypted")
    return archive


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """One file of an archive, never more than its directory says."""
    try:
        with archive.open(name) as member:
            size = archive.getinfo(name).file_size
            data = member.read(size + 1)
    except (KeyError, zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError,
            RuntimeError) as error:  # fmt: skip
        raise RefusedFormat("broken", f"{name}: {error}") from error
    if len(data) > size:
        raise RefusedFormat("bomb", f"{name} is larger than it says")
    return data


def parse_xml(data: bytes) -> Any:
    """The root of an XML document; entities and external parts are refused."""
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    try:
        return fromstring(data, forbid_dtd=False)
    except DefusedXmlException as error:
        raise RefusedFormat("hostile", type(error).__name__) from error
    except (ParseError, ValueError) as error:
        raise RefusedFormat("broken", str(error)) from error


def make_entry(source: Source, title: str, text: str, file: File, **facts: Any) -> Entry:
    """An entry of one text."""
    return make_fields(source, title, {"": text}, file, **facts)


def make_document(
    file: File, kind: str, title: str, text: str, *, author: str = "", keywords: str = "",
    lost: Counter[str] | None = None, **known: Any,
) -> Entry:  # fmt: skip
    """A media entry; `lost` counts what was left out of it. `RefusedFormat` if it has no text."""
    lost = +(lost or Counter())
    facts = {"author": author, LEFT_OUT: dict(lost), **known.pop("facts", {})}
    if keywords:
        known["tags"] = tuple(tag for each in re.split("[,;]", keywords) if (tag := each.strip()))
    if not text.strip():
        if lost["scanned page"]:
            raise RefusedFormat("scanned", count_of(lost["scanned page"], "page"))
        raise RefusedFormat("no_text", ", ".join(count_of(n, kind) for kind, n in lost.items()))
    known = {name: value for name, value in known.items() if value}
    text = _SYMBOL.sub("•", text)
    return make_entry("media", title.strip() or file.stem, text, file, facts=facts,
                      **{"media_type": kind} | known)  # fmt: skip


def make_fields(
    source: Source, title: str, fields: Mapping[str, str], file: File, **facts: Any
) -> Entry:
    """An entry of several fields. Facts without a value are left out.

    Times are those of the file where nothing better is known.
    """
    known = {name: fact for name, fact in facts.pop("facts", {}).items() if fact}
    times = {"created_at": file.modified, "last_modified": file.modified}
    title = " ".join(title.split())
    return Entry(source, title, cut_fields(fields), facts=known, **times | facts)


def make_chat(title: str, messages: Sequence[Piece], file: File, **facts: Any) -> Entry:
    """A conversation of messages in order. Facts without a value are left out."""
    facts["facts"] = {name: fact for name, fact in facts.get("facts", {}).items() if fact}
    placed = tuple(Piece(message.text, at, *_list_rest(message))
                   for at, message in enumerate(messages))  # fmt: skip
    times = [message.created_at for message in placed if message.created_at]
    facts["created_at"] = facts.get("created_at") or min(times, default=file.modified)
    facts["last_modified"] = facts.get("last_modified") or max(times, default=file.modified)
    return Entry("chats", " ".join(title.split()), placed, **facts)
