"""Which files lead for a fixed set of questions; a ranking that moves shows as a readable diff.

The golden file lists, for each question on the project in `shop/`, the first five files with the
lines shown, right ones marked. To accept new rankings run this test with SONDE_WRITE_GOLDEN=1 and
read the diff like any other change. Our own source is asked as well; it changes every day, so
there only the right files count.
"""

import difflib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

import sonde

HERE = Path(__file__).parent
GOLDEN = HERE / "golden" / "shop.txt"
SOURCE = HERE.parent.parent / "src" / "sonde"
SHOWN = 5

SHOP = {
    "how is a request dispatched to its route": "server/app.py server/routes.py",
    "refuse clients that send too many requests": "server/middleware.py",
    "sliding window rate limiting": "server/middleware.py",
    "signed session cookie": "server/sessions.py",
    "how are passwords stored": "server/auth/passwords.py",
    "hash_password": "server/auth/passwords.py",
    "verify_password": "server/auth/passwords.py",
    "ConnectionPool": "server/db/pool.py",
    "reuse database connections": "server/db/pool.py",
    "apply schema changes in order": "server/db/migrations.py",
    "db config from environment variables": "server/config.py",
    "SHOP_PORT": "server/config.py",
    "turn a cart into a paid order": "server/orders/checkout.py",
    "checkout": "server/orders/checkout.py",
    "tests for checkout": "tests/test_checkout.py",
    "example of checking out a cart": "examples/checkout_example.py",
    "discount and tax": "server/orders/pricing.py",
    "OutOfStock": "server/orders/stock.py",
    "what happens when an article is not available": "server/orders/stock.py",
    "retry failed requests with growing pauses": "web/src/api/client.ts",
    "CartView": "web/src/cart/CartView.ts",
    "show the cart and its sum": "web/src/cart/CartView.ts",
    "format money for a locale": "web/src/format/money.ts",
    "barcode check digit": "native/barcode.c",
    "request identifier for log lines": "server/middleware.py",
}
SHOP_DOCS = {
    "how do I roll back a release": "docs/deploy.md",
    "refund a payment": "docs/payments.md",
    "run the tests": "docs/development.md",
    "what is this project": "README.md",
}
OWN = {
    "how are secrets in files found": "policy/secrets.py",
    "sign and check page cursors": "paging/cursor.py",
    "split an identifier into words": "text/words.py",
    "which file names belong to which language": "text/languages.py",
    "cut markdown at headings": "chunking/markdown.py",
    "int8 encoder run by onnxruntime": "embedding/onnx.py",
    "take apart an issue report with a stack trace": "ranking/question.py",
    "weights of the ranking features": "ranking/weights.py ranking/features.py",
    "one writer per index across processes": "runtime/work.py",
    "glob patterns to regular expressions": "text/globs.py",
    "WordPiece": "embedding/static.py",
    "LanceChunkStore": "stores/chunks/lance.py",
    "read gitignore files": "policy/admit.py",
    "rank chunks by BM25 in SQLite": "stores/chunks/lexical.py",
    "embed passages while the vectors are being made": "searching/passages.py searching/search.py",
}
OWN_LEADING = 0.8
"""Share of questions on our own source whose right file must come first."""


def rank(opened: sonde.Sonde, query: str, *, docs: bool = False) -> list[str]:
    """`path:first-last` of the best places, one for each file."""
    places: dict[str, str] = {}
    for hit in opened.search(query, limit=20, docs=docs):
        places.setdefault(hit.path, f"{hit.path}:{hit.start_line}-{hit.end_line}")
    return list(places.values())[:SHOWN]


def render(questions: Mapping[str, str], opened: sonde.Sonde, *, docs: bool = False) -> list[str]:
    """Each question with its ranking; `*` marks what was wanted."""
    lines = []
    for query, wanted in questions.items():
        lines.append(query)
        for place in rank(opened, query, docs=docs):
            mark = "*" if place.partition(":")[0] in wanted.split() else " "
            lines.append(f"  {mark} {place}")
        lines.append("")
    return lines


def render_shop(folder: Path) -> str:
    """The golden file as it would be now."""
    root = folder / "shop"
    shutil.copytree(HERE / "shop", root)
    with sonde.open(root, home=folder / "home") as opened:
        opened.index()
        code = render(SHOP, opened)
        return "\n".join([*code, "# documents", "", *render(SHOP_DOCS, opened, docs=True)])


@pytest.fixture(autouse=True)
def _words_and_static_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SONDE_EMBEDDING", "static")


def test_rankings_are_as_recorded(tmp_path: Path) -> None:
    now = render_shop(tmp_path)
    if os.environ.get("SONDE_WRITE_GOLDEN") == "1":
        GOLDEN.write_text(now)
    recorded = GOLDEN.read_text()
    if now != recorded:
        diff = difflib.unified_diff(
            recorded.splitlines(), now.splitlines(), "recorded", "now", lineterm="", n=SHOWN
        )
        pytest.fail("a ranking moved:\n" + "\n".join(diff), pytrace=False)


def test_the_recorded_rankings_are_good() -> None:
    firsts = [
        answers.split("\n")[1] for answers in GOLDEN.read_text().split("\n\n") if "\n" in answers
    ]
    assert len(firsts) == len(SHOP) + len(SHOP_DOCS)
    assert sum(first.startswith("  *") for first in firsts) >= 0.9 * len(firsts)


def test_questions_on_our_own_source_lead_to_the_right_file(tmp_path: Path) -> None:
    root = tmp_path / "sonde"
    shutil.copytree(SOURCE, root, ignore=shutil.ignore_patterns("models", "__pycache__"))
    with sonde.open(root, home=tmp_path / "home") as opened:
        opened.index()
        missed = {
            query: places
            for query, wanted in OWN.items()
            if (places := rank(opened, query))[0].partition(":")[0] not in wanted.split()
        }
    shown = "\n".join(f"{query}: {places}" for query, places in missed.items())
    assert len(OWN) - len(missed) >= OWN_LEADING * len(OWN), shown
