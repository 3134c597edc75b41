"""The REST API: the document that describes it, and what it answers, a file for each address."""

from __future__ import annotations

from pathlib import Path

from tests.golden.golden import check_all, check_names, show_json
from tests.golden.room import Room, serve

import sonde

ADDRESSES = {
    "health": "/healthz",
    "projects": "/api/projects",
    "search-code": "/api/search/code?query=how+are+passwords+stored&top_k=2",
    "search-docs": "/api/search/docs?query=roll+back+a+release&top_k=1",
    "search-paths": "/api/search/paths?pattern=**/test_*.py",
    "search-lines": "/api/search/lines?pattern=class+%5Cw%2B&page_size=2",
    "search-knowledge": "/api/search/knowledge?query=walrus",
    "file": "/api/files/server/config.py?lines=1-8",
    "file-missing": "/api/files/nothing.py",
    "file-outside": "/api/files/../../etc/passwd",
    "chunks": "/api/chunks/server/orders/stock.py",
    "indexes": "/api/indexes",
    "jobs-missing": "/api/jobs/nothing",
    "sets": "/api/resource-sets",
    "queries": "/api/queries",
    "media-types": "/api/knowledge/media/types",
    "mistake-argument": "/api/search/code?query=x&top_k=many",
    "mistake-missing": "/api/search/paths",
    "mistake-address": "/api/nothing",
}


def test_answers_are_as_recorded(tmp_path: Path) -> None:
    room = Room.make(tmp_path, SONDE_WATCHING="off")
    root = room.copy_shop()
    room.import_notes()
    done = room.run("index", at=root)
    assert done.returncode == 0, done.stderr
    texts = {}
    with serve(room, root) as get:
        for name, address in ADDRESSES.items():
            status, kind, body = get(address)
            told = {"get": address, "status": status, "type": kind, "body": body}
            text = show_json(told).replace(f'"{sonde.__version__}"', '"<version>"')
            texts[f"rest/{name}.json"] = room.mask(text)
        _, _, document = get("/api/openapi.json")
    version = f'"version": "{sonde.__version__}"'
    texts["openapi.json"] = show_json(document).replace(version, '"version": "<version>"')
    check_all(texts)
    check_names("rest", [f"{name}.json" for name in ADDRESSES])
