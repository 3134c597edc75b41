"""Questions on the documents of public projects, by rule: the words of links between their pages.

    python benchmarks/docs_questions.py REPOSITORIES... > questions.jsonl

Who links to another page says in a few words what is found there; these words ask, the page they
lead to answers. Taken are links of Markdown (`[words](page.md#section)`) and of Sphinx (`:ref:`,
`:doc:`) with at least two words that mean something, once per page and words, and no more than
50 of a repository. REPOSITORIES are git directories; each row names the commit it was made from.
"""

from __future__ import annotations

import json
import posixpath
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from sonde.knowledge.ranking import read_knowledge_query

MOST = 50  # questions of one repository, so that none weighs more than the others
LEAST_WORDS, MOST_WORDS = 2, 12
MARKDOWN = re.compile(r"(?<!!)\[([^\]\[]{8,120})\]\(([^)\s#:]+)(#[^)\s]*)?\)")
SPHINX = re.compile(r":(ref|doc):`([^`<]{8,120})\s*<([^`>]+)>`")
LABEL = re.compile(r"^\.\. _([^:]+):\s*$", re.MULTILINE)


def run_git(repository: str, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", repository, *arguments], capture_output=True, check=True)
    return done.stdout.decode("utf-8", "replace")


def read_blobs(repository: str, commit: str, choose: Callable[[str], bool]) -> dict[str, bytes]:
    """The chosen files of a commit, by path; without those that the repository lacks."""
    listed = run_git(repository, "ls-tree", "-r", "-z", "--name-only", commit).split("\0")
    paths = [path for path in listed if path and choose(path)]
    names = "".join(f"{commit}:{path}\n" for path in paths)
    command = ["git", "-C", repository, "cat-file", "--batch"]
    data = subprocess.run(command, input=names.encode(), capture_output=True, check=True).stdout
    blobs, at = {}, 0
    for path in paths:
        head, at = data[at : data.index(b"\n", at)], data.index(b"\n", at) + 1
        if not head.endswith(b"missing"):
            size = int(head.rpartition(b" ")[2])
            blobs[path], at = data[at : at + size], at + size + 1
    return blobs


def read_pages(repository: str) -> dict[str, str]:
    """The documents of the newest commit, by path."""

    def choose(path: str) -> bool:
        is_plain = path.endswith((".md", ".rst"))
        return is_plain or (path.endswith((".mdx", ".adoc", ".txt")) and "doc" in path.casefold())

    blobs = read_blobs(repository, "HEAD", choose)
    return {path: blob.decode("utf-8", "replace") for path, blob in list(blobs.items())[:1500]}


def list_links(pages: dict[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """The words of each link, the page that has it, the page it leads to, and the section."""
    labels = {
        label.strip().casefold(): path
        for path, text in pages.items()
        for label in LABEL.findall(text)
    }
    for path, text in pages.items():
        folder = posixpath.dirname(path)
        for words, place, section in MARKDOWN.findall(text):
            for target in find_pages(pages, folder, place):
                yield words, path, target, section.lstrip("#")
        for kind, words, place in SPHINX.findall(text):
            if kind == "ref":
                yield words, path, labels.get(place.strip().casefold(), ""), place.strip()
                continue
            base = place.lstrip("/") if place.startswith("/") else posixpath.join(folder, place)
            for end in (".rst", ".txt", ".md"):
                yield words, path, posixpath.normpath(base) + end, ""


def find_pages(pages: dict[str, str], folder: str, place: str) -> list[str]:
    """The page that a link leads to, whose ending and root may be left out."""
    if place.startswith("/"):
        ends = [f"{place.rstrip('/')}{end}" for end in ("", ".md", ".mdx", "/index.md")]
        return [path for path in pages if f"/{path}".endswith(tuple(ends))][:1]
    base = posixpath.normpath(posixpath.join(folder, place.rstrip("/")))
    bare = base.removesuffix(".html")
    tries = (base, f"{bare}.md", f"{bare}.mdx", f"{bare}.rst", f"{bare}/index.md")
    return [path for path in tries if path in pages][:1]


def make_questions(repository: str) -> list[dict[str, str]]:
    pages = read_pages(repository)
    commit = run_git(repository, "rev-parse", "HEAD").strip()
    name = Path(repository).parent.name.replace("+", "/")
    found: dict[tuple[str, str], dict[str, str]] = {}
    for words, source, target, section in list_links(pages):
        question = " ".join(re.sub(r"[`*_\\]", "", words).split())
        count = len(read_knowledge_query(question).terms)
        if target not in pages or target == source or not LEAST_WORDS <= count <= MOST_WORDS:
            continue
        if "/" in question or "http" in question or question == question.upper():
            continue
        row = {"repository": name, "commit": commit, "question": question, "answer": target}
        found.setdefault((question.casefold(), target), row | {"section": section})
    # words that lead to two pages do not say which is meant
    targets: dict[str, set[str]] = {}
    for question, target in found:
        targets.setdefault(question, set()).add(target)
    kept = [row for (question, _), row in found.items() if len(targets[question]) == 1]
    return sorted(
        random.Random(1).sample(kept, min(MOST, len(kept))), key=lambda row: row["question"]
    )


def main() -> None:
    for repository in sys.argv[1:]:
        for row in make_questions(repository):
            print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
