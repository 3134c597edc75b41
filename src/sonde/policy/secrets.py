"""Private keys and well-known tokens in text that is about to be indexed or imported.

Only unmistakable shapes: a match is a credential, not something that looks random. Examples from
documentation (AKIAIOSFODNN7EXAMPLE, ghp_xxxx…, an elided key) pass. JSON web tokens pass, too: they
expire, and texts about them are full of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple


class _Shape(NamedTuple):
    kind: str
    hints: tuple[str, ...]
    """Substrings of which every match contains one; searching for them first makes it fast."""
    regex: str
    rest: str = ""
    """What follows the match and is part of the secret."""


_GAP = r"""(?:[\s"'+,#*>]|\\[nr])+"""
_REST_OF_KEY = (
    rf"[A-Za-z0-9+/=]*(?:{_GAP}[A-Za-z0-9+/=]{{20,}})*"
    rf"(?:(?:{_GAP}[A-Za-z0-9+/=]+)*{_GAP}-----END [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----)?"
)
_SHAPES = (
    _Shape(
        "private key",
        ("PRIVATE KEY",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"""(?:[\s"'+,#*>]|\\[nr]){0,60}(?:[A-Za-z-]{1,30}: ?[^\n]{0,120}\n\s{0,20}){0,4}"""
        r"([A-Za-z0-9+/]{40,})",
        _REST_OF_KEY,
    ),
    _Shape(
        "PuTTY private key",
        ("PuTTY-User-Key-File-",),
        r"(PuTTY-User-Key-File-[23]: \S+)",
        r"(?s:.*?)Private-MAC: [0-9a-fA-F]+",
    ),
    _Shape("AWS access key", ("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)([A-Z2-7]{16})\b"),
    _Shape(
        "GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"\b(?:gh[pousr]_([A-Za-z0-9]{36,255})|github_pat_([A-Za-z0-9]{22}_[A-Za-z0-9]{59}))\b",
    ),
    _Shape("GitLab token", ("glpat-",), r"\bglpat-([A-Za-z0-9_-]{20,64})"),
    _Shape("Slack token", ("xox",), r"\bxox[abeoprs]-([0-9]{8,}-[A-Za-z0-9-]{12,})"),
    _Shape(
        "Slack webhook",
        ("hooks.slack.com/services/",),
        r"hooks\.slack\.com/services/(T[A-Z0-9]{8,}/B[A-Z0-9]{8,}/[A-Za-z0-9]{20,})",
    ),
    _Shape("Google API key", ("AIza",), r"\bAIza([A-Za-z0-9_-]{35})(?:[^A-Za-z0-9_-]|$)"),
    _Shape(
        "OpenAI key",
        ("T3BlbkFJ",),
        r"\bsk-(?:[a-z]{1,12}-)?([A-Za-z0-9_-]{16,}T3BlbkFJ[A-Za-z0-9_-]{16,})",
    ),
    _Shape("Anthropic key", ("sk-ant-",), r"\bsk-ant-[a-z]+[0-9]{2}-([A-Za-z0-9_-]{80,})"),
    _Shape("Stripe key", ("k_live_",), r"\b[rs]k_live_([A-Za-z0-9]{20,})"),
    _Shape("npm token", ("npm_",), r"\bnpm_([A-Za-z0-9]{36})\b"),
    _Shape("PyPI token", ("pypi-AgEI",), r"\bpypi-AgEI([A-Za-z0-9_-]{50,})"),
    _Shape("Hugging Face token", ("hf_",), r"\bhf_([A-Za-z]{34})\b"),
    _Shape("SendGrid key", ("SG.",), r"\bSG\.([A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})"),
    _Shape("DigitalOcean token", ("dop_v1_",), r"\bdop_v1_([a-f0-9]{64})\b"),
)
_HINTS = "|".join(re.escape(hint) for shape in _SHAPES for hint in shape.hints).encode()
_EXAMPLE_WORDS = (
    "example", "sample", "placeholder", "redacted", "dummy", "fake", "your", "test", "xxxx",
    "0000", "1234", "abcd",
)  # fmt: skip


def secret_in(text: str) -> str | None:
    """The kind and place of a secret in a text ("AWS access key on line 3"), never its value."""
    for shape in _find_shapes(text):
        for match, _ in _find_values(shape, text):
            return f"{shape.kind} on line {text.count(chr(10), 0, match.start()) + 1}"
    return None


def redact_secrets(text: str) -> tuple[str, int]:
    """The text with every secret replaced by its kind, and the number of secrets."""
    count = 0
    for shape in _find_shapes(text):
        parts: list[str] = []
        done = 0
        for match, end in _find_values(shape, text):
            if match.start() < done:
                continue
            rest = _compile(shape.rest).match(text, end) if shape.rest else None
            parts += [text[done : match.start()], f"[{shape.kind} left out]"]
            done = rest.end() if rest else end
            count += 1
        text = "".join(parts) + text[done:]
    return text, count


def _find_shapes(text: str) -> list[_Shape]:
    """The shapes that may occur in a text; one pass for all hints, as most files contain none."""
    if _compile(_HINTS).search(text.encode("utf-8", "replace")) is None:
        return []
    return [shape for shape in _SHAPES if any(hint in text for hint in shape.hints)]


def _find_values(shape: _Shape, text: str) -> Iterator[tuple[Any, int]]:
    """The matches of a shape that are not examples, and where the value of each ends."""
    for match in _compile(shape.regex).finditer(text):
        group = next(number for number, part in enumerate(match.groups(), 1) if part)
        value = match.group(group)
        is_varied = len(set(value)) * 4 >= min(len(value), 64)
        if is_varied and not any(word in value.lower() for word in _EXAMPLE_WORDS):
            yield match, match.end(group)


@cache
def _compile(regex: str | bytes) -> Any:
    import re2

    return re2.compile(regex)
