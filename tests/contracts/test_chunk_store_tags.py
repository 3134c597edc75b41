"""Tags of files, in every chunk store."""

from __future__ import annotations

from dataclasses import replace


def test_tags_come_back_until_the_file_is_replaced(store, make_file):
    tagged = replace(make_file("a.md", "one\n", kind="docs"), tags=("design docs", "größe"))
    store.replace([tagged, make_file("b.md", "two\n", kind="docs")])
    assert store.tags() == {"a.md": ("design docs", "größe")}
    store.replace([make_file("a.md", "one\n", kind="docs")])
    assert store.tags() == {}
