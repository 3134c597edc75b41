"""What every miner shares: cleaning, prose pairs, and the check against benchmark content.

A pair is a description (what someone might ask) and the passage that answers it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

QUERY_LENGTH, PASSAGE_LENGTH = 400, 1500
_SPACE = re.compile(r"\s+")
_NOISE = re.compile(
    r"copyright|licen[sc]e|SPDX|eslint|generated (by|from)|go:build|@ts-|TODO|FIXME|nolint|rubocop"
    r"|:nodoc:|do not edit|img\.shields|^deprecated",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^(#{1,5})\s+(.+?)\s*#*$")
_UNDERLINE = re.compile(r"^([=\-~^\"'`#*+])\1{3,}\s*$")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Pair:
    """A description, the passage it describes, and where both come from."""

    query: str
    passage: str
    path: str
    kind: str


def first_paragraph(text: str) -> str:
    return _SPACE.sub(" ", re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]).strip()[:QUERY_LENGTH]


def is_description(text: str) -> bool:
    """Long enough to mean something, in words, and not about the file rather than the code."""
    return (
        len(text) >= 20
        and text[0] not in ":@\\"
        and len(text.split()) >= 4
        and sum(c.isalpha() or c == " " for c in text) > 0.7 * len(text)
        and not _NOISE.search(text)
    )


def mine_prose(text: str, path: str) -> Iterator[Pair]:
    """Heading -> section and first sentence -> the rest, from Markdown and reStructuredText."""
    title, sections = "", list(_sections(text))
    for heading, body in sections:
        title = title or heading
        body = body.strip()
        words = sum(word.isalpha() for word in body.split())
        if words < 25 or len(body) < 200 or body.count("|") > 20:
            continue
        whole = len(heading.split()) >= 4 or heading == title
        query = heading if whole else f"{title} {heading}".strip()
        if heading and len(query.split()) >= 2 and not _NOISE.search(query):
            yield Pair(query[:QUERY_LENGTH], body[:PASSAGE_LENGTH], path, "prose")
        sentence, *rest = _SENTENCE.split(body, maxsplit=1)
        sentence = _SPACE.sub(" ", sentence)
        if rest and len(rest[0]) >= 200 and is_description(sentence):
            passage = f"{heading}\n{rest[0]}"[:PASSAGE_LENGTH]
            yield Pair(sentence[:QUERY_LENGTH], passage, path, "prose")


def _sections(text: str) -> Iterator[tuple[str, str]]:
    heading, body, fenced = "", [], False
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        found = None if fenced else _HEADING.match(line)
        under = i + 1 < len(lines) and _UNDERLINE.match(lines[i + 1]) and 3 < len(line) < 100
        if found or (under and not fenced and not _UNDERLINE.match(line)):
            yield heading, "\n".join(body)
            heading, body = (found.group(2) if found else line).strip(" *`:"), []
        elif not _UNDERLINE.match(line):
            body.append(line)
    yield heading, "\n".join(body)


class BenchmarkContent:
    """Runs of lines of the benchmark's files, to keep its code out whatever package it is in."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._runs: set[bytes] = set()
        for text in texts:
            for size in (4, 8):
                self._runs.update(_runs(text, size))

    def holds(self, passage: str) -> bool:
        """True where eight lines in a row are the benchmark's (four, of a shorter passage)."""
        size = 8 if len(_lines(passage)) >= 8 else 4
        return any(run in self._runs for run in _runs(passage, size))


def _lines(text: str) -> list[str]:
    lines = (_SPACE.sub("", line).lower() for line in text.splitlines())
    return [line for line in lines if len(line) > 2]


def _runs(text: str, size: int) -> Iterator[bytes]:
    lines = _lines(text)
    for i in range(len(lines) - size + 1):
        yield hashlib.blake2b("\n".join(lines[i : i + size]).encode(), digest_size=8).digest()


def read_benchmark(folders: list[Path]) -> BenchmarkContent:
    """Every text file under the folders; a JSON list of functions counts as so many texts."""

    def texts() -> Iterator[str]:
        for folder in folders:
            for path in folder.rglob("*"):
                if not path.is_file() or path.stat().st_size > 3_000_000 + 1e9 * (
                    path.name == "functions.json"
                ):
                    continue
                text = path.read_text("utf-8", errors="replace")
                if path.name == "functions.json":
                    yield from json.loads(text)
                else:
                    yield text

    return BenchmarkContent(texts())


def write_pairs(
    packages: Iterable[tuple[str, Iterable[Pair]]], out: Path, benchmark: BenchmarkContent
) -> dict[str, int]:
    """Distinct clean pairs of packages as JSON lines; returns how many of each kind, and how many
    dropped."""
    seen: set[bytes] = set()
    counts: dict[str, int] = {}
    with gzip.open(out, "wt", encoding="utf-8", compresslevel=4) as file:
        for package, pair in ((package, pair) for package, pairs in packages for pair in pairs):
            key = hashlib.blake2b(
                f"{pair.kind} {pair.query.lower()}".encode(), digest_size=8
            ).digest()
            body = hashlib.blake2b(pair.passage.encode(), digest_size=8).digest()
            if key in seen or body in seen:
                continue
            seen.update((key, body))
            kind = "dropped: benchmark content" if benchmark.holds(pair.passage) else pair.kind
            counts[kind] = counts.get(kind, 0) + 1
            if kind == pair.kind:
                row = {"q": pair.query, "c": pair.passage, "p": pair.path, "k": pair.kind}
                file.write(json.dumps(row | {"g": package}) + "\n")
    return counts
