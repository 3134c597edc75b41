"""TOML: comments and every other table stay as they are."""

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.agents.json_edit import Malformed
from sonde.agents.toml_edit import drop_toml as drop
from sonde.agents.toml_edit import load_toml as load
from sonde.agents.toml_edit import put_toml as put

ENTRY = {"command": "/opt/sonde", "args": ["mcp"], "required": True, "env": {"A": "b"}}
PLACE = ("mcp_servers", "sonde")

lines = st.sampled_from(
    [
        "# a note",
        "",
        'model = "o" # why',
        "count = 3",
        "list = [\n  1, # one\n  2,\n]",
        'text = """\n[mcp_servers.sonde]\n# not a comment\n"""',
        "when = 2026-01-02",
    ]
)
headers = ["[a]", "[a.b]  # here", "[mcp_servers.other]", '[projects."/x.y"]', "[mcp_servers]"]


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Tables in any order, each with some lines, no name twice."""
    parts = [draw(st.lists(lines, unique=True, max_size=4))]
    chosen = draw(st.permutations(headers))[: draw(st.integers(0, 5))]
    parts += [[header, *draw(st.lists(lines, unique=True, max_size=4))] for header in chosen]
    end = draw(st.sampled_from(["\n", "\r\n"]))
    text = "\n".join(line for part in parts for line in part)
    return (text + draw(st.sampled_from(["", "\n", "\n\n"]))).replace("\n", end)


@given(documents())
def test_a_new_table_leaves_the_rest_and_goes_without_a_trace(text: str) -> None:
    value = load(text)
    edited = put(text, PLACE, ENTRY)
    assert edited.startswith(text)
    meant: dict[str, Any] = load(text)
    meant.setdefault("mcp_servers", {})["sonde"] = ENTRY
    assert load(edited) == meant
    assert put(edited, PLACE, ENTRY) == edited
    without = drop(edited, PLACE)
    back = load(without)
    back.setdefault("mcp_servers", {})
    assert back == {"mcp_servers": {}, **value}
    if (text.endswith("\n") or not text) and '"""' not in text:
        assert without == text


def test_an_old_entry_is_changed_in_its_place() -> None:
    text = (
        "[mcp_servers.sonde]\n"
        'command = "/old" # mine\n'
        "startup_timeout_sec = 20\n"
        'args = ["mcp"]\n'
        "\n"
        "# the next one\n"
        "[z]\n"
    )
    edited = put(text, PLACE, {"command": "/new", "args": ["mcp"]})
    assert edited == text.replace("/old", "/new")
    assert drop(edited, PLACE) == "\n# the next one\n[z]\n"


def test_tables_within_a_line_are_edited_too() -> None:
    text = 'mcp_servers = { other = { command = "x" } } # all\n'
    edited = put(text, PLACE, ENTRY)
    assert tomllib.loads(edited)["mcp_servers"] == {"other": {"command": "x"}, "sonde": ENTRY}
    assert edited.endswith(" # all\n")
    assert tomllib.loads(drop(edited, PLACE)) == tomllib.loads(text)


@pytest.mark.parametrize(
    "text", ["a = ", "[a\n", "mcp_servers = 3\n", "[[mcp_servers]]\n", "a=1\na=2"]
)
def test_what_cannot_be_edited_safely_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        put(text, PLACE, ENTRY)
