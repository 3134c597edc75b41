"""Questions in other languages: over notes in the same language, English notes and English code.

    python benchmarks/languages.py Components-amd64.yml.gz FLASK

The first is Debian's AppStream catalogue: summaries of applications, as their translators wrote
them, ask for the descriptions, in the same language and in English (`training/fit_knowledge.py`
reads it). FLASK is a checkout of Flask; `data/languages.jsonl` asks for its files in six languages.
Printed: the share of questions whose answer is first, and among the first three.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from client import Client

from sonde.embedding.base import load_provider
from sonde.knowledge.ranking import KnowledgeSearch, read_knowledge_query
from sonde.knowledge.retrieval import cut_pieces
from sonde.knowledge.vectors import KnowledgeModels, embed_missing
from sonde.stores.knowledge.base import Entry
from sonde.stores.knowledge.sqlite import SqliteKnowledge

sys.path.append(str(Path(__file__).parents[1] / "training"))
from fit_knowledge import read_apps

LANGUAGES = ("de", "fr", "es", "zh_CN", "ja")
MOST = 120  # applications of one language


def ask_notes(
    texts: Mapping[str, str], questions: Mapping[str, str], models: Mapping[str, KnowledgeModels]
) -> str:
    """Each text's question asked of all the texts, by each stage."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteKnowledge(Path(folder))
        entries = [Entry("notes", "", tuple(cut_pieces(texts[id_])), id=id_) for id_ in questions]
        store.put("notes", entries)
        for model in models["complete"].list_all():
            embed_missing(store, "notes", model)
        lines = []
        for stage, those in models.items():
            ranks = []
            for id_, question in questions.items():
                search = KnowledgeSearch(store, read_knowledge_query(question), those)
                found = [hit.entry.id for hit in search.rank("notes")]
                ranks.append(found.index(id_) + 1 if id_ in found else 0)
            lines.append(f"{stage} {write_shares(ranks)}")
        store.close()
    return ", ".join(lines)


def ask_code(folder: Path) -> None:
    """The questions of `data/languages.jsonl`, through the server."""
    rows = (Path(__file__).parent / "data" / "languages.jsonl").read_text("utf-8").splitlines()
    command = str(Path(sys.executable).with_name("sonde"))
    with tempfile.TemporaryDirectory() as home:
        env = dict(os.environ, SONDE_HOME=home, SONDE_ASSUME_YES="1", SONDE_EMBEDDING="auto")
        index = [command, "index", ".", "--deep"]
        subprocess.run(index, env=env, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        with Client([command, "mcp"], env, folder) as client:
            client.initialize()
            for language in ("en", *LANGUAGES):
                ranks, said = [], 0
                for row in map(json.loads, rows):
                    answer = client.call("search_code", {"query": row[language], "top_k": 10})
                    files = list(dict.fromkeys(str(each["path"]) for each in answer["results"]))
                    at = [place for place, file in enumerate(files, 1) if file == row["answer"]]
                    ranks.append(at[0] if at else 0)
                    said += "do not understand" in answer["metadata"].get("note", "")
                print(f"code, {language}: {write_shares(ranks)}, said so in {said}", flush=True)


def write_shares(ranks: Sequence[int]) -> str:
    first, three = (sum(0 < rank <= most for rank in ranks) / len(ranks) for most in (1, 3))
    return f"{first:.2f}/{three:.2f} of {len(ranks)}"


def main() -> None:
    apps, flask = map(Path, sys.argv[1:])
    static, deep = load_provider("everyday"), load_provider("deep")
    models = {
        "words": KnowledgeModels(),
        "static": KnowledgeModels(static),
        "complete": KnowledgeModels(static, deep),
    }
    english = {id_: text for id_, _, text in read_apps(apps)}
    for language in LANGUAGES:
        found = {id_: (asked, text) for id_, asked, text in read_apps(apps, language)}
        chosen = random.Random(1).sample(sorted(found.keys() & english.keys()), MOST)
        questions = {id_: found[id_][0] for id_ in chosen}
        own = ask_notes({id_: text for id_, (_, text) in found.items()}, questions, models)
        print(f"{language} over {language}: {own}", flush=True)
        print(f"{language} over English: {ask_notes(english, questions, models)}", flush=True)
    ask_code(flask)


if __name__ == "__main__":
    main()
