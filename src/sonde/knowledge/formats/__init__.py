"""Formats that knowledge is imported from, and what their parsers share.

A parser turns the bytes of a file into entries. Parsers run in a limited child process
(`knowledge.parsing`): they may be slow, greedy or crash.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from html.parser import HTMLParser
from typing import Any

from sonde.knowledge.retrieval import cut_fields
from sonde.policy.read import decode_text
from sonde.stores.knowledge.base import MEDIA_TYPES, Entry, Piece, Source
from sonde.text.formats import read_time
from sonde.types import Json

MAX_MEMBERS = 20_000  # files of an archive; bounds the time that its parsers take
MAX_UNPACKED_BYTES = 1 << 29  # a quarter of the memory that a parser may use
MAX_RATIO = 200
"""Of unpacked to packed bytes; text compresses to a tenth or so, a bomb to a thousandth."""
MAX_URL_CHARS = 2_000  # the most that browsers and servers agree on
_CREATED = ("created", "date", "created_at", "creation_date", "date created", "created time",
            "published", "upload_date")  # fmt: skip
_MODIFIED = ("updated", "modified", "last_modified", "updated_at", "date modified")
_ADDRESSES = ("canonical", "url", "source", "source_url", "canonical_url", "link", "webpage_url")
_META = {
    "og:url": "url", "og:type": "type", "article:published_time": "created",
    "article:modified_time": "modified", "datepublished": "created", "datemodified": "modified",
    "date": "date", "keywords": "keywords", "author": "author",
}  # fmt: skip
"""The names of what a page says in its head, as front matter has them."""
_KIND = re.compile(r"[\w .+/-]{1,40}")
_SAVED_FROM = re.compile(
    r"(?:saved from url=\(\d{1,9}\)|saved with SingleFile\s{1,9}url:\s{1,9})(https?://[^\s>]{1,2000})"
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_OPEN = re.compile(r"<(?=[^<>]*+(?:<|\Z))")
MAX_OPEN_TAGS = 200  # unclosed tags; for each the HTML parser scans to the end of the text
_FRONT = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
MAX_FRONT_MATTER_CHARS = 1 << 16  # longer stays text: YAML is slow to parse
MAX_NESTING = 200  # of YAML; the parser would run out of stack
_NESTING = re.compile(r"[\[\]{}]")
_DASHES = re.compile(r"(?:[-?:][ \t]+){200}")
SAMPLE_BYTES = 1 << 16  # of a file, to guess its encoding by
_ASCII = bytes(range(128))
_NO_LETTERS = bytes(each for each in range(128) if not chr(each).isalpha())


class RefusedFormat(Exception):
    """A file that is not imported: the name of the reason, and details for the user."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class File:
    """A file to parse: its path in the import, its bytes, its modification time (ms)."""

    path: str
    data: bytes
    modified: int = 0
    beside: bytes = b""
    """A file beside it that is needed to read it: the users of a Slack export."""

    @property
    def name(self) -> str:
        """Without its folders."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def stem(self) -> str:
        """Without its last ending."""
        return self.name.rsplit(".", 1)[0] or self.name

    @property
    def suffix(self) -> str:
        """Its ending in lower case, without the dot."""
        return self.name.rsplit(".", 1)[-1].lower() if "." in self.name else ""

    def text(self) -> str:
        """Its text. Raises `RefusedFormat` for a binary file."""
        text = _decode_other_script(self.data) or decode_text(self.data)
        if text is None:
            raise RefusedFormat("binary")
        return text.replace("\r\n", "\n").removeprefix("\ufeff")


def _decode_other_script(data: bytes) -> str | None:
    """Text in a legacy encoding, if most of its letters are not Latin; else None."""
    sample = data[:SAMPLE_BYTES]
    high = len(sample.translate(None, _ASCII))
    letters = len(sample.translate(None, _NO_LETTERS))
    if high * 3 < letters or not high or b"\0" in sample:
        return None
    with contextlib.suppress(UnicodeDecodeError):
        data.decode("utf-8")
        return None
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return None
    found = from_bytes(sample).best()
    return data.decode(found.encoding, "replace") if found else None


def load_json(file: File) -> Any:
    """The file as JSON. Raises `RefusedFormat`."""
    try:
        return json.loads(file.text())
    except (ValueError, RecursionError) as error:
        raise RefusedFormat("broken", f"not JSON: {error}") from error


def read_lines(file: File) -> list[Mapping[str, Any]]:
    """The objects of a file of JSON lines; a torn last line is left out."""
    rows: list[Mapping[str, Any]] = []
    lines = [line for line in file.text().split("\n") if line.strip()]
    for at, line in enumerate(lines):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if at == len(lines) - 1 and rows:
                break
            raise RefusedFormat("broken", f"line {at + 1} is not JSON") from error
        if isinstance(row, dict):
            rows.append(row)
    return rows


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
    if not isinstance(front, dict):
        return {}, text
    return front_matter_to_json(front), text[found.end() :]


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
    return {
        "url": next(urls, "")[:MAX_URL_CHARS],
        "media_type": given if _KIND.fullmatch(given) else kind,
        "tags": tuple(list_said_tags(said)),
        **read_times(said, file),
    }


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
            front[key] = (
                [item.strip() for item in value[1:-1].split(",")]
                if value.startswith("[") and value.endswith("]")
                else value.strip("\"'")
            )
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


def open_archive(data: bytes, most: int = MAX_UNPACKED_BYTES) -> zipfile.ZipFile:
    """A ZIP whose contents are bounded; `RefusedFormat` for bombs, passwords and broken ones."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError) as error:
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
    except (KeyError, zipfile.BadZipFile, OSError, EOFError, NotImplementedError) as error:
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


def make_fields(
    source: Source, title: str, fields: Mapping[str, str], file: File, **facts: Any
) -> Entry:
    """An entry of several fields; times are those of the file where nothing better is known."""
    times = {"created_at": file.modified, "last_modified": file.modified}
    return Entry(source, " ".join(title.split()), cut_fields(fields), **times | facts)


def make_chat(title: str, messages: Sequence[Piece], file: File, **facts: Any) -> Entry:
    """A conversation of messages in order."""
    placed = tuple(replace(message, place=at) for at, message in enumerate(messages))
    times = [message.created_at for message in placed if message.created_at]
    facts["created_at"] = facts.get("created_at") or min(times, default=file.modified)
    facts["last_modified"] = facts.get("last_modified") or max(times, default=file.modified)
    return Entry("chats", " ".join(title.split()), placed, **facts)


class _TextMaker(HTMLParser):
    """HTML -> plain text: blocks become paragraphs, scripts and styles go."""

    _BLOCKS = frozenset(
        "address article aside blockquote br dd div dl dt fieldset figcaption figure footer form "
        "h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section table td th tr ul".split()
    )
    _HIDDEN = frozenset("script style noscript template svg head".split())

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.title: list[str] = []
        self.said: dict[str, str] = {}
        """What the head says of the page, under the names of front matter."""
        self._hidden = 0
        self._in_title = False
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("link", "meta"):
            self._read_head(tag, {name: value or "" for name, value in attrs})
        self._in_title = self._in_title or tag == "title"
        self._hidden = 0 if tag == "body" else self._hidden + (tag in self._HIDDEN)
        self._pre += tag == "pre"
        if tag in self._BLOCKS:
            self.parts.append("\n\n" if tag[0] in "ph" and tag != "hr" else "\n")

    def _read_head(self, tag: str, given: Mapping[str, str]) -> None:
        if tag == "link" and "canonical" in given.get("rel", "").lower().split():
            self.said["canonical"] = given.get("href", "")
        name = (given.get("property") or given.get("name") or given.get("itemprop") or "").lower()
        if tag == "meta" and name in _META:
            self.said.setdefault(_META[name], given.get("content", "")[:MAX_URL_CHARS])

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        self._hidden = max(0, self._hidden - (tag in self._HIDDEN))
        self._pre = max(0, self._pre - (tag == "pre"))
        if tag in self._BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._hidden:
            self.parts.append(data if self._pre else " ".join(data.split(" ")).replace("\n", " "))


def read_html(text: str) -> tuple[str, str]:
    """Title and plain text of HTML."""
    return read_page(text)[:2]


def read_page(text: str) -> tuple[str, str, Mapping[str, str]]:
    """Title and plain text of HTML, and what its head says, under the names of front matter."""
    maker = _TextMaker()
    if saved := _SAVED_FROM.search(text[:SAMPLE_BYTES]):  # as browsers and SingleFile write it
        maker.said["url"] = saved[1]
    text = _COMMENT.sub("", text)
    if len(_OPEN.findall(text)) > MAX_OPEN_TAGS:
        text = _OPEN.sub("&lt;", text)
    maker.feed(text)
    maker.close()
    body: list[str] = []
    for line in "".join(maker.parts).split("\n"):
        flat = " ".join(line.split())
        if flat or (body and body[-1]):
            body.append(flat)
    return " ".join("".join(maker.title).split()), "\n".join(body).strip(), maker.said
