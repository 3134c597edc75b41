"""Fit the weights of `sonde/ranking/evidence.py`: words against meaning, and how likely a hit is.

    python training/fit_knowledge.py PROJECTS [--sections 40]

PROJECTS holds checkouts of public projects that no benchmark measures. Their documents are cut at
the headings; a heading asks for its section without it, a sentence for the section it was taken
from, three words of a section for it. `training/notes.jsonl` adds short notes asked for in other
words. Weights are fitted by how well they order (softmax over the candidates of a question), then
the likelihood of the best candidate by logistic regression, some questions being asked in every
other project, too, where no candidate is right. Printed: five-fold cross-validation by project, and
the weights of all.
"""

from __future__ import annotations

import argparse
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
from sonde.ranking.evidence import Evidence
from sonde.stores.knowledge.base import Entry
from sonde.stores.knowledge.sqlite import SqliteKnowledge

FOLDS = 5
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
        words = list(dict.fromkeys(re.findall(r"[A-Za-z]{4,}", text)))
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
                found.append(replace(each, candidates=rated, right=np.zeros(len(rated))))
        store.close()
    return found


def list_features(asked: Asked, stage: str) -> Any:
    words, covered = asked.column("words"), asked.column("covered")
    static, near = asked.column("static"), asked.column(stage)
    rows = [words * covered**4, near, near * (1 - covered) ** 2]
    if stage == "deep":
        rows += [static * covered**2]
    return np.stack(rows, 1)


def fit_order(asked: Sequence[Asked], stage: str) -> Any:
    """Softmax over the candidates of each question, by Newton's method with shorter steps."""
    rows = [
        (list_features(each, stage), each.right / each.right.sum(), weigh(each)) for each in asked
    ]
    weights = np.zeros(rows[0][0].shape[1])

    def measure(weights: Any) -> float:
        total = 0.5 * weights @ weights
        for features, right, weight in rows:
            scores = features @ weights
            total -= weight * (right @ scores - np.logaddexp.reduce(scores))
        return float(total)

    loss = measure(weights)
    for _ in range(25):
        slope, curve = -weights, np.eye(len(weights))
        for features, right, weight in rows:
            scores = features @ weights
            share = np.exp(scores - np.logaddexp.reduce(scores))
            mean = share @ features
            slope = slope + weight * (right @ features - mean)
            spread = features - mean
            curve = curve + weight * ((spread * share[:, None]).T @ spread)
        step, size = np.linalg.solve(curve, slope), 1.0
        while size > 1e-3 and measure(weights + size * step) > loss:
            size /= 2
        weights = weights + size * step
        if loss - measure(weights) < 1e-4:
            break
        loss = measure(weights)
    return weights


def weigh(asked: Asked) -> float:
    return NOTE_WEIGHT if asked.project.startswith("notes") else 1.0


def list_best(asked: Sequence[Asked], weights: Any, stage: str) -> tuple[Any, Any, Any]:
    """The best candidate of each question, at home and elsewhere."""
    rows, right, weight = [], [], []
    for each in asked:
        scores, near = list_features(each, stage) @ weights, each.column(stage)
        words, covered = each.column("words"), each.column("covered")[0]
        best, order = int(np.argmax(scores)), np.sort(scores)
        lead = min(order[-1] - order[-2], 3.0) if len(order) > 1 else 3.0
        said = words[best] * covered**4
        rows.append([1.0, near[best], covered, near[best] * covered, said, lead])
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("projects", type=Path)
    parser.add_argument("--sections", type=int, default=40)
    args = parser.parse_args()
    random.seed(5)
    models = KnowledgeModels(load_provider("static"), load_provider("deep"))
    lines = (Path(__file__).parent / "notes.jsonl").read_text("utf-8").splitlines()
    pairs = [json.loads(line) for line in lines]
    asks: dict[str, list[Any]] = {}
    for pair in pairs:
        asks.setdefault(pair["note"], []).append(("note", pair["question"]))
    notes = [("", note, questions) for note, questions in asks.items()]
    asked = ask_all("notes", notes, models, ())
    asked = [replace(each, project=f"notes{at % FOLDS}") for at, each in enumerate(asked)]
    foreign = list(asked)
    for folder in sorted(path for path in args.projects.iterdir() if path.is_dir()):
        sections = list_sections(folder)
        if len(sections) >= 20:
            chosen = random.sample(sections, min(args.sections, len(sections)))
            found = ask_all(folder.name, list(make_questions(chosen)), models, foreign)
            own = [each for each in found if each.right.any()]
            foreign += random.sample(own, min(ELSEWHERE, len(own)))
            asked += found
            print(f"{folder.name}: {len(asked)} questions so far", flush=True)
    home = [each for each in asked if each.right.any()]
    for stage in ("static", "deep"):
        rated: dict[str, list[tuple[float, ...]]] = {}
        for fold in range(FOLDS):
            held = [each for each in home if sum(map(ord, each.project)) % FOLDS == fold]
            weights = fit_order(
                [each for each in home if sum(map(ord, each.project)) % FOLDS != fold], stage
            )
            for each in held:
                columns = (each.column("words"), each.column(stage))
                scores = (*columns, list_features(each, stage) @ weights)
                row = tuple(rate(one, each.right) for one in scores)
                rated.setdefault(each.kind, []).append(row)
        for kind, rows in sorted(rated.items()):
            alone = "  ".join(f"{value:.3f}" for value in np.mean(rows, axis=0))
            print(f"{stage:7} {kind:9} {len(rows):5}  words, {stage}, fused: {alone}")
        weights = fit_order(home, stage)
        likelihood = fit_likelihood(*list_best(asked, weights, stage))
        print(stage, "order", weights.round(2).tolist(), "top", likelihood.round(2).tolist())


if __name__ == "__main__":
    main()
