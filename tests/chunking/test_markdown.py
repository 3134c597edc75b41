"""Documents are cut at headings and know the trail that leads to them."""

from __future__ import annotations

import pytest

from sonde.chunking.parse import parse_source
from sonde.types import Chunk

PROSE = "This sentence stands here to take some room in the section. " * 12


def chunks_of(path: str, text: str) -> tuple[Chunk, ...]:
    return parse_source(path, text, kind="docs").chunks


def trails(chunks: tuple[Chunk, ...]) -> list[str]:
    return [chunk.header.partition("\n")[2] for chunk in chunks]


def test_sections_carry_their_breadcrumb() -> None:
    two = PROSE * 2
    text = f"# Guide\n{two}\n## Install\n{two}\n### Linux\n{two}\n## Use\n{two}\n"
    chunks = chunks_of("docs/guide.md", text)
    assert trails(chunks) == ["Guide", "Guide > Install", "Guide > Install > Linux", "Guide > Use"]
    assert chunks[2].header == "docs/guide.md\nGuide > Install > Linux"


def test_a_file_name_that_says_nothing_is_kept_from_the_models() -> None:
    text = "# Guide\n\ntext\n"
    headers = [chunks_of(path, text)[0].header for path in ("notes/note-012.md", "notes/rail.md")]
    assert headers == ["Guide", "notes/rail.md\nGuide"]


def test_small_sections_share_a_chunk() -> None:
    text = "# Guide\n\n## A\na\n\n## B\nb\n"
    assert trails(chunks_of("guide.md", text)) == ["Guide"]


def test_a_chunk_does_not_run_on_into_another_parent() -> None:
    text = f"# G\n{PROSE}{PROSE}\n## A\n{PROSE}\n### A1\n{PROSE}\n### A2\n{PROSE}\n## B\nshort\n"
    for chunk in chunks_of("guide.md", text):
        assert not ("### A2" in chunk.text and "## B" in chunk.text and "## A\n" not in chunk.text)


def test_underlined_titles_count() -> None:
    text = f"Guide\n=====\n\n{PROSE}{PROSE}\n\nInstall\n-------\n\n{PROSE}{PROSE}\n"
    assert trails(chunks_of("guide.md", text)) == ["Guide", "Guide > Install"]


def test_rst_underlines_rank_by_first_use() -> None:
    two = PROSE * 2
    text = f"=====\nGuide\n=====\n{two}\n``x``\n~~~~~\n{two}\nDeep\n----\n{two}\n"
    assert trails(chunks_of("guide.rst", text)) == [
        "Guide",
        "Guide > ``x``",
        "Guide > ``x`` > Deep",
    ]


def test_headings_in_fenced_code_are_none() -> None:
    fence = "```sh\n# not a heading\n~~~\n## nor this\n```\n"
    text = f"# Guide\n{fence}{PROSE}\n## Next\n{PROSE}{PROSE}\n"
    assert trails(chunks_of("guide.md", text)) == ["Guide", "Guide > Next"]


def test_fenced_code_that_fits_is_not_cut() -> None:
    fence = "```py\n" + "x = 1\n\n" * 150 + "```\n"
    chunks = chunks_of("guide.md", f"# G\n\n{PROSE}\n\n{PROSE}\n\n{fence}\n{PROSE}\n\n{PROSE}\n")
    assert any(fence in chunk.text for chunk in chunks)


def test_front_matter_is_kept_and_is_no_heading() -> None:
    text = "---\ntitle: x\n---\n\n# Guide\ntext\n"
    (chunk,) = chunks_of("guide.md", text)
    assert chunk.text == text
    assert trails((chunk,)) == ["Guide"]


def test_a_long_section_is_cut_between_paragraphs_and_keeps_its_trail() -> None:
    chunks = chunks_of("guide.md", "# Guide\n\n" + (PROSE + "\n\n") * 8)
    assert len(chunks) > 3
    assert set(trails(chunks)) == {"Guide"}
    assert all(chunk.text.endswith("\n\n") for chunk in chunks)


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "guide.rst",
            "=====\nTitle\n=====\n\nintro\n\nSub\n---\n\ntext\n",
            ["Title 2 1-10", "Title > Sub 7 7-10"],
        ),
        ("README", "Foo\n===\n\nhi\n\nUsage\n-----\nx\n", ["Foo 1 1-8", "Foo > Usage 6 6-8"]),
        ("guide.org", "* A\ntext\n** B\n* C\n", ["A 1 1-3", "A > B 3 3-3", "C 4 4-4"]),
        ("guide.adoc", "= T\n\n== S\nx\n", ["T 1 1-4", "T > S 3 3-4"]),
        ("guide.mdx", "# A\n\n```\n# no\n```\n## B\n", ["A 1 1-6", "A > B 6 6-6"]),
        ("a.tex", "\\section{In}\nx\n\\subsection{On}\n", ["In 1 1-3", "In > On 3 3-3"]),
        ("tool.1", ".SH NAME\nx\n.SS More\n", ["NAME 1 1-3", "NAME > More 3 3-3"]),
    ],
)
def test_the_sections_of_a_document_are_its_names(
    path: str, text: str, expected: list[str]
) -> None:
    symbols = parse_source(path, text, kind="docs").symbols
    assert {one.kind for one in symbols} == {"section"}
    shown = [f"{one.name} {one.line} {one.start_line}-{one.end_line}" for one in symbols]
    assert shown == expected


@pytest.mark.row("001-178")
def test_a_notebook_is_cut_at_the_headings_of_its_prose() -> None:
    prose = "".join(f'    "{"word " * 100}\\n",\n' for _ in range(3))
    text = (
        '{\n "cells": [\n  {\n   "cell_type": "markdown",\n   "source": [\n    "# Intro\\n",\n'
        f'{prose}    "## More\\n",\n{prose}    "end"\n   ]\n  }},\n  {{\n   "cell_type": "code",\n'
        '   "source": [\n    "# a comment\\n",\n    "x = 1"\n   ]\n  }\n ]\n}\n'
    )
    parsed = parse_source("a.ipynb", text, kind="docs")
    assert [one.name for one in parsed.symbols] == ["Intro", "Intro > More"]
    assert "".join(chunk.text for chunk in parsed.chunks) == text
    assert any(chunk.text.startswith('    "## More') for chunk in parsed.chunks)


def test_a_build_file_among_the_docs_still_names_its_targets() -> None:
    symbols = parse_source("CMakeLists.txt", "add_library(core a.c)\n", kind="docs").symbols
    assert [(one.name, one.kind) for one in symbols] == [("core", "key")]
