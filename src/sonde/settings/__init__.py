"""One frozen `Settings`; the only reader of the environment and of config files.

Explicit argument > environment > project file > user file > default. An invalid value never stops
anything: the next source decides, and `warnings` says so.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sonde.errors import EmbeddingFailed, InvalidRequest, StorageUnusable, UnknownArgument
from sonde.settings.rules import RULES, RejectedError, Rule, Settings, check_size, parse_json

__all__ = [
    "CORTEX_FILE", "RULES", "Settings", "apply_cortex_config", "apply_project_config",
    "find_home", "load_settings", "read_key", "render_config",
]  # fmt: skip

_LINE = re.compile(r"^(?P<indent> *)(?P<key>[\w-]+):(?:[ \t]+(?P<value>[^#\n]*?))?[ \t]*(?:#.*)?$")
_MEANING = {
    "server.chunks_dir": "chunks_dir",
    "embedding.endpoint": "embedding_endpoint",
    "embedding.dimensions": "embedding_dimensions",
}


def parse_cortex_config(text: str) -> dict[str, str]:
    """The settings in a `.cortex/config.yml`, by our names, as text."""
    found: dict[str, str] = {}
    section = ""
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        value = (match["value"] or "").strip().strip("\"'")
        if not match["indent"]:
            section = match["key"]
        name = _MEANING.get(f"{section}.{match['key']}")
        if match["indent"] and name and value:
            found[name] = value
    return found


LOOPBACK = re.compile(r"https?://(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?(/\S*)?")
"""Host names of this machine."""


def read_key(variable: str, address: str) -> str:
    """The key for the embedding service at an address; an empty address is OpenAI itself.

    OpenAI's own key is sent to OpenAI alone: another service gets the key in the variable that is
    named for it, or none. No key is sent unencrypted to another machine.
    """
    is_openai = not address or address.startswith("https://api.openai.com/")
    name = variable or ("OPENAI_API_KEY" if is_openai else "")
    key = os.environ.get(name, "").strip() if name else ""
    if name and not re.fullmatch(r"[\x21-\x7e]+", key):
        raise EmbeddingFailed(
            f"{name} is not a key" if key else f"{name} is not set",
            user_message="The key of the embedding service is missing.",
            next_action=f"Set the environment variable {name}.",
        )
    if key and address.startswith("http://") and not LOOPBACK.fullmatch(address):
        raise EmbeddingFailed(
            "a key would be sent over http in the clear",
            user_message="The key of the embedding service would be sent unencrypted.",
            next_action="Use an https address for `embeddingEndpoint`.",
        )
    return key


MAX_CONFIG_BYTES = 10 * 1024 * 1024  # far more than any list of patterns needs
UNEDITED = "_asGenerated"
"""Marks a generated file: its values that equal the defaults were not chosen by the user."""

CORTEX_FILE = str(Path(".cortex") / "config.yml")
_CORTEX = {"CORTEX_CHUNKS_DIR": "chunks_dir", "CORTEX_EMBEDDING_ENDPOINT": "embedding_endpoint"}
_Given = tuple[str, str, object]
"""A setting, its name in the source, and its value there."""
_BY_KEY = {rule.key: name for name, rule in RULES.items()}


def find_home(environ: Mapping[str, str]) -> tuple[Path, str]:
    """The storage root and its source; raises `StorageUnusable` if there is no home folder."""
    chosen = environ.get("SONDE_HOME", "").strip()
    variable = "USERPROFILE" if os.name == "nt" else "HOME"
    user_home = environ.get(variable, "")
    if not chosen or chosen == "~" or chosen.startswith(("~/", "~\\")):
        if not Path(user_home).is_absolute():
            raise StorageUnusable(
                f"{variable} is {user_home!r} and SONDE_HOME is {chosen!r}",
                user_message="There is no home folder to keep indexes in.",
            )
        chosen_path = Path(user_home, chosen[2:]) if chosen else Path(user_home, ".mcp", "search")
    else:
        chosen_path = Path(chosen)
    if "\0" in str(chosen_path):
        raise StorageUnusable(f"SONDE_HOME is {chosen!r}")
    return chosen_path.absolute(), "environment SONDE_HOME" if chosen else "default"


def load_settings(
    environ: Mapping[str, str], *, project_config: Path | None = None, **explicit: Any
) -> Settings:
    """Settings from every source. Explicit values win; None means not given."""
    given = {name: value for name, value in explicit.items() if value is not None}
    home, home_source = (
        (Path(given.pop("home")).absolute(), "argument") if "home" in given else find_home(environ)
    )
    sources = dict.fromkeys(RULES, "default") | {"home": home_source}
    settings = Settings(home=home, sources=sources)
    settings = _apply_file(settings, home / "config.json", over={"default"})
    settings = _apply_environment(settings, environ)
    settings = _apply_explicit(settings, given)
    return apply_project_config(settings, project_config)


def apply_project_config(settings: Settings, path: Path | None) -> Settings:
    """The settings with a project's config.json, which overrides defaults and the user's file."""
    if path is None:
        return settings
    over = {"default", str(settings.home / "config.json")}
    over |= {source for source in settings.sources.values() if source.endswith(CORTEX_FILE)}
    return _apply_file(settings, path, over=over)


def apply_cortex_config(settings: Settings, path: Path, text: str) -> Settings:
    """The settings with the project's `.cortex/config.yml`, which yields to config.json."""
    warnings: list[str] = []
    entries = parse_cortex_config(text)
    endpoint = entries.get("embedding_endpoint", "")
    if endpoint.startswith(("http://", "https://")) and not LOOPBACK.fullmatch(endpoint):
        # the file comes with the project, whose author must not receive the queries
        warnings.append(f"{path}: embedding.endpoint is not on this machine; it is ignored")
        del entries["embedding_endpoint"]
    over = {"default", str(settings.home / "config.json")}
    given = ((name, name, value) for name, value in entries.items())
    return _apply(settings, str(path), given, warnings, over, as_text=True)


def _apply_file(settings: Settings, path: Path, over: set[str]) -> Settings:
    """Apply the file's valid values to every setting whose source is one of `over`."""
    warnings: list[str] = []
    entries = _read_config(path, warnings)

    def find_known() -> Iterator[_Given]:
        for key, raw in entries.items():
            if key in _BY_KEY:
                yield _BY_KEY[key], key, raw
            elif not key.startswith("_"):
                warnings.append(f"{path}: unknown setting '{key}'{_suggest(key, _BY_KEY)}")

    unedited = UNEDITED in entries
    return _apply(settings, str(path), find_known(), warnings, over, unedited=unedited)


def _apply_environment(settings: Settings, environ: Mapping[str, str]) -> Settings:
    warnings: list[str] = []

    def find_known() -> Iterator[_Given]:
        for variable, text in sorted(environ.items()):
            name = _CORTEX.get(variable) or variable.removeprefix("SONDE_").lower()
            ours = variable in _CORTEX or variable.startswith("SONDE_")
            if not ours or name == "home" or not text.strip():
                continue
            if name in RULES:
                yield name, variable, text
                continue
            near = _suggest(name, ("home", *RULES), write=lambda known: f"SONDE_{known.upper()}")
            warnings.append(f"environment: unknown {variable}{near}")

    every = set(settings.sources.values())
    return _apply(settings, "environment", find_known(), warnings, every, as_text=True)


def _apply(
    settings: Settings,
    origin: str,
    given: Iterable[_Given],
    warnings: list[str],
    over: set[str],
    *,
    as_text: bool = False,
    unedited: bool = False,
) -> Settings:
    """Apply the valid values of one source to every setting whose own source is one of `over`. In
    an `unedited` file, a default was not chosen by the user."""
    values: dict[str, Any] = {}
    sources = dict(settings.sources)
    for name, label, raw in given:
        rule = RULES[name]
        try:
            value = rule.check(rule.read(str(raw)) if as_text else raw)
        except ValueError:
            refusal = _refuse(label, rule, raw)
            warnings.append(f"{origin}: {refusal}; this value is ignored")
            continue
        default = Settings.__dataclass_fields__[name].default
        if settings.sources[name] in over and not (unedited and value == default):
            values[name] = value
            sources[name] = f"environment {label}" if origin == "environment" else origin
    return replace(settings, **values, sources=sources, warnings=(*settings.warnings, *warnings))


def _apply_explicit(settings: Settings, given: Mapping[str, Any]) -> Settings:
    values: dict[str, Any] = {}
    for name, raw in given.items():
        if name not in RULES:
            message = f"Unknown setting '{name}'{_suggest(name, RULES)}"
            raise UnknownArgument(message, user_message=message)
        try:
            check = check_size if name == "max_file_size" else RULES[name].check
            values[name] = check(raw)
        except RejectedError as error:
            message = f"{_refuse(name, RULES[name], raw)}."
            raise InvalidRequest(message, user_message=message) from error
    sources = {**settings.sources, **dict.fromkeys(values, "argument")}
    return replace(settings, **values, sources=sources)


def _read_config(path: Path, warnings: list[str]) -> Mapping[str, Any]:
    """The entries of a file; none, and a warning, if it cannot be used."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            reason = "it is not a regular file"
        elif found.st_size > MAX_CONFIG_BYTES:
            reason = "it is over 10 MB"
        else:
            entries = parse_json(path.read_text(encoding="utf-8-sig"))
            if isinstance(entries, dict):
                return entries
            reason = "it is not a JSON object"
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        reason = str(error) or type(error).__name__
    warnings.append(f"{path}: ignored, {reason}")
    return {}


def _refuse(label: str, rule: Rule, raw: object) -> str:
    """What is wrong with a value, without a secret or the user and password of an address."""
    text = json.dumps(raw, ensure_ascii=False, default=repr)
    text = re.sub(r"//[^/\s]*@", "//…@", text)
    text = text if len(text) <= 60 else text[:59] + "…"
    return f"{label} must be {rule.expects}" + ("" if rule.is_secret else f", not {text}")


def _suggest(
    name: str, known: Iterable[str], write: Callable[[str], str] = lambda found: found
) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean '{write(near[0])}'?" if near else ""


CONFIG_VERSION = 1  # of the format; every file so far has it

_GROUPS = (
    ("include", "exclude"),
    ("respect_gitignore", "max_file_size", "max_files"),
    ("doc_patterns", "index_docs"),
    ("enhanced_tool_descriptions",),
    ("indexing_strategy", "lazy_idle_threshold"),
    ("allow", "check_interval", "watching", "roots", "chunking", "store", "embedding"),
    ("tool_names", "toolsets", "max_tokens"),
)
_UNEDITED_NOTE = (
    "A value that still equals its default yields to ~/.mcp/search/config.json. "
    "Remove this line to make every value here binding."
)


def render_config(hardcoded_excludes: Sequence[str]) -> str:
    """A commented config.json: the defaults, whatever this run sets, and hardcoded excludes."""
    groups: list[list[tuple[str, Any]]] = [
        [
            ("_comment", "Search MCP Configuration - Edit to customize indexing behavior"),
            ("_version", CONFIG_VERSION),
            (UNEDITED, _UNEDITED_NOTE),
        ]
    ]
    groups += [[(RULES[name].key, _write_default(name)) for name in names] for names in _GROUPS]
    groups.append([("_hardcodedExcludes", list(hardcoded_excludes))])
    groups.append([("_availableOptions", {rule.key: rule.about for rule in RULES.values()})])
    body = ",\n\n".join(",\n".join(_render(*entry) for entry in group) for group in groups)
    return f"{{\n{body}\n}}\n"


def _write_default(name: str) -> Any:
    value: Any = Settings.__dataclass_fields__[name].default
    return f"{value >> 20}MB" if name == "max_file_size" else value


def _render(key: str, value: Any) -> str:
    long = key in ("_hardcodedExcludes", "_availableOptions")
    text = json.dumps(value, ensure_ascii=False, indent=2 if long else None)
    return f"  {json.dumps(key)}: " + text.replace("\n", "\n  ")
