import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.errors import InvalidRequest, StorageUnusable, UnknownArgument
from sonde.policy.deny_list import public_deny_list
from sonde.settings import (
    RULES,
    Settings,
    apply_cortex_config,
    apply_project_config,
    load_settings,
    render_config,
)

RFC_CONFIG = """\
{
  "_comment": "Search MCP Configuration - Edit to customize indexing behavior",

  "include": ["**/*"],
  "exclude": [],

  "respectGitignore": true,
  "maxFileSize": "1MB",
  "maxFiles": 50000,

  "docPatterns": ["**/*.md", "**/*.txt", "**/*.{mdx,markdown,rst,adoc,asciidoc,org,ipynb}", \
"**/{README,CHANGELOG,CHANGES,HISTORY,NEWS,TODO,INSTALL,CONTRIBUTING,HACKING,UPGRADING}", \
"**/{LICENSE,LICENCE,COPYING,NOTICE,PATENTS,AUTHORS,CONTRIBUTORS,MAINTAINERS,CREDITS,THANKS}"],
  "indexDocs": true,

  "enhancedToolDescriptions": false,

  "indexingStrategy": "realtime",
  "lazyIdleThreshold": 30,

  "_hardcodedExcludes": [
    "// These patterns are ALWAYS excluded and cannot be overridden:",
    "// - node_modules/, jspm_packages/, bower_components/  (dependencies)",
    "// - .git/, .hg/, .svn/  (version control)",
    "// - dist/, build/, out/, target/  (build artifacts)",
    "// - .env, .env.*, *.pem, *.key  (secrets)",
    "// - *.log, *.lock, package-lock.json, yarn.lock  (logs/locks)",
    "// - .idea/, .vscode/, .DS_Store  (IDE config)",
    "// - coverage/  (test coverage)",
    "// - Binary files (images, videos, etc.) are auto-detected and skipped"
  ],

  "_availableOptions": {
    "include": "Glob patterns for files to index. Default: all files.",
    "exclude": "Glob patterns to skip (in addition to hardcoded excludes).",
    "respectGitignore": "If true, also excludes files matching .gitignore.",
    "maxFileSize": "Skip files larger than this. Supports: '500KB', '1MB', '2MB'.",
    "maxFiles": "Warn if project exceeds this many files.",
    "docPatterns": "Glob patterns for documentation files. Default: Markdown, \
reStructuredText, AsciiDoc, Org, notebooks, plain text, and names such as README.",
    "indexDocs": "If true, index documentation files with prose-optimized chunking. Default: true.",
    "enhancedToolDescriptions": "If true, tool descriptions include AI hints. Default: false.",
    "indexingStrategy": "Indexing strategy: 'realtime' (immediate), 'lazy' (on idle/search), \
'git' (on commit). Default: 'realtime'.",
    "lazyIdleThreshold": "Seconds of inactivity before lazy indexing triggers. Default: 30."
  }
}
"""
RFC_EXCLUDES: list[str] = json.loads(RFC_CONFIG)["_hardcodedExcludes"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def write(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def load(home: Path, project: object = None, **environ: str) -> Settings:
    config = None if project is None else write(home.parent / "project.json", project)
    return load_settings({"SONDE_HOME": str(home), **environ}, project_config=config)


def test_everything_has_a_default_and_says_so(home: Path) -> None:
    settings = load(home)
    assert settings == Settings(home=home)
    assert settings.sources == {**dict.fromkeys(RULES, "default"), "home": "environment SONDE_HOME"}
    assert settings.warnings == ()


@pytest.mark.row("001-10")
def test_each_source_beats_the_ones_below_it(home: Path) -> None:
    user = write(home / "config.json", {"maxFiles": 1, "maxTokens": 10, "chunking": "recursive"})
    environ = {"SONDE_HOME": str(home), "SONDE_MAX_FILES": "3", "SONDE_LOG_LEVEL": "debug"}
    project = write(home.parent / "p.json", {"maxFiles": 2, "maxTokens": 20, "logLevel": "info"})
    settings = load_settings(environ, project_config=project, log_level="error")
    assert (settings.max_files, settings.sources["max_files"]) == (3, "environment SONDE_MAX_FILES")
    assert (settings.max_tokens, settings.sources["max_tokens"]) == (20, str(project))
    assert (settings.chunking, settings.sources["chunking"]) == ("recursive", str(user))
    assert (settings.log_level, settings.sources["log_level"]) == ("error", "argument")
    assert settings.sources["store"] == "default"


def test_a_project_config_can_be_added_later_with_the_same_outcome(home: Path) -> None:
    write(home / "config.json", {"maxFiles": 1, "store": "lance"})
    project = write(home.parent / "p.json", {"maxFiles": 2, "maxTokens": 5, "bogus": 1})
    environ = {"SONDE_HOME": str(home), "SONDE_MAX_TOKENS": "7"}
    at_once = load_settings(environ, project_config=project, chunking="recursive")
    later = apply_project_config(load_settings(environ, chunking="recursive"), project)
    assert at_once == later
    assert at_once.sources == later.sources
    assert at_once.warnings == later.warnings


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("include", "**/*"),
        ("include", ["a", 1]),
        ("exclude", {"a": 1}),
        ("exclude", [""]),
        ("respectGitignore", "true"),
        ("respectGitignore", 1),
        ("maxFileSize", "1GB"),
        ("maxFileSize", "1 MB"),
        ("maxFileSize", "1MB\n"),
        ("maxFileSize", "١MB"),
        ("maxFileSize", 1048576),
        ("maxFileSize", "9" * 5000 + "MB"),
        ("maxFiles", 0),
        ("maxFiles", -1),
        ("maxFiles", 1.5),
        ("maxFiles", True),
        ("maxFiles", "50"),
        ("docPatterns", None),
        ("indexDocs", 0),
        ("enhancedToolDescriptions", "no"),
        ("indexingStrategy", "eager"),
        ("indexingStrategy", ["git"]),
        ("lazyIdleThreshold", 0),
        ("toolsets", ["code", "kode"]),
        ("maxTokens", 20_001),
        ("store", "oracle"),
    ],
)
@pytest.mark.row(
    "001-137",
    "001-138",
    "001-139",
    "001-140",
    "001-141",
    "001-142",
    "001-143",
    "001-144",
    "001-145",
    "001-146",
    "001-147",
)
def test_an_invalid_value_gives_way_to_the_default_with_a_warning(
    home: Path, key: str, value: object
) -> None:
    settings = load(home, {key: value, "exclude": ["keep"]} if key != "exclude" else {key: value})
    expected = ("keep",) if key != "exclude" else ()
    assert settings == Settings(home=home, exclude=expected)
    (warning,) = settings.warnings
    assert key in warning
    assert "project.json" in warning
    assert len(warning) < 400


def test_an_invalid_project_value_falls_back_to_the_users_choice(home: Path) -> None:
    write(home / "config.json", {"maxFiles": 7})
    assert load(home, {"maxFiles": "many"}).max_files == 7


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"maxFiles": 1,}',
        '// no\n{"maxFiles": 1}',
        '{"maxFiles": NaN}',
        "[" * 100_000,
    ],
)
def test_a_file_that_is_not_a_json_object_is_ignored_whole(home: Path, content: str) -> None:
    settings = load(home, content)
    assert settings == Settings(home=home)
    assert len(settings.warnings) == 1
    assert "ignored" in settings.warnings[0]


def test_bytes_that_are_not_utf8_are_ignored_and_a_byte_order_mark_is_not_an_error(
    home: Path,
) -> None:
    path = home / "config.json"
    path.write_bytes(b'{"maxFiles": 1, "_": "\xff"}')
    assert len(load(home).warnings) == 1
    path.write_bytes(b'\xef\xbb\xbf{"maxFiles": 1}')
    assert load(home).max_files == 1


@pytest.mark.row("001-86")
def test_a_config_over_ten_megabytes_is_refused_unread(home: Path) -> None:
    with (home / "config.json").open("wb") as file:
        file.truncate(10 * 1024 * 1024 + 1)
    assert "over 10 MB" in load(home).warnings[0]


@pytest.mark.skipif(os.name == "nt", reason="POSIX files")
def test_a_pipe_in_place_of_a_config_does_not_hang(home: Path) -> None:
    os.mkfifo(home / "config.json")
    assert "not a regular file" in load(home).warnings[0]


def test_unknown_names_are_reported_with_the_nearest_known_one(home: Path) -> None:
    settings = load(home, {"maxfiles": 1, "_note": 1}, SONDE_MAX_TOKEN="5", SONDE_ZZZ="1")
    told = " ".join(settings.warnings)
    assert "unknown setting 'maxfiles'; did you mean 'maxFiles'?" in told
    assert "unknown SONDE_MAX_TOKEN; did you mean 'SONDE_MAX_TOKENS'?" in told
    assert "unknown SONDE_ZZZ" in told
    assert "_note" not in told


def test_the_environment_speaks_plain_words(home: Path) -> None:
    settings = load(
        home,
        SONDE_ASSUME_YES="1",
        SONDE_INDEX_DOCS="off",
        SONDE_EXCLUDE="*.{c,h}, gen/**",
        SONDE_INCLUDE='["a,b", "c"]',
        SONDE_MAX_FILE_SIZE="2KB",
        SONDE_EMBEDDING="none",
        SONDE_TOOLSETS="all",
        SONDE_ROOTS="../api,../web",
        SONDE_STORE="",
    )
    assert settings.warnings == ()
    assert settings.assume_yes
    assert not settings.index_docs
    assert settings.exclude == ("*.{c,h}", "gen/**")
    assert settings.include == ("a,b", "c")
    assert settings.max_file_size == 2048
    assert settings.embedding == "none"
    assert settings.toolsets == ("all",)
    assert settings.roots == ("../api", "../web")
    assert settings.sources["store"] == "default"


@given(
    name=st.sampled_from(sorted(RULES)),
    text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
)
def test_no_environment_text_can_stop_the_program(name: str, text: str) -> None:
    settings = load_settings({"SONDE_HOME": "/nowhere", f"SONDE_{name.upper()}": text})
    taken = settings.sources[name] != "default"
    assert taken or not text.strip() or len(settings.warnings) == 1


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(name=st.sampled_from(sorted(RULES)), value=JSON_VALUES)
def test_any_json_value_is_taken_or_warned_of(
    tmp_path_factory: pytest.TempPathFactory, name: str, value: object
) -> None:
    home = tmp_path_factory.mktemp("home")
    write(home / "config.json", {RULES[name].key: value})
    settings = load_settings({"SONDE_HOME": str(home)})
    taken = settings.sources[name] != "default"
    assert taken == (len(settings.warnings) == 0)
    assert taken or settings == Settings(home=home)


def test_a_wrong_argument_is_the_callers_error(home: Path) -> None:
    environ = {"SONDE_HOME": str(home)}
    with pytest.raises(InvalidRequest, match="max_files must be a positive whole number"):
        load_settings(environ, max_files=0)
    with pytest.raises(UnknownArgument) as caught:
        load_settings(environ, max_file=1)
    assert "max_file" in caught.value.user_message
    assert load_settings(environ, max_file_size=512, max_files=None).max_file_size == 512


@pytest.mark.row("001-7")
def test_the_home_is_under_the_users_home_unless_said_otherwise(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    assert load_settings(environ).home == tmp_path / ".mcp" / "search"
    assert load_settings({**environ, "SONDE_HOME": "~/x"}).home == tmp_path / "x"
    assert load_settings({**environ, "SONDE_HOME": "x"}).home == Path.cwd() / "x"
    assert load_settings(environ, home=tmp_path / "y").sources["home"] == "argument"


@pytest.mark.parametrize("environ", [{}, {"HOME": "", "USERPROFILE": ""}, {"SONDE_HOME": "~/x"}])
def test_no_home_at_all_is_a_clear_error(environ: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(StorageUnusable) as caught:
        load_settings(environ)
    assert "SONDE_HOME" in caught.value.next_action
    assert load_settings(environ, home=tmp_path).home == tmp_path


@pytest.mark.row(
    "001-125",
    "001-126",
    "001-127",
    "001-128",
    "001-129",
    "001-130",
    "001-131",
    "001-132",
    "001-133",
    "001-134",
    "001-136",
)
def test_the_generated_config_is_the_documented_one_plus_our_keys() -> None:
    text = render_config(RFC_EXCLUDES)
    ours = json.loads(text)
    documented = json.loads(RFC_CONFIG)
    options = ours.pop("_availableOptions")
    assert documented.pop("_availableOptions").items() <= options.items()
    assert documented.items() <= ours.items()
    assert set(ours) - set(documented) == {
        *("_version", "_asGenerated", "roots", "chunking", "store", "embedding"),
        *("toolNames", "toolsets", "maxTokens", "watching", "allow", "checkInterval"),
    }
    head = RFC_CONFIG[RFC_CONFIG.index('  "include"') : RFC_CONFIG.index('  "_hardcoded')]
    assert head in text
    notes = RFC_CONFIG[RFC_CONFIG.index('  "_hardcoded') : RFC_CONFIG.index("Default: 30.")]
    assert notes in text


def test_what_is_excluded_for_good_is_named_in_full() -> None:
    text = render_config(public_deny_list())
    notes = "\n".join(json.loads(text)["_hardcodedExcludes"])
    for pattern in ("vendor/", ".venv/", "__pycache__/", "*.p12", "poetry.lock", ".nyc_output/"):
        assert pattern in notes


def test_a_generated_config_loads_cleanly_and_changes_nothing(home: Path) -> None:
    text = render_config(RFC_EXCLUDES)
    settings = load(home, text)
    assert settings == Settings(home=home)
    assert settings.warnings == ()


def test_a_generated_config_does_not_shadow_the_users_until_it_is_edited(home: Path) -> None:
    write(home / "config.json", {"maxFiles": 7, "maxTokens": 7})
    text = render_config(RFC_EXCLUDES)
    assert load(home, text).max_files == 7
    assert load(home, text.replace("50000", "60000")).max_files == 60_000
    binding = re.sub(r'\n  "_asGenerated".*', "", text)
    assert load(home, binding).max_files == 50_000


def test_the_file_of_a_project_decides_nothing_but_its_chunk_files(tmp_path: Path) -> None:
    """No provider, no shared index, no server: whoever writes the project does not choose those."""
    values = "".join(f"  {name}: 7\n  {rule.key}: 7\n" for name, rule in RULES.items())
    sections = ("server", "embedding", "settings", *RULES)
    text = "".join(f"{name}:\n{values}  endpoint: http://127.0.0.1:7\n" for name in sections)
    before = load_settings({}, home=tmp_path)
    after = apply_cortex_config(before, tmp_path / "config.yml", text)
    changed = {name for name in RULES if getattr(before, name) != getattr(after, name)}
    assert changed == {"chunks_dir", "embedding_endpoint"}
