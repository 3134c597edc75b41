"""Debian packages, binary and source -> pairs (documentation comment -> definition, and prose).

    python training/mine_debs.py download DEBS.txt SOURCES.txt training/data
    python training/mine_debs.py mine FOLDER... OUT.jsonl.gz --benchmark DIR...

`download` wants apt with the package lists of the binary and source archives. Definitions are
found by their first line and their indentation, which is right often enough for training.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import tarfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path, PurePosixPath

from pairs import (
    PASSAGE_LENGTH,
    Pair,
    first_paragraph,
    is_description,
    mine_prose,
    read_benchmark,
    write_pairs,
)

# Packages of the benchmarks; their vendored copies are found by content.
EXCLUDED = re.compile(
    r"golang-github-(gin-gonic|spf13-cobra|go-chi)|(lib)?rust-(tokio|serde|axum)"
    r"|ruby-(rack|sinatra|rails|active|action)|rails|sinatra|node-(express|axios|redux)"
    r"|php-(monolog|guzzle)|libfmt|fmtlib|nlohmann|abseil|libabsl|libuv|curl|libcurl|redis|gson"
    r"|libgoogle-gson|commons-lang|libcommons-lang|pandoc|xmonad|haskell-xmonad|linux-"
)
PROSE = {".md", ".rst", ".markdown"}
BLOCK = {
    ".js", ".mjs", ".ts", ".tsx", ".jsx", ".php", ".java", ".scala", ".kt", ".h", ".hpp", ".hh",
    ".hxx", ".c", ".cpp", ".cc", ".cxx",
}  # fmt: skip
LINE_COMMENTS = {
    ".go": "//", ".rs": "///", ".cs": "///", ".swift": "///", ".zig": "///", ".rb": "#",
    ".sh": "#", ".lua": "--", ".hs": "--",
}  # fmt: skip
_DEFINITIONS = {
    ".go": r"^(func|type|var|const)\b",
    ".rs": r"^\s*(pub(\([^)]*\))?\s+)?((async|unsafe|const|extern\s+\"C\")\s+)*"
    r"(fn|struct|enum|trait|impl|type|mod|macro_rules!)\b",
    ".rb": r"^\s*(def|class|module)\b",
    ".lua": r"^\s*((local\s+)?function\b|[\w.:]+\s*=\s*function\b)",
    ".hs": r"^\s*([a-z]\w*'*\s*::|data\b|newtype\b|type\b|class\b|instance\b)",
    ".sh": r"^\s*(function\s+\w+|[\w:-]+\s*\(\))",
    ".zig": r"^\s*(pub\s+)?(inline\s+)?(fn|const|var)\b",
}
DEFINITIONS = {extension: re.compile(pattern) for extension, pattern in _DEFINITIONS.items()}
ANY_DEFINITION = re.compile(
    r"[\w\)\]>*&]\s*[\({=;:]|^\s*(class|interface|struct|enum|function|export|public|private"
    r"|static|def|trait|object|fun|func|val|protocol|extension)\b"
)
_ELIXIR = re.compile(r'^(\s*)@doc\s+(?:~S)?"""\n(.*?)^\s*"""\n', re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"^\s*(///?!?|\*/?|/\*+!?<?|#+!?|--+\s*[|^]?)\s?")
_TAG = re.compile(r"^[@\\](?!brief)[a-z]\w+|^:[a-z]+ ")
_CLOSING = re.compile(r"^\s*([}\]);]+|end)\s*[,;)]*\s*$")
_CONTINUED = re.compile(r"^\s*([}\])]|end\b|\{|else\b|then\b|where\b|=)")
_SKIPPED = ("_test.", "/test", ".min.", "/vendor/", "/spec/", "/node_modules/", "third_party")
MOST_OF_ONE = 3000


def clean_comment(lines: list[str]) -> str:
    kept: list[str] = []
    for line in lines:
        line = re.sub(r"</?\w+[^>]*>", " ", _MARK.sub("", line).replace("*/", "")).strip()
        line = re.sub(r"^[@\\]brief\s*", "", line)
        if _TAG.match(line) or (not line and kept):
            break
        if line:
            kept.append(line)
    return first_paragraph(re.sub(r"\{@\w+ ([^}]*)\}", r"\1", " ".join(kept)))


def take_definition(lines: list[str], at: int, extension: str) -> str:
    """The definition that starts at a line, by its indentation (Haskell: up to an empty line)."""
    if extension == ".hs":
        end = next((i for i in range(at, len(lines)) if not lines[i].strip()), len(lines))
        return "\n".join(lines[at:end])
    indent = len(lines[at]) - len(lines[at].lstrip())
    body, size = [lines[at]], len(lines[at])
    for line in lines[at + 1 : at + 60]:
        if size > PASSAGE_LENGTH:
            break
        depth = len(line) - len(line.lstrip())
        if line.strip() and depth <= indent:
            if depth < indent or not _CONTINUED.match(line):
                break
            body.append(line)
            if _CLOSING.match(line):
                break
            continue
        body.append(line)
        size += len(line)
    return "\n".join(body).strip("\n")


def find_comments(lines: list[str], extension: str) -> Iterator[tuple[list[str], int]]:
    """Documentation comments, each with the line after it."""
    i = 0
    while i < len(lines):
        start, text = i, lines[i].strip()
        if (extension in BLOCK and text.startswith(("/**", "/*!", "/*\n"))) or (
            extension in {".c", ".cc", ".cpp"} and text.startswith("/*")
        ):
            while i < len(lines) and "*/" not in lines[i]:
                i += 1
            i += 1
            yield lines[start:i], i
        elif (mark := LINE_COMMENTS.get(extension)) and text.startswith(mark):
            while i < len(lines) and lines[i].strip().startswith(mark[:2]):
                i += 1
            yield lines[start:i], i
        else:
            i += 1


def mine_source(text: str, path: str, extension: str) -> Iterator[Pair]:
    lines = text.split("\n")
    definition = DEFINITIONS.get(extension, ANY_DEFINITION)
    for comment, after in find_comments(lines, extension):
        at = after
        while at < min(len(lines), after + 4) and lines[at].strip().startswith(
            ("#[", "@", "template", "[")
        ):
            at += 1
        if at >= len(lines) or not definition.search(lines[at]):
            continue
        query = clean_comment(comment)
        code = "\n".join([*lines[after:at], take_definition(lines, at, extension)])
        if is_description(query) and len(code) >= 50:
            yield Pair(query, code[:PASSAGE_LENGTH], path, extension[1:])


def mine_elixir(text: str, path: str) -> Iterator[Pair]:
    for match in _ELIXIR.finditer(text):
        query = first_paragraph(match.group(2))
        lines = text[match.end() : match.end() + 4000].split("\n")
        at = next((i for i, x in enumerate(lines[:25]) if re.match(r"\s*def\w*\b", x)), None)
        if at is not None and is_description(query):
            code = "\n".join([*lines[:at], take_definition(lines, at, ".ex")])
            yield Pair(query, code[:PASSAGE_LENGTH], path, "ex")


def open_archive(path: Path) -> tarfile.TarFile:
    if path.suffix != ".deb":
        return tarfile.open(path)
    command = ["dpkg-deb", "--fsys-tarfile", str(path)]
    raw = subprocess.run(command, capture_output=True, timeout=120, check=True).stdout
    return tarfile.open(fileobj=io.BytesIO(raw))


def mine_archive(path: Path) -> list[Pair]:
    found: list[Pair] = []
    try:
        archive = open_archive(path)
        for member in archive:
            extension = PurePosixPath(member.name).suffix.lower()
            known = extension in BLOCK or extension in LINE_COMMENTS or extension in PROSE
            if not (known or extension in {".ex", ".exs"}) or not member.isfile():
                continue
            name = member.name.lstrip("./").removeprefix("usr/share/").removeprefix("usr/")
            if member.size > 300_000 or any(part in f"/{name.lower()}" for part in _SKIPPED):
                continue
            file = archive.extractfile(member)
            text = file.read().decode("utf-8", errors="replace") if file else ""
            if extension in PROSE:
                found.extend(mine_prose(text, name))
            elif extension in {".ex", ".exs"}:
                found.extend(mine_elixir(text, name))
            else:
                found.extend(mine_source(text, name, extension))
    except (tarfile.TarError, subprocess.SubprocessError, EOFError, OSError) as error:
        print(path.name, error)
    step = max(1, len(found) // MOST_OF_ONE)
    return found[::step]


def download(debs: Path, sources: Path, folder: Path) -> None:
    for names, kind, command in (
        (debs, "debs", ["download"]),
        (sources, "sources", ["source", "--download-only"]),
    ):
        (folder / kind).mkdir(parents=True, exist_ok=True)
        wanted = [name for name in names.read_text().splitlines() if name and name[0] != "#"]
        wanted = [name for name in wanted if not EXCLUDED.match(name)]
        fetch = ["apt-get", "-qq", *command]
        # apt spends most of a call on reading its lists, and one unknown name fails the whole call
        for group in batched(wanted, 25):
            if subprocess.run([*fetch, *group], cwd=folder / kind, check=False).returncode:
                for name in group:
                    subprocess.run([*fetch, name], cwd=folder / kind, check=False)


def batched(names: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("download")
    fetch.add_argument("debs", type=Path)
    fetch.add_argument("sources", type=Path)
    fetch.add_argument("folder", type=Path)
    mine = commands.add_parser("mine")
    mine.add_argument("folders", type=Path, nargs="+")
    mine.add_argument("out", type=Path)
    mine.add_argument("--benchmark", type=Path, nargs="+", required=True)
    options = parser.parse_args()
    if options.command == "download":
        download(options.debs, options.sources, options.folder)
        return
    archives = [
        path
        for folder in options.folders
        for path in sorted([*folder.glob("*.deb"), *folder.glob("*.orig*.tar.*")])
        if not EXCLUDED.match(path.name) and path.suffix != ".asc"
    ]
    with ProcessPoolExecutor(2) as pool:
        names = (archive.name.split("_")[0] for archive in archives)
        packages = zip(names, pool.map(mine_archive, archives), strict=True)
        counts = write_pairs(packages, options.out, read_benchmark(options.benchmark))
    print(len(archives), "archives", dict(sorted(counts.items(), key=lambda item: -item[1])))


if __name__ == "__main__":
    main()
