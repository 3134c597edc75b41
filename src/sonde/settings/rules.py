"""The settings: their values, and how each is written, checked and explained."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from sonde.values import to_camel

Strategy = Literal["realtime", "lazy", "git"]
Chunking = Literal["syntax", "recursive"]
StoreName = Literal["sqlite", "lance"]
Embedding = Literal["auto", "static", "deep", "local", "model", "http", "openai", "none"]
Watching = Literal["auto", "polling", "off"]
Daemon = Literal["auto", "on", "off"]
ToolNames = Literal["portable", "documented", "both"]
LogLevel = Literal["debug", "info", "warning", "error"]
TOOLSETS = ("code", "index", "files", "knowledge", "research", "all")


class RejectedError(ValueError):
    """A value that is not valid for its setting."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How one setting is written, checked and explained."""

    expects: str
    """What a value must be, for messages."""
    check: Callable[[object], Any]
    """Value of config.json -> value of the setting; raises `RejectedError`."""
    about: str
    read: Callable[[str], object] = str.strip
    """Text of the environment -> value of config.json."""
    key: str = ""
    """Its name in config.json."""
    is_secret: bool = False
    """Whether its value is never shown."""


def _rule(
    default: object,
    expects: str,
    check: Callable[[object], Any],
    about: str,
    read: Callable[[str], object] = str.strip,
    *,
    is_secret: bool = False,
) -> Any:
    rule = Rule(expects, check, about, read, is_secret=is_secret)
    return field(default=default, repr=not is_secret, metadata={"rule": rule})


def _flag(about: str, *, default: bool) -> Any:
    def check(value: object) -> bool:
        if not isinstance(value, bool):
            raise RejectedError
        return value

    return _rule(
        default, "true or false", check, about, lambda text: _FLAGS.get(text.strip().lower())
    )


def _number(default: int, about: str, least: int = 1, most: int | None = None) -> Any:
    def check(value: object) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise RejectedError
        if not least <= value <= (_MAX_NUMBER if most is None else most):
            raise RejectedError
        return value

    def read(text: str) -> object:
        return int(text) if re.fullmatch(" *[0-9]{1,15} *", text) else text

    expects = f"a whole number from {least} to {most}" if most else "a positive whole number"
    return _rule(default, expects, check, about, read)


def _text(default: str, expects: str, pattern: str, about: str, *, is_secret: bool = False) -> Any:
    def check(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise RejectedError
        return value

    return _rule(default, expects, check, about, is_secret=is_secret)


def _choice(choices: Any, default: str, about: str, expects: str = "") -> Any:
    *names, last = get_args(choices)
    expects = expects or f"{', '.join(map(repr, names))} or {last!r}"
    return _text(default, expects, "|".join((*names, last)), about)


def _list(
    default: tuple[str, ...],
    about: str,
    expects: str = "an array of strings",
    item: str = r"[^\0]+",
    least: int = 0,
) -> Any:
    def check(value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple) or len(value) < least:
            raise RejectedError
        if not all(isinstance(each, str) and re.fullmatch(item, each) for each in value):
            raise RejectedError
        return tuple(value)

    return _rule(default, expects, check, about, _read_list)


def _read_list(text: str) -> object:
    """A JSON array, or parts between commas that are not inside braces (`*.{c,h},*.py`)."""
    if text.lstrip().startswith("["):
        return parse_json(text)
    return [part.strip() for part in re.split(r",(?![^{]*\})", text) if part.strip()]


def check_size(value: object) -> int:
    """Bytes from a number or from text such as '500KB'; raises `RejectedError`."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = re.fullmatch("([0-9]{1,12})(KB|MB)", value) if isinstance(value, str) else None
    if match is None:
        raise RejectedError
    return int(match[1]) * (1024 if match[2] == "KB" else 1024 * 1024)


_FLAGS = {"1": True, "true": True, "yes": True, "on": True}
_FLAGS |= {"0": False, "false": False, "no": False, "off": False}
_MAX_NUMBER = 2**53  # the largest whole number that every JSON parser reads exactly
_PATH = r"[^\0]{0,4096}"
_DOCUMENTS = (
    "**/*.md",
    "**/*.txt",
    "**/*.{mdx,markdown,rst,adoc,asciidoc,org,ipynb}",
    "**/{README,CHANGELOG,CHANGES,HISTORY,NEWS,TODO,INSTALL,CONTRIBUTING,HACKING,UPGRADING}",
    "**/{LICENSE,LICENCE,COPYING,NOTICE,PATENTS,AUTHORS,CONTRIBUTORS,MAINTAINERS,CREDITS,THANKS}",
)


# fmt: off
# ruff: noqa: RUF009 - each call makes a field
@dataclass(frozen=True, slots=True)
class Settings:
    """Every setting, and in `sources` where each one came from."""

    home: Path
    include: tuple[str, ...] = _list(("**/*",),
        "Glob patterns for files to index. Default: all files.")
    exclude: tuple[str, ...] = _list((),
        "Glob patterns to skip (in addition to hardcoded excludes).")
    respect_gitignore: bool = _flag(
        "If true, also excludes files matching .gitignore.", default=True)
    max_file_size: int = _rule(1024 * 1024,  # in bytes
        "a size such as '500KB' or '1MB'",
        lambda value: check_size(value if isinstance(value, str) else None),
        "Skip files larger than this. Supports: '500KB', '1MB', '2MB'.")
    max_files: int = _number(50_000, "Warn if project exceeds this many files.")
    doc_patterns: tuple[str, ...] = _list(_DOCUMENTS,
        "Glob patterns for documentation files. Default: Markdown, reStructuredText, AsciiDoc, "
        "Org, notebooks, plain text, and names such as README.")
    index_docs: bool = _flag(
        "If true, index documentation files with prose-optimized chunking. Default: true.",
        default=True)
    enhanced_tool_descriptions: bool = _flag(
        "If true, tool descriptions include AI hints. Default: false.", default=False)
    indexing_strategy: Strategy = _choice(Strategy, "realtime",
        "Indexing strategy: 'realtime' (immediate), 'lazy' (on idle/search), 'git' (on commit). "
        "Default: 'realtime'.")
    lazy_idle_threshold: int = _number(30,  # in seconds
        "Seconds of inactivity before lazy indexing triggers. Default: 30.")
    allow: tuple[str, ...] = _list((),
        "Glob patterns of files to index although they look like secrets, and of vendored folders "
        "('vendor/'). Default: none.")
    check_interval: int = _number(24,  # in hours
        "Hours between two checks of the index against the files and itself. Default: 24.")
    watching: Watching = _choice(Watching, "auto",
        "How a server notices changes: 'auto' (file events), 'polling' (checking now and then), or "
        "'off' (checking before searches). Default: 'auto'.")
    roots: tuple[str, ...] = _list((),
        "Folders that together form this one project. Default: the project's root alone.",
        "an array of folders")
    """As written; relative ones are relative to the project's root."""
    chunking: Chunking = _choice(Chunking, "syntax",
        "How code is cut: 'syntax' (whole definitions) or 'recursive' (fixed size). "
        "Default: 'syntax'.")
    store: StoreName = _choice(StoreName, "sqlite",
        "Where chunks are kept: 'sqlite' or 'lance' (the extra `lance`). "
        "Default: 'sqlite'.")
    embedding: Embedding = _choice(Embedding, "auto",
        "'auto' (static at once, deep when idle), 'static', 'deep', 'local' (as auto: "
        "the background process holds the model for all), 'model' (the one at embeddingModel), "
        "'http' or 'openai' (your text is sent to the service at embeddingEndpoint), or 'none' "
        "(words only). Default: 'auto'.", f"one of {', '.join(get_args(Embedding))}")
    tool_names: ToolNames = _choice(ToolNames, "portable",
        "Which spellings of tool names are listed: 'portable', 'documented' or 'both'. "
        "Default: 'portable'.")
    toolsets: tuple[str, ...] = _list(("code", "index", "research"),
        "Which tools are listed to clients. Default: ['code', 'index', 'research'].",
        f"an array of names among {', '.join(TOOLSETS)}", "|".join(TOOLSETS), least=1)
    max_tokens: int = _number(2000,
        "Size of one answer, in tokens of 4 characters; at most 20000. Default: 2000.", most=20_000)
    file_roots: tuple[str, ...] = _list((),
        "Folders that your agents may index, scan and read. Default: the home folder and the "
        "folder where sonde was started. Other users of a server are given theirs with "
        "`sonde users allow`.", "an array of folders")
    assume_yes: bool = _flag(
        "If true, the command line does not ask for confirmation. Default: false.", default=False)
    auto_index: bool = _flag(
        "If true, the project that a server is started in is indexed without asking, unless it is "
        "very large. Default: false.", default=False)
    daemon: Daemon = _choice(Daemon, "auto",
        "Whether one background process serves your agents and quick commands: 'auto' (where the "
        "system can), 'on' (also under `python -m`), or 'off'. Only in the environment and your "
        "own config.json. Default: 'auto'.")
    daemon_idle: int = _number(300,  # in seconds
        "Seconds after the last connection at which the background process ends. Default: 300.")
    agent_notes: bool = _flag(
        "If true, agents may add notes (the tool notes_add is listed); a user of a server agrees "
        "on the knowledge page first. Default: false.", default=False)
    editor: str = _text("vscode", "an editor, 'none', or an address with {path}",
        r"vscode|cursor|jetbrains|zed|none|[a-z][a-z0-9+.-]{1,30}:[^\s{}]*(\{(path|line)\}[^\s{}]*){1,2}",
        "Editor that the page of a file opens: 'vscode', 'cursor', 'jetbrains', 'zed', 'none', or "
        "an address such as 'subl://open?file={path}&line={line}'. Default: 'vscode'.")
    log_level: LogLevel = _choice(LogLevel, "warning",
        "How much is logged: 'debug', 'info', 'warning' or 'error'. Default: 'warning'.")
    host: str = _text("127.0.0.1", "a host name or address", r"[\w.:-]{1,253}",
        "Address on which `sonde serve` listens. Other machines can connect unless it is loopback, "
        "and need a token. Default: '127.0.0.1'.")
    port: int = _number(8420, "Port of `sonde serve`; 0 picks a free one. Default: 8420.",
        0, 65_535)
    token: str = _text("", "text without spaces", r"\S{0,500}",
        "Token that callers of `sonde serve` must send. Better kept in a file.", is_secret=True)
    token_file: str = _text("", "the path of a file", _PATH,
        "File of tokens, one per line after the user's name: 'anna 5d8b0f...'.")
    public_url: str = _text("", "an http or https address", r"(https?://[\w.:\[\]-]{1,253}/?)?",
        "Address of `sonde serve` as others see it, behind a proxy.")
    rate_limit: int = _number(200,  # requests a second
        "Requests per second that one caller may send; 0 means no limit. Default: 200.",
        0, 1_000_000)
    tool_limits: tuple[str, ...] = _list((),
        "How often one user may call a tool: 'name=COUNT/UNIT' with s, m or h, '*' for each tool "
        "that is not named. Default: no limits.",
        "an array of limits such as 'knowledge_search=30/m'",
        r"(\*|[\w.-]{1,64})=[1-9][0-9]{0,6}/[smh]")
    serve_from: str = _text("", "a folder or an s3, gs or az address", _PATH,
        "Shared index whose repositories `sonde serve` answers for, instead of this machine's.")
    cache_folder: str = _text("~/.cache/sonde", "the path of a folder", _PATH,
        "Where `sonde serve --from` keeps repositories; one server uses it at a time. "
        "Default: '~/.cache/sonde'.")
    cache_size: int = _number(20,  # in GB
        "Size of that cache, in GB; the least recently used go first, unless they were used in the "
        "last 10 minutes. Default: 20.", 0, 1_000_000)
    refs_interval: int = _number(30,  # in seconds
        "Seconds between two looks for new commits in the shared index. Default: 30.", 1, 86_400)
    access_file: str = _text("", "the path of a file", _PATH,
        "TOML file that says which repositories users and groups see, and by which provider they "
        "sign in. Without it, only the operator sees any repository of a shared index.")
    audit_log: str = _text("", "the path of a file", _PATH,
        "File to which `sonde serve` writes who called what, as JSON lines. Default: none.")
    signing_key: str = _text("", "a secret of at least 32 characters", r"(\S{32,500})?",
        "Secret that several servers share, so that sessions and cursors of one are valid on all. "
        "Better set in the environment. Default: a key of each installation.", is_secret=True)
    jwt_keys: str = _text("", "the path of a file", _PATH,
        "JWKS file with the keys of the issuer of tokens (JWT, RS256 or HS256) for `sonde serve`; "
        "`sub` is the user.")
    jwt_issuer: str = _text("", "text", r"[^\0]{0,500}",
        "Required `iss` of such tokens; must be set with jwtKeys.")
    jwt_audience: str = _text("sonde", "text", r"[^\0]{1,500}",
        "Required `aud` of such tokens. Default: 'sonde'.")
    knowledge_store: str = _text("sqlite", "'sqlite' or postgresql://USER@HOST/DATABASE",
        r"sqlite|postgres(ql)?://\S{1,1000}",
        "Where personal knowledge is kept: 'sqlite', or the address of a PostgreSQL database that "
        "several servers share (the extra `postgres`). Default: 'sqlite'.", is_secret=True)
    shared_index: str = _text("", "a folder, or s3://, gs:// or az:// with a path", _PATH,
        "Address of the index that `sonde push` fills: a new index starts from its nearest commit "
        "(the extra `lance`).")
    chunks_dir: str = _text(".cortex/chunks", "the path of a folder", r"[^\0]{1,4096}",
        "Folder of a project's chunk files, which `cortex_search` searches in place. "
        "Default: '.cortex/chunks'.")
    embedding_endpoint: str = _text("", "an http or https address", r"(https?://[^\s@]{1,1000})?",
        "Embedding service of the providers 'http' and 'openai'; with other providers, the service "
        "that embeds queries for chunk files of another model.")
    embedding_model: str = _text("", "the name of a model", _PATH,
        "Model of the provider 'model' (the path of a folder, or owner/name, which is downloaded "
        "once) or 'openai' (default: text-embedding-3-small); with 'http', the model that the "
        "service must report.")
    embedding_hub: str = _text("https://huggingface.co", "an http or https address",
        r"https?://[^\s@]{1,1000}", "Where models named as owner/name are downloaded from. "
        "Default: 'https://huggingface.co'.")
    embedding_key_variable: str = _text("", "the name of a variable",
        r"([A-Za-z_][A-Za-z0-9_]{0,99})?",
        "Environment variable that holds the key for embeddingEndpoint; a key itself is never "
        "written to a file. Default: OPENAI_API_KEY for OpenAI itself, none for others.")
    embedding_dimensions: int = _number(384,
        "Dimensions of that service's vectors. Default: 384; 'openai' is asked.", most=100_000)
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Field -> 'argument', 'environment SONDE_X', the path of a file, or 'default'."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
# fmt: on


RULES: dict[str, Rule] = {
    one.name: replace(one.metadata["rule"], key=to_camel(one.name))
    for one in fields(Settings)
    if "rule" in one.metadata
}


def parse_json(text: str) -> Any:
    """Strict JSON: no NaN, no Infinity."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)
