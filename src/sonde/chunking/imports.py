"""Imports of a source: one pattern per language over the text, so that broken code counts too.

The names are last parts, folded (`./core/api-v2.js` -> apiv2), to compare with file stems.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, partial
from typing import Literal

_Form = Literal["file", "name", "path"]
"""The captured text: a file's path, dotted names (last part), or a path (last two parts)."""

_QUOTED = r"""["'`]([^"'`\n]{1,300})["'`]"""
_JS = rf"\b(?:from|import|require|mock)\s{{0,20}}\(?\s{{0,20}}{_QUOTED}"
_PATTERNS: dict[str, tuple[_Form, str]] = {
    "bash": ("file", r"""^[ \t]*(?:source|\.)[ \t]+["']?([^\s"';]{1,300})"""),
    "c": ("file", r"""^[ \t]*#[ \t]*(?:include|import)[ \t]*[<"]([^>"\n]{1,300})"""),
    "csharp": (
        "name",
        r"^[ \t]*(?:global[ \t]+)?using[ \t]+(?:static[ \t]+)?(?:\w+[ \t]*=[ \t]*)?([\w.]+)[ \t]*;",
    ),
    "css": ("file", rf"@(?:import|use|forward)\s+(?:url\()?{_QUOTED}"),
    "dart": ("file", rf"^[ \t]*(?:import|export|part)\s+{_QUOTED}"),
    "elixir": ("name", r"^[ \t]*(?:alias|import|use|require)[ \t]+([\w.]+(?:\{[^}]{0,2000}\})?)"),
    "go": ("file", r'^import\s+(\([^)]{0,20000}\)|[\w.]*[ \t]*"[^"\n]+")'),
    "haskell": ("name", r"^import\s+(?:safe\s+)?(?:qualified\s+)?([\w.]+)"),
    "java": ("name", r"^[ \t]*import\s+(?:static\s+([\w.]+)\.\w+|([\w.]+))"),
    "javascript": ("file", _JS),
    "kotlin": ("name", r"^[ \t]*import[ \t]+([\w.]+)"),
    "lua": ("name", rf"\brequire\s{{0,20}}\(?\s{{0,20}}{_QUOTED}"),
    "php": (
        "name",
        (
            r"^[ \t]*use[ \t]+(?:function[ \t]+|const[ \t]+)?([\w\\][^;(]{0,2000});"
            r"|\b(?:require|include)(?:_once)?\b[^;\"'\n]{0,200}[\"']([^\"'\n]+)\.\w+[\"']"
        ),
    ),
    "protobuf": ("file", rf"^import\s+(?:public\s+|weak\s+)?{_QUOTED}"),
    "python": (
        "name",
        (
            r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+c?import[ \t]*(\([^)]{0,20000}\)|[^\n(]+)"
            r"|c?import[ \t]+([^\n]+))"
        ),
    ),
    "ruby": ("file", rf"\b(?:require|require_relative|load|autoload[ \t]+:\w+,)[ \t(]*{_QUOTED}"),
    "rust": (
        "path",
        r"^[ \t]*(?:pub(?:\([^)\n]*\))?[ \t]+)?(?:use[ \t]+([^;]{1,5000});|mod[ \t]+(\w+)[ \t]*;)",
    ),
    "scala": ("name", r"^[ \t]*import[ \t]+([\w.$]+(?:\{[^}]{0,2000}\})?)"),
    "swift": (
        "name",
        (
            r"^[ \t]*(?:@\w+[ \t]+)?import[ \t]+"
            r"(?:(?:class|struct|enum|protocol|func|let|var)[ \t]+)?([\w.]+)"
        ),
    ),
    "zig": ("file", r'@import\(\s{0,20}"([^"\n]{1,300})"'),
}
for _as, _same in (
    ("c", "cpp objective-c"),
    ("javascript", "typescript vue svelte astro"),
    ("java", "groovy"),
    ("css", "scss sass less"),
):
    _PATTERNS |= dict.fromkeys(_same.split(), _PATTERNS[_as])

_compile = cache(partial(re.compile, flags=re.MULTILINE))
_ALIAS = re.compile(r"\bas\s+\w+|=>\s*\w+|(?:#|//|--)[^\n]*")
_NAME = re.compile(r"[\w$]+(?:(?:\.|::|\\|/|-)[\w$]+)*")
_PART = re.compile(r"\.|::|\\|/")
_STRING = re.compile(r'"([^"\n]+)"')
_SEPARATOR = re.compile(r"[\W_]+")
_VERSION = re.compile(r"v\d+$")
_EXTENSION = re.compile(r"\.[A-Za-z]\w{0,9}$")
_NO_NAMES = frozenset({"crate", "self", "super", "std", "core", "alloc", "pub", "given", "_"})


def _names_in(text: str, how: _Form) -> Iterator[str]:
    if how == "file":
        for path in _STRING.findall(text) or [text]:
            parts = [part for part in re.split(r"[/:]", path) if part.strip(".")]
            if len(parts) > 1 and _VERSION.match(parts[-1]):
                parts.pop()
            if parts:
                yield _EXTENSION.sub("", parts[-1])
        return
    last = 2 if how == "path" else 1
    for name in _NAME.findall(_ALIAS.sub(" ", text)):
        for part in _PART.split(name)[-last:]:
            if part not in _NO_NAMES:
                yield part


def find_imports(text: str, language: str) -> tuple[str, ...]:
    """The folded last parts of everything a source imports, each once."""
    if language not in _PATTERNS:
        return ()
    how, source = _PATTERNS[language]
    found: dict[str, None] = {}
    for match in _compile(source).finditer(text):
        for captured in filter(None, match.groups()):
            for name in _names_in(captured, how):
                found[_SEPARATOR.sub("", name).lower()] = None
    return tuple(filter(None, found))


def count_imports(text: str, language: str) -> int:
    """The number of distinct modules, packages or files that a source imports."""
    if language not in _PATTERNS:
        return 0
    found: set[str] = set()
    for match in _compile(_PATTERNS[language][1]).finditer(text):
        captured = next((group for group in match.groups() if group), "")
        plain = _ALIAS.sub(" ", captured)
        if language == "python" and not match[1]:
            found.update(part.strip() for part in plain.split(",") if part.strip())
        elif language == "go":
            found.update(_STRING.findall(captured))
        elif captured:
            found.add(" ".join(plain.split()))
    return len(found)
