"""Web queries and the functions that answer them (CoSQA), through the real server.

    python benchmarks/web_queries.py FOLDER

FOLDER has `functions.json`, a list of texts, and `queries.json`, a list of `{"query", "id"}`. Every
function is a file whose name says nothing. Printed: MRR@10 of words, of meaning and of both, with
the static model alone, as right after indexing, and once the deep model has read everything.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from client import Client

MODES = ("lexical", "semantic", "auto")


def ask_all(client: Client, queries: list[dict[str, object]], mode: str) -> float:
    """The mean of the reciprocal ranks of the right functions."""
    found = 0.0
    for each in queries:
        answer = client.call("search_code", {"query": each["query"], "mode": mode, "top_k": 10})
        paths = list(dict.fromkeys(row["path"] for row in answer["results"]))
        name = f"{each['id']}.py"
        found += 1 / (1 + paths.index(name)) if name in paths else 0.0
    return found / len(queries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args().folder
    command = [str(Path(sys.executable).with_name("sonde"))]
    queries = json.loads((given / "queries.json").read_text("utf-8"))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "functions"
        folder.mkdir()
        for at, text in enumerate(json.loads((given / "functions.json").read_text("utf-8"))):
            (folder / f"{at}.py").write_text(text + "\n", "utf-8")
        env = dict(os.environ, SONDE_HOME=f"{place}/home", SONDE_ASSUME_YES="1", SONDE_DAEMON="off")
        for stage, model, options in (("first", "static", []), ("complete", "auto", ["--deep"])):
            env["SONDE_EMBEDDING"] = model
            subprocess.run([*command, "index", *options], env=env, cwd=folder, check=True)
            with Client([*command, "mcp"], env, folder) as client:
                client.initialize()
                for mode in MODES:
                    print(f"{stage:9} {mode:9} {ask_all(client, queries, mode):.3f}", flush=True)


if __name__ == "__main__":
    main()
