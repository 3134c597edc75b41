"""Tags of a file: from its path, its front matter, and the hashtags in its prose."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator

from sonde.text.languages import language_of
from sonde.types import Kind

MAX_TAGS = 100  # per file; a longer list is data, not a description
_MAX_TAG_CHARS = 80  # longer ones are sentences
_KEYS = ("tags", "keywords", "categories", "tag", "category")

_FRONT = re.compile(
    r"\A\ufeff?(?P<mark>---|\+\+\+)[ \t]*\r?\n(?P<body>.{0,20000}?)^(?P=mark)[ \t]*\r?$",
    re.DOTALL | re.MULTILINE,
)
_ENTRY = re.compile(r"(\w+)[ \t]*:(.*)")
_ITEM = re.compile(r"[ \t]*-[ \t](.*)")
_LINK = re.compile(r"^\[\[([^\]|#]+)[^\]]*\]\]$")  # a note as a tag: `[[People|them]]`
_COMMENT = re.compile(r"(?:^|\s)#.*$")

_CODE = re.compile(
    # fenced, then inline code, comments and tags of HTML, and addresses
    r"^[ \t]*(?:[-*+][ \t]+)?(?P<fence>`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*(?P=fence)[^\n]*$|\Z)"
    r"|^(?:-{4,}|\.{4,})[ \t]*\n.*?^(?:-{4,}|\.{4,})[ \t]*$"
    r"|(?<!`)(?P<tick>`++)[^\n]{0,1000}?(?P=tick)|<!--(?:(?!<!--).)*?-->|<[^<>\n]*>|\bhttps?:\S+",
    re.DOTALL | re.MULTILINE,
)
_INDENTED = re.compile(r"^(?: {4}|\t)")
_BULLET = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]")
_LITERAL = re.compile(r"::[ \t]*\n(?:[ \t]*\n)+(?:[ \t]+[^\n]*\n?|[ \t]*\n)+")
_HASHTAG = re.compile(
    r"(?:(?<=\s)|(?<=^)|(?<=(?<!\])\())#(?P<tag>[^\W\d_][\w/-]*)"
    r"(?=[\s,;!?)\]}*]|[.:](?:\s|$)|$)",
    re.MULTILINE,
)
_BEGUN = re.compile(r"#[^\W\d_]")
_TAG_LINE = re.compile(r"^(?:[ \t]*(?:[-*][ \t]+)?#[^\W\d_][\w/-]*+[,;]?)+[ \t\r]*$")
_COLOUR = re.compile(r"[0-9a-f]{3}|[0-9a-f]{6}|[0-9a-f]{8}|(?=\D*\d)[0-9a-f]{4}")
_MARKUP = frozenset("markdown rst asciidoc org text textile wiki".split())
_DIRECTIVES = frozenset(
    "define elif else endif endregion error if ifdef ifndef import include line pragma region "
    "undef warning using".split()
)


def tag_file(path: str, kind: Kind, content: Iterable[str] = ()) -> list[str]:
    """Every tag of a file: code or documentation, language, folders, and those in its content."""
    language = language_of(path)
    prose = kind == "docs" or language.kind == "docs"
    folders = [part.lower() for part in path.split("/")[:-1]]
    found = ["documentation" if prose else "code", language.name, *folders, *content]
    return list(dict.fromkeys(found))


def fold_tag(tag: str) -> str:
    """A tag normalised for comparison: lower case, without hash and surrounding blanks."""
    plain = _LINK.sub(r"\1", tag.strip()).lstrip("#")
    return " ".join(plain.lower().split())


def find_tags(text: str, language: str) -> tuple[str, ...]:
    """The tags in a document: of its front matter, then inline."""
    found: dict[str, None] = {}
    front = _FRONT.match(text)
    prose = text[front.end() :] if front else text
    for raw in (*_read_front(front), *_find_hashtags(prose, language)):
        if (tag := fold_tag(raw)) and len(tag) <= _MAX_TAG_CHARS:
            found[tag] = None
            for at, letter in enumerate(tag):
                if letter == "/" and at:
                    found[tag[:at]] = None  # a note under `project/alpha` is one of `project`
    return tuple(found)[:MAX_TAGS]


def _read_front(front: re.Match[str] | None) -> Iterator[str]:
    if front is None:
        return
    if front["mark"] == "+++":
        try:
            table = tomllib.loads(front["body"].replace("\r\n", "\n"))
        except (tomllib.TOMLDecodeError, RecursionError):
            return
        inner = table.get("taxonomies")
        for source in (table, inner if isinstance(inner, dict) else {}):
            for value in map(source.get, _KEYS):
                items = value if isinstance(value, list) else [value]
                yield from (item for item in items if isinstance(item, str))
    else:
        yield from _list_yaml(front["body"])


def _list_yaml(body: str) -> Iterator[str]:
    """The few keys that hold tags: flow lists, block lists, words between commas or blanks."""
    lines = body.splitlines()
    for at, line in enumerate(lines):
        entry = _ENTRY.match(line)
        if entry is None or entry[1].lower() not in _KEYS:
            continue
        value = entry[2].strip(" \t\r")
        if value.startswith("["):
            rest = iter(lines[at + 1 :])
            while "]" not in value and (more := next(rest, None)) is not None:
                value += " " + more.strip()
            yield from (_unquote(item) for item in value[1:].split("]")[0].split(","))
        elif value and not value.startswith("#"):
            plain = _COMMENT.sub("", value) if value[:1] not in "\"'" else value
            whole = plain[:1] in "\"'" or "," in plain or entry[1].lower() == "category"
            yield from (_unquote(item) for item in (plain.split(",") if whole else plain.split()))
        else:
            for more in lines[at + 1 :]:
                item = _ITEM.match(more)
                if item:
                    yield _unquote(item[1])
                elif more.strip():
                    break


def _unquote(item: str) -> str:
    item = item.strip()
    if item[:1] in ("'", '"'):
        return item[1:].split(item[0])[0]
    return _COMMENT.sub("", item).strip()


def _drop_indented(text: str) -> str:
    """The text without indented code blocks; indented parts of lists stay."""
    kept: list[str] = []
    in_list, codes = False, True
    for line in text.split("\n"):
        if not line.strip():
            codes = True  # code needs a blank line before it
        elif _BULLET.match(line) and (in_list or not _INDENTED.match(line)):
            in_list, codes = True, False
        elif not _INDENTED.match(line):
            in_list, codes = in_list and line[:1].isspace(), False
        elif codes and not in_list:
            line = ""
        kept.append(line)
    return "\n".join(kept)


def _find_hashtags(text: str, language: str) -> Iterator[str]:
    if language not in _MARKUP or not _BEGUN.search(text):
        return  # removing code never joins a hash and a letter
    prose = _CODE.sub(lambda match: "\n" * match[0].count("\n") or "¬", text)
    if language == "rst":
        prose = _LITERAL.sub("\n", prose)
    elif language in ("markdown", "text"):
        prose = _drop_indented(prose)
    for match in _HASHTAG.finditer(prose):
        tag = match["tag"]
        start = prose.rfind("\n", 0, match.start()) + 1
        if not prose[start : match.start()].strip():
            # `#Setup guide` is a heading whose author forgot the blank
            end = prose.find("\n", match.end())
            if not _TAG_LINE.match(prose[start : end if end >= 0 else len(prose)]):
                continue
        folded = tag.lower()
        if not _COLOUR.fullmatch(folded) and folded not in _DIRECTIVES:
            yield tag.rstrip("/-")
