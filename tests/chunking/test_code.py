"""Where sources are cut, and what each piece says about its place."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from sonde.chunking.grammars import parse_tree
from sonde.chunking.packing import MAX_BYTES
from sonde.chunking.parse import MAX_CHUNKS, parse_source
from sonde.chunking.views import derive_views
from sonde.types import Chunk

from .sources import SOURCES


def chunks_of(path: str, text: str) -> tuple[Chunk, ...]:
    return parse_source(path, text, kind="code").chunks


def method(name: str, lines: int) -> str:
    body = "".join(f"        total += compute_something({name!r}, {i})\n" for i in range(lines))
    head = f"    # About {name}.\n    @cached\n    def {name}(self, total=0):\n"
    return f"{head}{body}        return 1\n\n"


CLASS = 'class Store(Base):\n    """Keeps things."""\n\n' + "".join(
    method(name, 18) for name in ("load", "save", "drop", "list")
)


def test_a_short_file_is_one_chunk_named_after_its_first_definition() -> None:
    (chunk,) = chunks_of("src/a.py", "import os\nLIMIT = 1\n\ndef run():\n    pass\n")
    assert chunk.symbol == "run"
    assert chunk.header == "src/a.py"


@pytest.mark.row("001-166")
def test_a_large_class_is_cut_at_its_members_with_comment_and_decorator() -> None:
    chunks = chunks_of("a.py", CLASS)
    starts = {chunk.symbol: chunk.text.lstrip().split("\n")[0] for chunk in chunks}
    assert starts["Store"] == "class Store(Base):"
    assert starts["Store.save"] == "# About save."
    assert all(chunk.text.count("def ") <= 1 for chunk in chunks)


def test_members_say_which_class_they_are_of() -> None:
    chunk = next(c for c in chunks_of("pkg/a.py", CLASS) if c.symbol == "Store.drop")
    assert chunk.header == "pkg/a.py\nclass Store(Base)"


def test_a_continued_function_repeats_its_signature() -> None:
    text = "class A:\n" + method("long", 120)
    *_, last = chunks_of("a.py", text)
    assert last.header == "a.py\nclass A\ndef long(self, total=0)"
    assert last.symbol == ""


def test_small_neighbours_share_a_chunk() -> None:
    text = "".join(f"def f{i}():\n    return {i}\n\n" for i in range(20))
    assert len(chunks_of("a.py", text)) == 1


def test_a_function_up_to_the_limit_stays_whole() -> None:
    functions = [
        f"fn f{i}() {{\n" + "".join(f"    call_{j}({i});\n" for j in range(110)) + "}\n\n"
        for i in range(4)
    ]
    assert [c.text for c in chunks_of("a.rs", "".join(functions))] == functions


def test_what_follows_a_large_class_is_not_mixed_with_it() -> None:
    chunks = chunks_of("a.py", CLASS + "\ndef after():\n    return 1\n")
    assert chunks[-1].symbol == "after"
    assert chunks[-1].header == "a.py"


@pytest.mark.row("001-83")
def test_no_more_chunks_than_allowed_are_kept() -> None:
    parsed = parse_source("a.txt", "word " * 600_000, kind="code")
    assert parsed.truncated
    assert len(parsed.chunks) == MAX_CHUNKS == 1000


@pytest.mark.parametrize("text", ["", " \n\t\r\n", "\u2028\u3000"])
def test_blank_text_has_no_chunks(text: str) -> None:
    assert parse_source("a.py", text, kind="code") == parse_source("b.md", "", kind="docs")


HOSTILE = {
    "a line of a million characters": "x" * 1_000_000,
    "a minified line": "var a=1;" * 60_000,
    "nesting": "(" * 10_000 + "1" + ")" * 10_000,
    "nesting never closed": "[" * 30_000,
    "generics never closed": "a<" * 20_000,
    "prefix operators": "& " * 4_000,
    "braces on lines": "{\n" * 20_000,
    "indentation": "".join(" " * i + "if x:\n" for i in range(1200)),
    "unterminated imports": "import (\n" * 5_000 + "use x::{\n" * 5_000,
    "headings": "# a\n" * 20_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_cut_in_a_few_seconds_in_every_language(name: str) -> None:
    text = HOSTILE[name]
    for path in [*SOURCES, "a.md", "a.rst"]:
        began = time.process_time()
        parsed = parse_source(path, text, kind="code")
        assert time.process_time() - began < 5, path
        joined = "".join(chunk.text for chunk in parsed.chunks)
        assert joined == text or (parsed.truncated and text.startswith(joined))
        assert all(len(chunk.text) <= MAX_BYTES for chunk in parsed.chunks)


def test_importing_the_entry_loads_no_parser() -> None:
    code = "import sys, sonde.chunking.parse; print([m for m in sys.modules if 'tree_sitter' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


ENDLESS = (
    """@Deprecated(
interface Builder {
    @Deprecated(
    )
        AtLeast(this, wrap(Identity(t, this.table())))
        level = Level.ERROR
# a stray line
"""
    + 10
    * """    infix fun <T, ID : Identity<T>?> Column<ID>.rest(other: Term<T>) where T : Number =
        Rest(this, other)
    @Deprecated(
        message = "It goes with the next release; use the function of the same name instead.",
        replaceWith = ReplaceWith("this both t", "org.example.operators.both"),
        level = Level.ERROR
    )
    infix fun <T> Column<T>.both(t: T): Both<T, T> = Both(this, wrap(t), type)
"""
)


def test_a_source_on_which_the_parser_finds_no_end_is_cut_by_its_lines() -> None:
    assert parse_tree("kotlin", ENDLESS.encode()) is None
    parsed = parse_source("Builder.kt", ENDLESS, kind="code")
    assert "".join(chunk.text for chunk in parsed.chunks) == ENDLESS
    assert parsed.symbols, "patterns name what no tree does"
    assert derive_views("Builder.kt", ENDLESS, "code")


def test_it_is_given_up_between_characters_wherever_that_is() -> None:
    odd = "".join(f"ש€😀{number}" for number in range(300))
    for shift in range(8):
        source = ENDLESS.replace("# a stray line", f"# {'x' * shift}{odd}")
        assert parse_tree("kotlin", source.encode()) is None
        parsed = parse_source("Builder.kt", source, kind="code")
        assert "".join(chunk.text for chunk in parsed.chunks) == source
