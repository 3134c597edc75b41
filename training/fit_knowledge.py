"""Fit the weights of `sonde/ranking/evidence.py`: words against meaning, and how likely a hit is.

    python training/fit_knowledge.py PROJECTS [--packages Translation-de.bz2 …] [--law law.jsonl]

PROJECTS holds documents of public projects that no benchmark measures; a folder whose name ends in
`-de`, `-es` or `-fr` holds some in that language. They are cut at the headings; a heading asks for
its section without it, a sentence for the section it was taken from, three words of a section for
it. The short descriptions of Debian's packages (`dists/*/main/i18n`) ask for the long ones,
`training/notes.jsonl` for short notes in other words. Printed: how well each kind of question is
ordered, by words, a model, and both with several shares of words; then the likelihood of the
best candidate by logistic regression, some questions being asked in every other project, too, where
no candidate is right. `--law` writes evidence for `tests/knowledge`.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import html
import json
import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sonde.embedding.base import load_provider
from sonde.knowledge.ranking import KnowledgeSearch, read_knowledge_query
from sonde.knowledge.retrieval import cut_pieces
from sonde.knowledge.vectors import KnowledgeModels, embed_missing
from sonde.ranking.evidence import WORDS, Evidence
from sonde.stores.knowledge.base import Entry
from sonde.stores.knowledge.sqlite import SqliteKnowledge

EVENS = (0.8, 0.5, 0.3, 0.2, 0.13, 0.1, 0.08)
"""Squares of `covered` at which words and the model count the same, to choose from."""
BESIDE = 0.2  # as in `evidence.py`
LAW_QUESTIONS, LAW_DEPTH = 150, 3  # of a kind, and of each part's candidates
LANGUAGES = ("de", "es", "fr")
ELSEWHERE = 18  # questions of a project that are asked in the others
NOTE_WEIGHT = 8.0  # of a question on a short note: they are few, and what users write
HEADING = re.compile(r"#{1,5}\s+(.*)")


@dataclass(frozen=True)
class Asked:
    """One question: its candidates, and which of them is right."""

    project: str
    kind: str
    question: str
    candidates: list[Evidence]
    right: Any

    def column(self, name: str) -> Any:
        return np.array([getattr(each, name) or 0.0 for each in self.candidates])


def list_sections(folder: Path) -> list[tuple[str, str]]:
    """Headings and the text below each, in Markdown files."""
    found = []
    for path in sorted(folder.rglob("*.md")):
        heading, lines, fenced = "", [], False
        for line in [*path.read_text("utf-8", "replace").split("\n"), "# end"]:
            fenced ^= line.startswith("```")
            match = None if fenced else HEADING.match(line)
            if match:
                body = "\n".join(lines).strip()
                if heading and len(body) > 120:
                    found.append((heading, body[:1500]))
                heading, lines = re.sub(r"[`*_\[\]]|\(http.*?\)", "", match[1]).strip(), []
            else:
                lines.append(line)
    return found


def make_questions(sections: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, list[Any]]]:
    """Each section's title and text as stored, with the questions that ask for it."""
    for heading, body in sections:
        questions, text, chance = [], body, random.random()
        sentences = [each for each in re.split(r"(?<=[.!?])\s+", body) if 40 < len(each) < 220]
        if len(sentences) > 3 and chance < 0.4:
            said = random.choice(sentences)
            text = body.replace(said, "")
            questions.append(("sentence", said))
        if 2 <= len(read_knowledge_query(heading).terms) <= 9:
            questions.append(("heading", heading))
        words = list(dict.fromkeys(re.findall(r"[^\W\d_]{4,}", text)))
        if len(words) > 12 and chance > 0.6:
            questions.append(("words", " ".join(random.sample(words, 3))))
        yield "" if chance < 0.7 else random.choice(sections)[0], text, questions


def ask_all(
    project: str,
    texts: Sequence[tuple[str, str, list[Any]]],
    models: KnowledgeModels,
    foreign: Sequence[Asked],
) -> list[Asked]:
    """Every question with the evidence that the search itself gathers; the foreign ones, too."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteKnowledge(Path(folder))
        entries = [
            Entry("notes", title, tuple(cut_pieces(text)), id=str(at))
            for at, (title, text, _) in enumerate(texts)
        ]
        store.put("notes", entries)
        for model in models.list_all():
            embed_missing(store, "notes", model)
        for at, (_, _, questions) in enumerate(texts):
            for kind, question in questions:
                search = KnowledgeSearch(store, read_knowledge_query(question), models)
                rows = search.gather("notes")
                right = np.array([piece.entry.id == str(at) for piece, _ in rows], float)
                if right.any():
                    rated = [each for _, each in rows]
                    found.append(Asked(project, kind, question, rated, right))
        for each in foreign:
            search = KnowledgeSearch(store, read_knowledge_query(each.question), models)
            if rated := [evidence for _, evidence in search.gather("notes")]:
                wrong = np.zeros(len(rated))
                found.append(replace(each, project=project, candidates=rated, right=wrong))
        store.close()
    return found


def order(asked: Asked, stage: str, even: float) -> Any:
    """The order of the candidates, as `split_evidence` makes it."""
    covered = asked.column("covered")
    words, near = covered**2 / (covered**2 + even), asked.column(stage)
    if stage == "deep":
        near = near + BESIDE * asked.column("static")
    return WORDS * words * asked.column("words") + (1 - words) * near


def weigh(asked: Asked) -> float:
    return NOTE_WEIGHT if asked.project.startswith("notes") else 1.0


def list_best(asked: Sequence[Asked], stage: str, even: float) -> tuple[Any, Any, Any]:
    """The best candidate of each question, at home and elsewhere."""
    rows, right, weight = [], [], []
    for each in asked:
        scores, near = order(each, stage, even), each.column(stage)
        words, covered = each.column("words"), each.column("covered")[0]
        best = int(np.argmax(scores))
        said = words[best] * covered**2
        rows.append([1.0, near[best], covered, near[best] * covered, said])
        right.append(each.right[best])
        weight.append(weigh(each))
    return np.array(rows), np.array(right), np.array(weight)


def fit_likelihood(rows: Any, right: Any, weight: Any) -> Any:
    weights = np.zeros(rows.shape[1])
    for _ in range(50):
        likely = 1 / (1 + np.exp(-rows @ weights))
        curve = (rows * (weight * likely * (1 - likely))[:, None]).T @ rows + np.eye(len(weights))
        weights += np.linalg.solve(curve, rows.T @ (weight * (right - likely)) - weights)
    return weights


def rate(scores: Any, right: Any) -> float:
    """The reciprocal rank of the right candidate, ties counted against it."""
    rank = int((scores >= scores[right > 0].max()).sum())
    return 1 / rank if rank <= 10 else 0.0


def read_apps(path: Path, language: str = "C") -> Iterator[tuple[str, str, str]]:
    """Ids, summaries and descriptions of applications; `C` is English."""
    for block in gzip.decompress(path.read_bytes()).decode().split("\n---\n"):
        said = []
        for name in ("Summary", "Description"):
            field = re.search(rf"(?m)^{name}:\n((?:  .*\n|\n)*)", block)
            text = re.search(
                rf"(?m)^  {language}: (.*\n(?:    .*\n|\n)*)", field[1] if field else ""
            )
            plain = re.sub(r"<[^>]+>|^[>|]-?|\\n?|\s+", " ", text[1].strip() if text else "")
            said.append(html.unescape(" ".join(plain.split())).strip("\"'"))
        named = re.search(r"(?m)^ID: (.*)", block)
        if named and said[0] and len(said[1]) > 60:
            yield named[1], said[0], said[1][:600]


def read_packages(path: Path) -> dict[str, str]:
    """Long descriptions of Debian's packages, with the short ones."""
    found: dict[str, str] = {}
    for block in bz2.decompress(path.read_bytes()).decode().split("\n\n"):
        match = re.search(r"(?m)^Description-(?!md5)\w+: (.*)\n((?: .*\n?)*)", block)
        if match and len(match[2]) > 100:
            found.setdefault(" ".join(match[2].replace("\n .\n", "\n").split())[:600], match[1])
    return found


def list_texts(args: argparse.Namespace) -> Iterator[tuple[str, list[Any]]]:
    """The texts of each project, with the questions on them."""
    described = {path.stem: read_packages(path) for path in args.packages}
    if args.apps:
        described["apps"] = {text: summary for _, summary, text in read_apps(args.apps)}
    for project, found in described.items():
        chosen = random.sample(sorted(found), min(args.texts * 4, len(found)))
        kinds = [name_overlap(found[text], text) + name_language(project) for text in chosen]
        asks = [[(kind, found[text])] for kind, text in zip(kinds, chosen, strict=True)]
        yield project, [("", text, each) for text, each in zip(chosen, asks, strict=True)]
    for folder in sorted(path for path in args.projects.iterdir() if path.is_dir()):
        sections, language = list_sections(folder), name_language(folder.name)
        if len(sections) >= 20:
            texts = make_questions(random.sample(sections, min(args.texts, len(sections))))
            yield (
                folder.name,
                [
                    (title, text, [(kind + language, asked) for kind, asked in each])
                    for title, text, each in texts
                ],
            )
    asks_of: dict[str, list[Any]] = {}
    for line in (Path(__file__).parent / "notes.jsonl").read_text("utf-8").splitlines():
        pair = json.loads(line)
        asks_of.setdefault(pair["note"], []).append(("note", pair["question"]))
    yield "notes", [("", note, questions) for note, questions in asks_of.items()]


def name_language(project: str) -> str:
    """What the kind of a project's questions ends in, unless they are in English."""
    return ", foreign" if project.rpartition("-")[2] in LANGUAGES else ""


def name_overlap(question: str, text: str) -> str:
    """The kind of a summary: most of its words are in the text, or not."""
    terms, held = read_knowledge_query(question).terms, set(read_knowledge_query(text).terms)
    return "summary" if 2 * sum(term in held for term in terms) > len(terms) else "other words"


def write_law(path: Path, asked: Sequence[Asked]) -> None:
    """Some questions of each kind, with the best candidates of each part."""
    by_kind: dict[str, list[Asked]] = {}
    for each in asked:
        by_kind.setdefault(each.kind, []).append(each)
    with path.open("w") as file:
        for kind, those in sorted(by_kind.items()):
            for each in random.sample(those, min(LAW_QUESTIONS, len(those))):
                columns = [each.column(name) for name in ("words", "static", "deep")]
                best = {int(at) for column in columns for at in np.argsort(-column)[:LAW_DEPTH]}
                kept = sorted(best | set(np.flatnonzero(each.right).tolist()))
                row = {
                    "kind": kind,
                    "covered": round(each.candidates[0].covered, 3),
                    "right": [place for place, at in enumerate(kept) if each.right[at]],
                    "candidates": [[round(float(col[at]), 2) for col in columns] for at in kept],
                }
                file.write(json.dumps(row, separators=(",", ":")) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("projects", type=Path)
    parser.add_argument("--apps", type=Path)
    parser.add_argument("--packages", type=Path, nargs="*", default=[])
    parser.add_argument("--law", type=Path)
    parser.add_argument("--texts", type=int, default=50)
    args = parser.parse_args()
    random.seed(5)
    models = KnowledgeModels(load_provider("everyday"), load_provider("deep"))
    asked: list[Asked] = []
    foreign: list[Asked] = []
    for project, texts in list_texts(args):
        found = ask_all(project, texts, models, foreign)
        own = [each for each in found if each.right.any()]
        foreign += random.sample(own, min(ELSEWHERE, len(own)))
        asked += found
        print(f"{project}: {len(asked)} questions so far", flush=True)
    home = [each for each in asked if each.right.any()]
    for stage in ("static", "deep"):
        print(f"{stage}: by words, by the model, and both, even at {EVENS}")
        for kind in sorted({each.kind for each in home}):
            those = [each for each in home if each.kind == kind]
            ways = [[each.column(name) for each in those] for name in ("words", stage)]
            ways += [[order(each, stage, even) for each in those] for even in EVENS]
            rates = [np.mean(list(map(rate, way, (each.right for each in those)))) for way in ways]
            print(f"  {kind:12}{len(those):5}  " + " ".join(f"{each:.3f}" for each in rates))
        for even in EVENS:
            top = fit_likelihood(*list_best(asked, stage, even))
            print(f"  {even} top", top.round(2).tolist())
    if args.law:
        write_law(args.law, home)


if __name__ == "__main__":
    main()
