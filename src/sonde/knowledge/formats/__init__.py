"""Import formats: what their parsers share.

A parser turns the bytes of a file into entries. Parsers run in a limited child process
(`knowledge.parsing`), since they may be slow, use much memory, or crash.
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

MAX_MEMBERS = 20_000  # files of an archive; bounds the time to parse it
MAX_UNPACKED_BYTES = 1 << 29  # a quarter of the memory that a parser may use
MAX_RATIO = 200
"""Unpacked to packed bytes; text compresses to about a tenth, a bomb to a thousandth."""
MAX_URL_CHARS = 2_000  # the length that browsers and servers agree on
_CREATED = ("created", "date", "created_at", "creation_date", "date created", "created time",
            "published", "upload_date")  # fmt: skip
_MODIFIED = ("updated", "modified", "last_modified", "updated_at", "date modified")
_ADDRESSES = ("canonical", "url", "source", "source_url", "canonical_url", "link", "webpage_url")
_SYMBOL = re.compile(r"(?m)^[ \t]*[\uf000-\uf0ff](?=\s)")
"""A bullet of a symbol font, at the start of a line."""
_KIND = re.compile(r"[\w .+/-]{1,40}")
_FRONT = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
MAX_FRONT_MATTER_CHARS = 1 << 16  # longer front matter stays text: YAML is slow to parse
MAX_NESTING = 200  # of YAML, whose parser would run out of stack
Row = TypeVar("Row")
_list_rest = attrgetter(*(each.name for each in fields(Piece)[2:]))
"""The fields of a piece after text and place; a copy by `replace` takes ten times as long."""
_NESTING = re.compile(r"[\[\]{}]")
_DASHES = re.compile(r"(?:[-?:][ \t]+){200}")
SAMPLE_BYTES = 1 << 16  # of a file, from which its encoding is guessed
_FEW_BYTES = 4  # fewer are damage or a symbol, not a word in another script
_ASCII = bytes(range(128))
_LINE_ENDS = re.compile(rb"[\r\n<>]")  # of lines and of tags
_WIDER = {"iso-8859-1": "cp1252", "latin-1": "cp1252", "us-ascii": "cp1252", "ascii": "cp1252",
          "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "ks_c_5601-1987": "cp949",
          "euc-kr": "cp949", "iso-8859-9": "cp1254"}  # fmt: skip
"""The encoding that programs use when they declare a narrower one, as browsers read it."""
_SEVEN_BIT = ("iso-2022", "hz", "utf-7")  # encodings that look like ASCII
_NO_LETTERS = bytes(each for each in range(128) if not chr(each).isalpha())


class RefusedFormat(Exception):
    """A file that cannot be imported: a reason of `importing.REASONS`, details for the user."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


LEFT_OUT = "left_out"
"""The fact with the number of unreadable parts of an entry, by kind."""
BY_TESSERACT = "read_by_tesseract"
"""The fact that names the parts of an entry read by tesseract."""
UNREAD = ("scanned page", "unread picture")
"""Kinds of parts that tesseract can read."""
LOSSES: Mapping[str, str] = {
    "scanned page": "install tesseract with the language of the pages, then import again",
    "unread picture": "install tesseract, then import again: it reads text in pictures",
    "unreadable page": "install its language for tesseract, scan it again, or split the file",
    "damaged page": "open the file in its own program, save it, and import it again",
    "damaged part": "open the file in its own program, save it, and import it again",
    "encrypted part": "save it without a password or signature, and import it again",
    "picture": "text in pictures is not read; import the pictures themselves to have them read",
    "stamp": "stamps without text on a page of a PDF are not read; open the file to see them",
    "drawing": "handwriting and drawings on a page of a PDF are not read; open it to see them",
    "recording": "sound and video are not transcribed; import a transcript",
    "attached file": "save it and import it: its format is not read",
    "embedded object": "open it in its own program and save it as a file",
    "formula without a result": "open the workbook in a spreadsheet program and save it",
    "tracked deletion": "accept or reject the change in its program to keep or drop the text",
    "menu": "navigation, banners and forms around an article; there is nothing to do",
    "message without text": "the export names a sticker, call or file that it does not contain",
    "locked note": "unlock it in its program and export it again",
    "row over the limit": "split the table into smaller files",
}
"""Kinds of parts that may be missing from an entry, and advice for the user."""
LOSS_OF = {"image": "picture", "audio": "recording", "video": "recording"}  # by media type


@dataclass(frozen=True, slots=True)
class File:
    """A file to parse: its path in the import, its bytes, its modification time (ms)."""

    path: str
    data: bytes
    modified: int = 0
    beside: bytes = b""
    """Another file needed to parse this one: the list of users of an export of Slack."""
    is_named: bool = False
    """Whether the user named this file itself, not a folder around it."""
    left_out: list[Skipped] = field(default_factory=list)
    """Unreadable parts, for the report."""
    nested: Callable[[File], Sequence[Entry]] | None = None
    """Parses an attachment; None within an attachment."""

    @property
    def name(self) -> str:
        """The name without folders."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def folder(self) -> str:
        """The name of its folder or archive; empty at the top."""
        return self.path.split("/")[-2].removesuffix(".zip") if "/" in self.path else ""

    @property
    def stem(self) -> str:
        """The name without its last ending."""
        return self.name.rsplit(".", 1)[0] or self.name

    @property
    def suffix(self) -> str:
        """The ending in lower case, without the dot."""
        return self.name.rsplit(".", 1)[-1].lower() if "." in self.name else ""

    def text(self, declared: str = "") -> str:
        """The text, in the declared or else a guessed encoding. Raises `RefusedFormat`."""
        text = decode_bytes(self.data, declared)
        if text is None and self.data.count(0) * 100 < len(self.data):  # damage, not a binary file
            text = decode_bytes(self.data.replace(b"\0", b" "), declared)
        if text is None:
            raise RefusedFormat("binary")
        return text.replace("\r\n", "\n").removeprefix("\ufeff")

    def read_nested(self, name: str, data: bytes) -> str:
        """The text of an attachment. Raises `RefusedFormat`."""
        if self.nested is None:
            raise RefusedFormat("hostile", "files in files in files")
        entries = self.nested(File(name, data, self.modified))
        return "\n\n".join("".join(piece.text for piece in entry.pieces) for entry in entries)

    def skip_part(self, name: str, detail: str) -> None:
        """Report a damaged part; the rest of the file is imported."""
        self.left_out.append(Skipped(f"{self.path}/{name}", "damaged", detail))


def decode_bytes(data: bytes, declared: str = "") -> str | None:
    """Decode text as declared, or else by a guess; None if it is binary."""
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
    """Decode text of a non-Latin script; None if most letters are Latin."""
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
    # every format here has ASCII in it, so EBCDIC is a wrong guess
    fits = best and b'aZ{"<'.decode(best.encoding, "replace") == 'aZ{"<'
    return data.decode(best.encoding, "replace") if best and fits else None


def make_each(
    file: File, kind: str, rows: Iterable[Row], make: Callable[[Row], Iterable[Entry]]
) -> Iterator[Entry]:
    """The entries made of the rows of a file; skips and reports rows that cannot be read."""
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
        except Exception as error:  # noqa: BLE001 - a damaged row does not affect the others
            file.skip_part(f"{kind} {number}", f"{type(error).__name__}: {error}")
        is_any = is_any or bool(made)
        yield from made
    if not is_any:
        raise RefusedFormat("broken" if file.left_out else "no_text", f"no {kind} that can be read")


def split_front(text: str) -> tuple[dict[str, Any], str]:
    """Split off front matter; it stays in the text unless it is a mapping."""
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
    """Times of creation and change from front matter, or else those of the file."""
    created = next((read_time(str(said[key])) for key in _CREATED if said.get(key)), None)
    modified = next((read_time(str(said[key])) for key in _MODIFIED if said.get(key)), None)
    return {"created_at": created or file.modified, "last_modified": modified or file.modified}


def list_said_tags(said: Mapping[str, Any]) -> list[str]:
    """The tags in front matter, a list or a text with commas or spaces."""
    tags: list[str] = []
    for key in ("tags", "tag", "keywords"):
        given = said.get(key) or []
        if isinstance(given, str):
            given = re.split(r"[,;]\s*|\s(?=#)", given) if "," in given else given.split()
        tags += [str(tag) for tag in given] if isinstance(given, list) else []
    cleaned = (tag.strip().strip("#[]").strip() for tag in tags)
    return list(dict.fromkeys(tag for tag in cleaned if tag))


def read_media_facts(said: Mapping[str, Any], file: File, kind: str) -> Json:
    """URL, media type, tags and times from a document's metadata."""
    addresses = (str(said.get(key) or "").strip() for key in _ADDRESSES)
    urls = (text for text in addresses if text.lower().startswith(("https://", "http://")))
    given, named = (str(said.get(key) or "").strip().lower() for key in ("media_type", "type"))
    kind = named if named in MEDIA_TYPES else kind
    url, kind = next(urls, "")[:MAX_URL_CHARS], given if _KIND.fullmatch(given) else kind
    known = {"url": url, "media_type": kind, "tags": tuple(list_said_tags(said))}
    return known | read_times(said, file)


def load_yaml(text: str) -> Any:
    """Parse YAML to plain values, by libyaml if it is installed: ten times as fast."""
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
    """Parse plain `key: value` lines, for installations without YAML."""
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
    """A YAML value with types that JSON has."""
    if isinstance(value, Mapping):
        return {str(key): front_matter_to_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [front_matter_to_json(each) for each in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def list_dicts(value: Any) -> list[Mapping[str, Any]]:
    """The objects in a JSON list; empty for any other value."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def write_link(shown: str, target: str) -> str:
    """A Markdown link, or just its text if that shows the address."""
    is_link = target.startswith(("http", "mailto:")) and shown.strip() not in target
    return f"[{shown}]({target})" if is_link and shown.strip() else shown


def open_archive(data: bytes, most: int = MAX_UNPACKED_BYTES) -> zipfile.ZipFile:
    """Open a ZIP. Raises `RefusedFormat` for bombs, encrypted and broken ones."""
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
    """Read a file of an archive, at most as much as the directory announces."""
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
    """Parse XML; refuses entities and external parts."""
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    try:
        return fromstring(data, forbid_dtd=False)
    except DefusedXmlException as error:
        raise RefusedFormat("hostile", type(error).__name__) from error
    except (ParseError, ValueError) as error:
        raise RefusedFormat("broken", str(error)) from error


def make_document(
    file: File, kind: str, title: str, text: str, *, author: str = "", keywords: str = "",
    lost: Counter[str] | None = None, **known: Any,
) -> Entry:  # fmt: skip
    """A media entry; `lost` counts its unreadable parts. Raises `RefusedFormat` without text."""
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


def make_entry(
    source: Source, title: str, text: str | Mapping[str, str], file: File, **facts: Any
) -> Entry:
    """An entry of a text, or of several by field. Facts without a value are left out.

    Times are those of the file unless `facts` has others.
    """
    fields = {"": text} if isinstance(text, str) else text
    known = {name: fact for name, fact in facts.pop("facts", {}).items() if fact}
    times = {"created_at": file.modified, "last_modified": file.modified}
    title = " ".join(title.split())
    return Entry(source, title, cut_fields(fields), facts=known, **times | facts)


def make_chat(title: str, messages: Sequence[Piece], file: File, **facts: Any) -> Entry:
    """A conversation; facts without a value are left out."""
    facts["facts"] = {name: fact for name, fact in facts.get("facts", {}).items() if fact}
    placed = tuple(Piece(message.text, at, *_list_rest(message))
                   for at, message in enumerate(messages))  # fmt: skip
    times = [message.created_at for message in placed if message.created_at]
    facts["created_at"] = facts.get("created_at") or min(times, default=file.modified)
    facts["last_modified"] = facts.get("last_modified") or max(times, default=file.modified)
    return Entry("chats", " ".join(title.split()), placed, **facts)
