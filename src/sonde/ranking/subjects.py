"""What a question asks of the project itself, such as its version or its CI; and the files that say
it. Their words are too few and too common to find them; they go by their fixed names. Pure.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_MANIFEST = (
    r"package\.json|pyproject\.toml|setup\.(?:py|cfg)|Cargo\.toml|go\.mod|composer\.json|pom\.xml|"
    r"build\.gradle(?:\.kts)?|build\.sbt|mix\.exs|Package\.swift|pubspec\.yaml|[\w.-]+\.(?:gemspec|"
    r"csproj|cabal)|Directory\.Build\.props|build\.zig\.zon"
)
_TASKS = r"[Mm]akefile|GNUmakefile|[Jj]ustfile|Taskfile\.ya?ml|Rakefile|tox\.ini|noxfile\.py"
_WORKFLOW = r"\.github/workflows/[^/]*"
_CI = (
    rf"{_WORKFLOW}|\.gitlab-ci\.yml|\.circleci/config\.yml|\.travis\.yml|Jenkinsfile|appveyor\.yml|"
    r"azure-pipelines\.yml"
)
_LINT = (
    r"\.golangci\.ya?ml|\.?eslint(?:rc|\.config)\.?\w*|\.oxlintrc\.json|biome\.jsonc?|\.?ruff\.toml|"
    r"\.flake8|\.?pylintrc|\.rubocop\.yml|\.?(?:rustfmt|clippy)\.toml|phpstan\.neon(?:\.dist)?|"
    r"phpcs\.xml(?:\.dist)?|pint\.json|\.php-cs-fixer[\w.]*|checkstyle\.xml|\.prettierrc[\w.]*|"
    r"\.pre-commit-config\.yaml|\.swiftlint\.yml|\.clang-(?:format|tidy)|\.credo\.exs"
)
_RELEASE = (
    rf"{_WORKFLOW}(?:releas|publish|deploy)[^/]*|\.goreleaser\.ya?ml|lerna\.json|netlify\.toml|"
    r"vercel\.json|\.releaserc[\w.]*|\.?cliff\.toml"
)
_TOOLS = (
    "python|node|nodejs|go|golang|rust|php|ruby|java|jdk|kotlin|scala|swift|elixir|typescript|npm"
)


class Subject(NamedTuple):
    """One such question, and the files that answer it."""

    asks: re.Pattern[str]
    files: re.Pattern[str]


def _pair(question: str, *files: str) -> Subject:
    return Subject(
        re.compile(rf"\b(?:{question})\b", re.IGNORECASE),
        re.compile(rf"((?:[^/]+/)*?)(?:{'|'.join(files)})"),
    )


_SUBJECTS = (
    _pair(
        r"(?:npm|yarn|pnpm|composer|package\.json) (?:run )?scripts?", r"(?:package|composer)\.json"
    ),
    _pair(r"make(?:file)? targets?", _TASKS, r"Makefile\.\w+|[\w-]+\.mk"),
    _pair(r"(?:in|does|do|use|by) (?:the )?ci|ci (?:runs?|jobs?|pipelines?)|github actions?", _CI),
    _pair(r"linters?|lint rules?|linting", _LINT),
    _pair(r"(?:typescript|compiler) options|tsconfig", r"tsconfig(?:\.\w+)*\.json"),
    _pair(r"(?:docker|container) (?:image|build)s?|dockerfile", r"[\w.-]*[Dd]ockerfile[\w.-]*"),
    _pair(
        r"(?:package|project|site|website|documentation|docs|crate|gem|librar|release)\w*\b.{0,20}"
        r"\b(?:built|made|cut|released|published|deployed)|release (?:process|workflow)",
        _RELEASE,
    ),
    _pair(
        r"version number|(?:project|package)(?:'s)? version|versions? (?:is )?(?:set|bumped)",
        _MANIFEST,
        r"_?version\.\w+|VERSION|__about__\.py",
    ),
    _pair(
        rf"(?:minimum|supported|required) .{{0,20}}versions?|(?:{_TOOLS}) versions?|versions? of "
        r"[\w@/.-]+ (?:is|are|do|does)|versions? (?:is|are) (?:supported|required)|"
        r"(?:which|what) (?:dependencies|(?:crate )?features)",
        _MANIFEST,
    ),
    _pair(
        r"(?:commands?|scripts?) .{0,12}runs?|runs? the tests",
        _TASKS,
        r"(?:package|composer)\.json",
    ),
)
"""The first that fits decides."""


def find_subject(question: str) -> re.Pattern[str] | None:
    """The paths of the files that answer a question about the project itself."""
    return next((each.files for each in _SUBJECTS if each.asks.search(question)), None)


def rate_path(path: str, subject: re.Pattern[str] | None) -> float:
    """How well a file answers it: 1 for one of the whole project, less for one further down."""
    match = subject.fullmatch(path) if subject else None
    return max(1 - 0.2 * match[1].count("/"), 0.2) if match else 0.0
