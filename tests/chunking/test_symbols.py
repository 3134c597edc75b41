"""What a source defines and imports, one small source per language."""

from __future__ import annotations

import pytest

from sonde.chunking.parse import parse_source

from .sources import SOURCES

KINDS = {"t": "type", "f": "function", "v": "value", "d": "declaration", "k": "key"}


@pytest.mark.parametrize("path", SOURCES)
def test_a_source_yields_what_it_defines_and_imports(path: str) -> None:
    source = SOURCES[path]
    parsed = parse_source(path, source.text, kind="code")
    expected = [tuple(one.split(":")) for one in source.symbols.split()]
    assert [(s.name, s.kind) for s in parsed.symbols] == [(n, KINDS[k]) for n, k in expected]
    assert parsed.imports == tuple(source.imports.split())


@pytest.mark.parametrize("path", SOURCES)
def test_a_symbol_stands_on_the_line_it_claims(path: str) -> None:
    source = SOURCES[path]
    lines = source.text.split("\n")
    for symbol in parse_source(path, source.text, kind="code").symbols:
        name = symbol.name.rpartition(".")[2]
        shown = "companion" if name == "Companion" else name
        assert shown in lines[symbol.line - 1]


def test_definitions_survive_conflict_markers_around_them() -> None:
    text = (
        "def before(): pass\n\n<<<<<<< HEAD\ndef ours(): pass\n=======\ndef theirs(): pass\n"
        ">>>>>>> x\n\ndef after(): pass\n"
    )
    names = {symbol.name for symbol in parse_source("a.py", text, kind="code").symbols}
    assert {"before", "after"} <= names


def test_half_a_file_still_defines_its_first_half() -> None:
    text = "class A {\n  run() { return 1 }\n  stop() { if (x) {"
    names = [symbol.name for symbol in parse_source("a.js", text, kind="code").symbols]
    assert names == ["A", "A.run"]


def test_a_page_gives_its_imports_and_what_its_scripts_define() -> None:
    parsed = parse_source(
        "a.vue",
        "<script>\nimport x from './side-bar.vue'\nfunction go() {}\n</script>",
        kind="code",
    )
    assert parsed.imports == ("sidebar",)
    assert [(one.name, one.line) for one in parsed.symbols] == [("go", 3)]
