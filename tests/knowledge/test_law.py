"""The law of fusion: on no kind of question is the combination worse than its best part.

`law.jsonl` has the evidence that searches gathered for up to 150 questions of each kind on public
texts that no benchmark measures; `training/fit_knowledge.py --law` writes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

import pytest

from sonde.ranking.evidence import Evidence, weigh_evidence

ROWS = [json.loads(line) for line in (Path(__file__).parent / "law.jsonl").read_text().splitlines()]
KINDS = sorted({row["kind"] for row in ROWS})
SLACK = 0.015  # of a mean over 60 to 150 questions; its standard error is 0.01 to 0.02


def rate(scores: list[float], right: list[int]) -> float:
    """The reciprocal rank of the right candidate, ties against it; 0 if it is left out."""
    best = max((scores[at] for at in right), default=0.0)
    return 1 / sum(score >= best for score in scores) if best > 0 else 0.0


def read_row(row: dict[str, object], *, deep: bool) -> list[Evidence]:
    candidates: list[list[float]] = row["candidates"]  # type: ignore[assignment]
    covered: float = row["covered"]  # type: ignore[assignment]
    return [
        Evidence(words, covered, static, near if deep else None)
        for words, static, near in candidates
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("deep", [False, True], ids=["static", "deep"])
def test_the_combination_is_not_worse_than_its_best_part(kind: str, *, deep: bool) -> None:
    fused, words, near = [], [], []
    for row in ROWS:
        if row["kind"] == kind:
            found = read_row(row, deep=deep)
            fused.append(rate(weigh_evidence(found), row["right"]))
            words.append(rate([each.words for each in found], row["right"]))
            near.append(rate([max(each.nearness, 0.0) for each in found], row["right"]))
    assert mean(fused) >= max(mean(words), mean(near)) - SLACK
