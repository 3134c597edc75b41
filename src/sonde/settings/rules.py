"""What settings there are: the values, and for each how it is written, checked and explained."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

Strategy = Literal["realtime", "lazy", "git"]
Chunking = Literal["syntax", "recursive"]
StoreName = Literal["sqlite", "lance"]
Embedding = Literal["auto", "static", "deep", "local", "model", "http", "openai", "none"]
Watching = Literal["auto", "polling", "off"]
ToolNames = Literal["portable", "documented", "both"]
LogLevel = Literal["debug", "info", "warning", "error"]
TOOLSETS = ("code", "index", "files", "knowledge", "research", "all")


@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting, and in `sources` where each one came from."""

    home: Path
    include: tuple[str, ...] = ("**/*",)
    exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    max_file_size: int = 1024 * 1024
    """In bytes."""
    max_files: int = 50_000
    doc_patterns: tuple[str, ...] = ("**/*.md", "**/*.txt")
    index_docs: bool = True
    enhanced_tool_descriptions: bool = False
    indexing_strategy: Strategy = "realtime"
    lazy_idle_threshold: int = 30
    """In seconds."""
    watching: Watching = "auto"
    roots: tuple[str, ...] = ()
    """As written; relative ones are relative to the project's root."""
    chunking: Chunking = "syntax"
    store: StoreName = "sqlite"
    embedding: Embedding = "auto"
    tool_names: ToolNames = "portable"
    toolsets: tuple[str, ...] = ("code", "index", "research")
    max_tokens: int = 2000
    file_roots: tuple[str, ...] = ()
    assume_yes: bool = False
    log_level: LogLevel = "warning"
    host: str = "127.0.0.1"
    port: int = 8420
    token: str = field(default="", repr=False)
    token_file: str = ""
    public_url: str = ""
    rate_limit: int = 200
    """Requests a second."""
    tool_limits: tuple[str, ...] = ()
    """`name=COUNT/UNIT`, per user."""
    jwt_keys: str = ""
    jwt_issuer: str = ""
    jwt_audience: str = "sonde"
    knowledge_store: str = field(default="sqlite", repr=False)
    """`sqlite`, or the address of a PostgreSQL database."""
    chunks_dir: str = ".cortex/chunks"
    embedding_endpoint: str = ""
    embedding_model: str = ""
    embedding_hub: str = "https://huggingface.co"
    embedding_key_variable: str = ""
    embedding_dimensions: int = 384
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Field -> 'argument', 'environment SONDE_X', the path of a file, or 'default'."""
    warnings: tuple[str, ...] = field(default=(), compare=False)


class RejectedError(ValueError):
    """A value that does not fit its setting."""


def _check_strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise RejectedError
    if not all(isinstance(item, str) and item and "\0" not in item for item in value):
        raise RejectedError
    return tuple(value)


def _check_toolsets(value: object) -> tuple[str, ...]:
    names = _check_strings(value)
    if not names or not set(names) <= set(TOOLSETS):
        raise RejectedError
    return names


def _check_limits(value: object) -> tuple[str, ...]:
    rules = _check_strings(value)
    if not all(re.fullmatch(r"(\*|[\w.-]{1,64})=[1-9][0-9]{0,6}/[smh]", rule) for rule in rules):
        raise RejectedError
    return rules


def _check_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise RejectedError
    return value


def _check_count(value: object, most: int = 2**53) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise RejectedError
    return value


def check_size(value: object) -> int:
    """Bytes, or text such as '500KB'."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = re.fullmatch("([0-9]{1,12})(KB|MB)", value) if isinstance(value, str) else None
    if match is None:
        raise RejectedError
    return int(match[1]) * (1024 if match[2] == "KB" else 1024 * 1024)


def _check_size_text(value: object) -> int:
    if not isinstance(value, str):
        raise RejectedError
    return check_size(value)


def _check_text(pattern: str) -> Callable[[object], Any]:
    def check(value: object) -> Any:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise RejectedError
        return value

    return check


def _check_number(least: int, most: int) -> Callable[[object], Any]:
    def check(value: object) -> Any:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise RejectedError
        return value

    return check


def _check_choice(choices: Any) -> Callable[[object], Any]:
    names = get_args(choices)

    def check(value: object) -> Any:
        if not isinstance(value, str) or value not in names:
            raise RejectedError
        return value

    return check


def _read_list(text: str) -> object:
    """A JSON array, or parts between commas that are not inside braces (`*.{c,h},*.py`)."""
    if text.lstrip().startswith("["):
        return parse_json(text)
    return [part.strip() for part in re.split(r",(?![^{]*\})", text) if part.strip()]


def _read_flag(text: str) -> object:
    words = {"1": True, "true": True, "yes": True, "on": True}
    words |= {"0": False, "false": False, "no": False, "off": False}
    return words.get(text.strip().lower(), text)


def _read_number(text: str) -> object:
    return int(text) if re.fullmatch(" *[0-9]{1,15} *", text) else text


@dataclass(frozen=True, slots=True)
class Rule:
    """How one setting is written, checked and explained."""

    key: str
    """Its name in config.json; empty when it cannot stand there."""
    expects: str
    check: Callable[[object], Any]
    read: Callable[[str], object] = str.strip
    """Environment text -> the value as config.json would hold it."""
    about: str = ""


_STRINGS = "an array of strings"
_FLAG = "true or false"
_COUNT = "a positive whole number"

RULES: dict[str, Rule] = {
    "include": Rule("include", _STRINGS, _check_strings, _read_list,
        "Glob patterns for files to index. Default: all files."),
    "exclude": Rule("exclude", _STRINGS, _check_strings, _read_list,
        "Glob patterns to skip (in addition to hardcoded excludes)."),
    "respect_gitignore": Rule("respectGitignore", _FLAG, _check_flag, _read_flag,
        "If true, also excludes files matching .gitignore."),
    "max_file_size": Rule("maxFileSize", "a size such as '500KB' or '1MB'", _check_size_text,
        about="Skip files larger than this. Supports: '500KB', '1MB', '2MB'."),
    "max_files": Rule("maxFiles", _COUNT, _check_count, _read_number,
        "Warn if project exceeds this many files."),
    "doc_patterns": Rule("docPatterns", _STRINGS, _check_strings, _read_list,
        "Glob patterns for documentation files. Default: ['**/*.md', '**/*.txt']."),
    "index_docs": Rule("indexDocs", _FLAG, _check_flag, _read_flag,
        "If true, index documentation files with prose-optimized chunking. Default: true."),
    "enhanced_tool_descriptions": Rule("enhancedToolDescriptions", _FLAG, _check_flag, _read_flag,
        "If true, tool descriptions include AI hints. Default: false."),
    "indexing_strategy": Rule("indexingStrategy", "'realtime', 'lazy' or 'git'",
        _check_choice(Strategy), about="Indexing strategy: 'realtime' (immediate), "
        "'lazy' (on idle/search), 'git' (on commit). Default: 'realtime'."),
    "lazy_idle_threshold": Rule("lazyIdleThreshold", _COUNT, _check_count, _read_number,
        "Seconds of inactivity before lazy indexing triggers. Default: 30."),
    "watching": Rule("watching", "'auto', 'polling' or 'off'", _check_choice(Watching),
        about="How a server learns of changes: 'auto' (file events), 'polling' (looking now and "
        "then), or 'off' (looking when searched). Default: 'auto'."),
    "roots": Rule("roots", "an array of folders", _check_strings, _read_list,
        "Folders that together form this one project. Default: the project's root alone."),
    "chunking": Rule("chunking", "'syntax' or 'recursive'", _check_choice(Chunking),
        about="How code is cut: 'syntax' (whole definitions) or 'recursive' (fixed size). "
        "Default: 'syntax'."),
    "store": Rule("store", "'sqlite' or 'lance'", _check_choice(StoreName),
        about="Where chunks are kept: 'sqlite' or 'lance' (pip install 'sonde[lance]'). "
        "Default: 'sqlite'."),
    "embedding": Rule("embedding", f"one of {', '.join(get_args(Embedding))}",
        _check_choice(Embedding),
        about="'auto' (static at once, deep when idle), 'static', 'deep', 'local' (as "
        "auto, the deep model in a process that all servers share), 'model' (the one at "
        "embeddingModel), 'http' or 'openai' (the service at "
        "embeddingEndpoint is sent your text), or 'none' (words only). "
        "Default: 'auto'."),
    "tool_names": Rule("toolNames", "'portable', 'documented' or 'both'", _check_choice(ToolNames),
        about="Which spellings of tool names are listed: 'portable', 'documented' or 'both'. "
        "Default: 'portable'."),
    "toolsets": Rule("toolsets", f"an array of names among {', '.join(TOOLSETS)}",
        _check_toolsets, _read_list,
        "Which tools are listed to clients. Default: ['code', 'index', 'research']."),
    "max_tokens": Rule("maxTokens", "a whole number from 1 to 20000",
        lambda value: _check_count(value, 20_000), _read_number,
        "Size of one answer, in tokens of 4 characters; at most 20000. Default: 2000."),
    "file_roots": Rule("fileRoots", "an array of folders", _check_strings, _read_list,
        "Folders that agents may scan with `index`. Default: the home folder and where sonde was "
        "started."),
    "assume_yes": Rule("assumeYes", _FLAG, _check_flag, _read_flag,
        "If true, the command line does not ask for confirmation. Default: false."),
    "log_level": Rule("logLevel", "'debug', 'info', 'warning' or 'error'",
        _check_choice(LogLevel),
        about="How much is logged: 'debug', 'info', 'warning' or 'error'. Default: 'warning'."),
    "host": Rule("host", "a host name or address", _check_text(r"[\w.:-]{1,253}"),
        about="Where `sonde serve` listens; others can connect to anything but loopback, and need "
        "a token. Default: '127.0.0.1'."),
    "port": Rule("port", "a whole number from 0 to 65535", _check_number(0, 65_535), _read_number,
        "The port of `sonde serve`; 0 takes a free one. Default: 8420."),
    "token": Rule("token", "text without spaces", _check_text(r"\S{0,500}"),
        about="What callers of `sonde serve` must present. Better kept in a file."),
    "token_file": Rule("tokenFile", "the path of a file", _check_text(r"[^\0]{0,4096}"),
        about="A file of tokens, one a line, a user's name before it: 'anna 5d8b0f...'."),
    "public_url": Rule("publicUrl", "an http or https address",
        _check_text(r"(https?://[\w.:\[\]-]{1,253}/?)?"),
        about="The address of `sonde serve` as others see it, behind a proxy."),
    "rate_limit": Rule("rateLimit", "a whole number from 0 to 1000000",
        _check_number(0, 1_000_000), _read_number,
        "Requests a second that one caller may send; 0 does not limit. Default: 200."),
    "tool_limits": Rule("toolLimits", "an array of limits such as 'knowledge_search=30/m'",
        _check_limits, _read_list,
        "How often one user may call a tool: 'name=COUNT/UNIT' with s, m or h, '*' for each tool "
        "that is not named. Default: no limits."),
    "jwt_keys": Rule("jwtKeys", "the path of a file", _check_text(r"[^\0]{0,4096}"),
        about="A JWKS file with the keys of whoever signs tokens (JWT, RS256 or HS256) for "
        "`sonde serve`; `sub` is the user."),
    "jwt_issuer": Rule("jwtIssuer", "text", _check_text(r"[^\0]{0,500}"),
        about="What `iss` of such tokens must be; required with jwtKeys."),
    "jwt_audience": Rule("jwtAudience", "text", _check_text(r"[^\0]{1,500}"),
        about="What `aud` of such tokens must be. Default: 'sonde'."),
    "knowledge_store": Rule("knowledgeStore", "'sqlite' or postgresql://USER@HOST/DATABASE",
        _check_text(r"sqlite|postgres(ql)?://\S{1,1000}"),
        about="Where personal knowledge is kept: 'sqlite', or the address of a PostgreSQL database "
        "that several servers share (pip install 'sonde[postgres]'). Default: 'sqlite'."),
    "chunks_dir": Rule("chunksDir", "the path of a folder", _check_text(r"[^\0]{1,4096}"),
        about="Chunk files of a project that `cortex_search` answers from where they are. "
        "Default: '.cortex/chunks'."),
    "embedding_endpoint": Rule("embeddingEndpoint", "an http or https address",
        _check_text(r"(https?://[^\s@]{1,1000})?"),
        about="The embedding service of the providers 'http' and 'openai'; else the one that "
        "embeds queries for chunk files of another model."),
    "embedding_model": Rule("embeddingModel", "the name of a model", _check_text(r"[^\0]{0,4096}"),
        about="The model of the provider 'model' (the path of a folder, or owner/name, which is "
        "downloaded once) or 'openai' (default: text-embedding-3-small); of 'http', the one that "
        "the service must say it has."),
    "embedding_hub": Rule("embeddingHub", "an http or https address",
        _check_text(r"https?://[^\s@]{1,1000}"),
        about="Where models are downloaded from that are asked for by name. "
        "Default: 'https://huggingface.co'."),
    "embedding_key_variable": Rule("embeddingKeyVariable", "the name of a variable",
        _check_text(r"([A-Za-z_][A-Za-z0-9_]{0,99})?"),
        about="The environment variable that holds the key for embeddingEndpoint; a key itself is "
        "never written to a file. Default: OPENAI_API_KEY for OpenAI itself, none for others."),
    "embedding_dimensions": Rule("embeddingDimensions", "a whole number from 1 to 100000",
        lambda value: _check_count(value, 100_000), _read_number,
        "Numbers in a vector of that service. Default: 384; 'openai' is asked."),
}  # fmt: skip


def default_of(name: str) -> Any:
    """The built-in value of a setting."""
    return Settings.__dataclass_fields__[name].default


def parse_json(text: str) -> Any:
    """Strict JSON: no NaN, no Infinity."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)
