"""What the documentation shows can be typed: every block of every page is run or checked."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import (
    DATA,
    NOT_RUN,
    PAGES,
    ROOT,
    SHELLS,
    Block,
    Typed,
    read_blocks,
    read_commands,
    read_inline_commands,
)
from tests.golden.golden import mask
from tests.trees import write_files

from sonde.cli.arguments import UsageError
from sonde.cli.parse import COMMANDS, parse_arguments
from sonde.settings.rules import RULES
from sonde.tools import TOOLS
from sonde.tools.tool import bind_arguments, find_tool

PLACE = "~/src/your-project"
PATIENCE_S = 240
INSTALL = re.compile(r"(?:pip|pipx|uv tool) install (?P<what>.+)")
LONG = re.compile(r"(?:\.venv/bin/)?python (?P<script>(?:benchmarks|training|scripts)/\w+\.py)")
EMPTY_AT_FIRST = re.compile("--report growth|sonde uninstall")
"""Finds nothing before a second scan, or before sonde was used, and says so with exit code 1."""
SERVES = re.compile(r"sonde (serve|embed serve)\b")
ALL_BLOCKS = [block for page in PAGES for block in read_blocks(page)]
"""Every block of the documentation."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a project under git, notes, downloads and two agents, as the pages assume."""
    home = tmp_path / "you"
    project = home / "src" / "your-project"
    shutil.copytree(ROOT / "tests" / "quality" / "shop", project)
    chat = {"title": "Sea", "create_time": 1.7e9, "update_time": 1.7e9, "mapping": {
        "a": {"id": "a", "parent": None, "children": [], "message": {
            "author": {"role": "user"}, "create_time": 1.7e9,
            "content": {"content_type": "text", "parts": ["About walruses"]}}}}}  # fmt: skip
    write_files(home, {
        "Notes/sea.md": "# Sea\n\nWe said that walruses like it cold. Call Anna.\n",
        "Notes/shopping.md": "# Shopping\n\nFish, bread #errands\n",
        "Papers/walrus.md": "# Walruses\n\nA paper.\n",
        "Downloads/copy.bin": "x" * 300_000,
        "Downloads/old/copy.bin": "x" * 300_000,
        "src/your-project/conversations.json": json.dumps([chat]),
        "src/your-project/.gitignore": "conversations.json\nbackup.jsonl\ntokens\n",
        ".claude.json": "{}\n",
        ".codex/config.toml": "",
    })  # fmt: skip
    film = home / "Downloads" / "film.mkv"
    film.touch()
    os.truncate(film, 101 << 20)
    os.utime(film, (0, 0))
    commit = "git -c user.name=Ada -c user.email=ada@example.org commit -q -m"
    script = f"""
        git init -q -b main && git add server tests README.md .gitignore
        {commit} 'Serve the shop: sessions, orders, passwords'
        git add docs native && {commit} 'Explain deployment; check bar codes'
        git add . && {commit} 'Retry failed requests with growing pauses'
    """
    subprocess.run(["bash", "-ec", script], cwd=project, env=environ_of(home), check=True)
    return home


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environ_of(home: Path) -> dict[str, str]:
    scripts = Path(sys.executable).parent
    return {
        "HOME": str(home),
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "LANG": "C.UTF-8",
        "SONDE_ASSUME_YES": "1",
        "SONDE_DAEMON": "off",
        "SONDE_EMBEDDING": "static",  # loading the deep model would double the time
        "GIT_CONFIG_GLOBAL": os.devnull,
    }


def test_every_block_has_a_kind_and_is_run_or_says_why_not() -> None:
    wrong = [
        block.place
        for block in ALL_BLOCKS
        if block.language not in (*SHELLS, *DATA, "python", "powershell")
        or (block.language == "powershell" and not block.reason)
        or (block.reason and block.reason not in NOT_RUN)
    ]
    assert not wrong, "unmarked blocks: name the language, or <!-- not run: REASON --> above it"


def test_a_block_without_a_mark_is_noticed() -> None:
    text = "# Page\n\n```\nsonde index\n```\n\n<!-- not run: too hard -->\n```sh\nsonde x\n```\n"
    bare, excused = read_blocks("page.md", text)
    assert (bare.language, bare.reason) == ("", "")
    assert excused.reason == "too hard"
    assert excused.reason not in NOT_RUN


def commands_of(page: str) -> list[Typed]:
    shells = [b for b in ALL_BLOCKS if b.page == page and b.language in SHELLS and not b.reason]
    return [typed for block in shells for typed in read_commands(block)]


def is_run(typed: Typed) -> bool:
    """Whether a test runs the command here; what it does not run, it checks."""
    if install := INSTALL.match(typed.command):
        named = install["what"].partition("#")[0].strip().strip("'")
        assert re.match(r"[./]|sonde-\S+\.whl|dist/", named), f"{typed.place}: by name, not by file"
        return False
    if made := re.match(r"make (?P<target>\w+)", typed.command):
        targets = re.findall(r"(?m)^(\w+):", (ROOT / "Makefile").read_text())
        assert made["target"] in targets, typed
        return False
    if script := LONG.match(typed.command):
        assert (ROOT / script["script"]).exists(), typed
        return False
    return True


def write_script(commands: list[Typed], ports: dict[str, int]) -> str:
    """One script of all commands of a page; a marker goes before the output of each."""
    lines = ["set -o pipefail", "server=; stop() { [ -z $server ] || kill $server; server=; }"]
    lines.append("trap stop EXIT")
    for number, typed in enumerate(commands):
        command = typed.command
        for known, port in ports.items():
            command = command.replace(known, str(port))
        lines.append(f"echo; echo '@@@ {number}'")
        if serving := SERVES.match(command):
            port = ports["8420" if serving[1] == "serve" else "8121"]
            quiet = " --no-browser" if serving[1] == "serve" else ""
            lines.append(f"stop; {command.partition('#')[0]} --port {port}{quiet} > served 2>&1 &")
            lines.append(f"server=$!; until curl -so /dev/null 127.0.0.1:{port}; do kill -0 $server"
                         " || { cat served; exit 3; }; sleep 0.05; done; cat served")  # fmt: skip
        else:
            allowed = 1 if EMPTY_AT_FIRST.search(command) else 0
            lines.append(f"{command}\n[ $? -le {allowed} ] || {{ echo '@@@ failed'; exit 3; }}")
    return "\n".join(lines) + "\n"


@pytest.mark.slow
@pytest.mark.row("001-1")
@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)])
def test_the_commands_of_a_page_run_and_print_what_it_shows(page: str, home: Path) -> None:
    commands = [typed for typed in commands_of(page) if is_run(typed)]
    ports = {"8420": find_port(), "8121": find_port()}
    done = subprocess.run(
        ["bash", "-c", write_script(commands, ports)],
        cwd=home / "src" / "your-project", env=environ_of(home), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    parts = re.split(r"(?m)^@@@ (\d+)\n", done.stdout)[1:]
    printed = dict(zip(map(int, parts[::2]), parts[1::2], strict=True))
    if done.returncode:
        last = max(printed, default=0)
        raise AssertionError(f"{commands[last]}\n{printed.get(last, done.stdout)}")
    places = {str(home): "home", **{f"127.0.0.1:{port}": "at" for port in ports.values()}}
    for number, typed in enumerate(commands):
        missing = compare(typed.shown, mask(printed[number], places))
        assert missing is None, f"{typed}\nis not printed: {missing}\n{printed[number]}"


def compare(shown: tuple[str, ...], printed: str) -> str | None:
    """The first shown line that was not printed after the one before it. `...` leaves out."""
    places = {"~": "home", "127.0.0.1:8420": "at", "127.0.0.1:8121": "at"}
    waiting = iter(line.strip() for line in printed.splitlines())
    for line in (mask(line, places).strip() for line in shown):
        begin, cut, _ = line.partition("...")
        if not line or line == "...":
            continue
        if not any(each.startswith(begin) if cut else each == line for each in waiting):
            return line
    return None


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_the_prose_can_be_typed(page: str) -> None:
    names = {command.name for command in COMMANDS} | {"completion"}
    for number, text in read_inline_commands(page):
        words = shlex.split(re.split("[|<>]", text)[0])[1:]
        assert words[0] in names or words[0].startswith("-"), f"{page}:{number}: {text}"
        if len(words) == 1 or re.search(r"[A-Z]{3}|[\[…|]|--version", text):
            continue  # the name of a command, or a form with places to fill in
        try:
            parse_arguments(words)
        except UsageError as error:
            if "is missing" not in str(error):  # that is a form, such as `search --docs`
                pytest.fail(f"{page}:{number}: {text}: {error}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", sorted({b.page for b in ALL_BLOCKS if b.language == "python" and not b.reason})
)
def test_the_python_of_a_page_runs(page: str, home: Path) -> None:
    texts = [b.text for b in ALL_BLOCKS if (b.page, b.language) == (page, "python")]
    project = home / "src" / "your-project"
    subprocess.run(
        [sys.executable, "-m", "sonde.cli.main", "index"], cwd=project, env=environ_of(home)
    )
    script = "\n".join(texts).replace('if __name__ == "__main__"', "if False")
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=project, env=environ_of(home), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if PLACE in script and "print(" in script:
        assert "server/sessions.py " in done.stdout


def test_the_data_of_every_page_is_what_it_says() -> None:
    for block in ALL_BLOCKS:
        if block.reason:
            continue
        if block.language == "toml":
            tomllib.loads(block.text)
        elif block.language in ("json", "jsonl"):
            texts = block.text.splitlines() if block.language == "jsonl" else [block.text]
            for text in texts:
                check_json(block, json.loads(text))
        elif block.language == "text":
            assert not re.search(r"(?m)^\$ ", block.text), f"{block.place}: a command, not a text"
            for name in re.findall(r"(?m)^sonde ([a-z]+)", block.text):
                assert name in [command.name for command in COMMANDS] + ["completion"], block.place


def check_json(block: Block, value: Any) -> None:
    """A call of a tool fits the tool; servers start a command; settings exist."""
    if {"name", "arguments"} <= value.keys():
        bind_arguments(find_tool(TOOLS, value["name"]), value["arguments"])
    for server in value.get("mcpServers", {}).values():
        parse_arguments(server["args"])
    if value.keys() <= {"allow", "include", "exclude", "maxFileSize", "fileRoots"}:
        assert value.keys() <= {rule.key for rule in RULES.values()}, block.place


def links_of(page: str) -> Iterator[tuple[str, str]]:
    text = re.sub(r"(?s)```.*?```", "", (ROOT / page).read_text("utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            yield path, anchor


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_page_and_a_heading(page: str) -> None:
    for path, anchor in links_of(page):
        target = ((ROOT / page).parent / path) if path else ROOT / page
        assert target.exists(), f"{page}: {path}"
        if anchor:
            text = target.read_text("utf-8")
            heads = {slug(head) for head in re.findall(r"(?m)^#+ (.+)$", text)}
            heads |= set(re.findall(r'<a id="([\w-]+)">', text))
            assert anchor in heads, f"{page}: {path}#{anchor}"


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def test_every_promise_of_security_names_tests_that_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    promises = re.findall(r"^\*\*(?!Not covered)[^*]+\*\*", text, re.MULTILINE)
    held = re.findall(r"<!-- held by:\n(.*?) -->", text, re.DOTALL)
    assert len(held) >= len(promises) >= 12
    for name in " ".join(held).split():
        path, _, test = name.partition("::")
        assert f"def {test}(" in (ROOT / path).read_text(), name
