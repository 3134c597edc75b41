"""Names of files and what they are."""

from __future__ import annotations

import pytest

from sonde.chunking.grammars import load_language
from sonde.text.languages import _EXTENSIONS, _NAMES, UNKNOWN, language_of


@pytest.mark.parametrize(
    ("path", "name", "kind"),
    [
        ("src/a.py", "python", "code"),
        ("a/B.TSX", "typescript", "code"),
        ("x.h", "c", "code"),
        ("Makefile", "make", "code"),
        ("docker/Dockerfile", "dockerfile", "code"),
        ("Dockerfile.dev", "dockerfile", "code"),
        ("lib/CMakeLists.txt", "cmake", "code"),
        ("Rakefile", "ruby", "code"),
        ("home/.bashrc", "bash", "code"),
        ("README", "text", "docs"),
        ("README.md", "markdown", "docs"),
        ("notes.txt", "text", "docs"),
        ("requirements.txt", "requirements", "data"),
        ("package.json", "json", "data"),
        ("Cargo.lock", "lock", "data"),
        ("a.yml", "yaml", "data"),
        ("go.mod", "gomod", "data"),
    ],
)
def test_a_file_is_known_by_its_name(path: str, name: str, kind: str) -> None:
    language = language_of(path)
    assert (language.name, language.kind) == (name, kind)


@pytest.mark.parametrize("path", ["a.xyzzy", "noextension", ".hidden", "", "dir.py/file", "a."])
def test_anything_else_is_plain_text_searched_as_code(path: str) -> None:
    assert language_of(path) is UNKNOWN


def test_the_table_is_wide() -> None:
    assert len(_EXTENSIONS) > 300
    assert len({language.name for language in _EXTENSIONS.values()}) > 120


def test_every_grammar_named_can_be_loaded() -> None:
    grammars = {one.grammar for one in [*_EXTENSIONS.values(), *_NAMES.values()]} - {None}
    assert len(grammars) == 20
    for grammar in grammars:
        assert load_language(str(grammar)).node_kind_count > 0
