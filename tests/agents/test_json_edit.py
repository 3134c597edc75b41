"""Every byte outside the entry stays; what is read back is what was meant."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.agents.json_edit import Malformed
from sonde.agents.json_edit import drop_jsonc as drop
from sonde.agents.json_edit import load_jsonc as load
from sonde.agents.json_edit import put_jsonc as put

ENTRY = {"command": "/opt/sonde", "args": ["mcp"], "env": {"A": "b"}}
PLACE = ("servers", "sonde")

scalars = (
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9) | st.text()
)
names = st.sampled_from(["servers", "a", "b", "ü", 'q"', "sonde", "//no", "/*"]) | st.text()
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
notes = st.text(st.characters(exclude_characters="\r\n*/", exclude_categories=["Cs"]), max_size=8)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """An object as somebody might have typed it, and what it means."""
    end = draw(st.sampled_from(["\n", "\r\n"]))
    value = draw(st.dictionaries(names, values, max_size=4))
    if draw(st.booleans()):
        value["servers"] = draw(st.dictionaries(names, values, max_size=3))
    random = draw(st.randoms(use_true_random=False))
    note = draw(notes)

    def fill() -> str:
        kind = random.randrange(8)
        if kind == 0:
            return f" // {note}{end}" + random.choice(["", "  ", "\t"])
        if kind == 1:
            return f" /* {note} {end}*/ "
        return random.choice(["", "", " ", end, f"{end}    ", f"{end}{end}\t"])

    def write(part: Any) -> str:
        if isinstance(part, dict | list) and part:
            if isinstance(part, dict):
                items = [
                    f"{json.dumps(key)}{fill()}:{fill()}{write(each)}" for key, each in part.items()
                ]
            else:
                items = [write(each) for each in part]
            comma = random.choice(["", f"{fill()},"])
            body = f"{fill()},{fill()}".join(items)
            left, right = "{}" if isinstance(part, dict) else "[]"
            return f"{left}{fill()}{body}{comma}{fill()}{right}"
        return json.dumps(part, ensure_ascii=random.random() < 0.5)

    return f"{fill()}{write(value)}{fill()}", value


def expected_after_put(value: dict[str, Any], entry: Any) -> dict[str, Any]:
    meant = json.loads(json.dumps(value))
    servers = meant.setdefault("servers", {})
    old = servers.get("sonde")
    if isinstance(old, dict):
        env = old.get("env")
        merged = {**env, **entry["env"]} if isinstance(env, dict) else entry["env"]
        servers["sonde"] = {**old, **entry, "env": merged}
    else:
        servers["sonde"] = entry
    return meant


def is_subsequence(part: str, whole: str) -> bool:
    rest = iter(whole)
    return all(char in rest for char in part)


@given(documents())
def test_what_is_put_is_read_back_and_nothing_else_is_touched(
    document: tuple[str, dict[str, Any]],
) -> None:
    text, value = document
    assert load(text) == value
    if "servers" in value and not isinstance(value["servers"], dict):
        with pytest.raises(Malformed):
            put(text, PLACE, ENTRY)
        return
    edited = put(text, PLACE, ENTRY)
    assert load(edited) == expected_after_put(value, ENTRY)
    assert put(edited, PLACE, ENTRY) == edited
    if "sonde" not in value.get("servers", {}):
        assert is_subsequence(text, edited)


@given(documents())
def test_dropping_what_was_put_brings_all_but_space_back(
    document: tuple[str, dict[str, Any]],
) -> None:
    text, value = document
    servers = value.get("servers")
    if not isinstance(servers, dict) or "sonde" in servers or not servers:
        return
    without = drop(put(text, PLACE, ENTRY), PLACE)
    assert load(without) == value
    assert "".join(without.split()) == "".join(text.split())


@given(documents(), st.randoms(use_true_random=False))
def test_any_member_can_be_dropped(document: tuple[str, dict[str, Any]], random: Any) -> None:
    text, value = document
    if not value:
        assert drop(text, ("a",)) == text
        return
    key = random.choice(list(value))
    expected = {name: each for name, each in value.items() if name != key}
    without = drop(text, (key,))
    assert load(without) == expected
    assert is_subsequence(without, text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", '{\n  "servers": {\n    "sonde": {"x": 1}\n  }\n}\n'),
        ('{"a": 1}', '{"a": 1, "servers": {"sonde": {"x": 1}}}'),
        ('{"servers": {"o": 2,},}', '{"servers": {"o": 2, "sonde": {"x": 1},},}'),
        (
            '{\n\t"servers": {\n\t\t"o": 2 // c\n\t}\n}',
            '{\n\t"servers": {\n\t\t"o": 2, // c\n\t\t"sonde": {\n\t\t\t"x": 1\n\t\t}\n\t}\n}',
        ),
        (
            '{\r\n "servers": {}\r\n}',
            '{\r\n "servers": {\r\n  "sonde": {\r\n   "x": 1\r\n  }\r\n }\r\n}',
        ),
    ],
)
def test_the_style_of_the_file_is_kept(before: str, after: str) -> None:
    edited = put(before, PLACE, {"x": 1})
    assert load(edited) == load(after)
    if "{" in before:
        assert edited == after


@pytest.mark.parametrize(
    "text",
    ["{", "{'a': 1}", '{"a" 1}', '{"a": 1} x', '{"a": NaN}', "[1]", "3", '{"servers": []}',
     '{"a": "x\ny"}', "{/* }", '{"servers": {}, "servers": {}}', '{,}', "[" * 5000, '{"a": 01}'],
)  # fmt: skip
def test_what_cannot_be_edited_safely_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        put(text, PLACE, ENTRY)


@pytest.mark.parametrize(
    "text",
    [
        '{"servers": {"o": 1}}',
        '{ "servers": { "o": 1 } }',
        '{"servers": {"o": 1,},}',
        '{\n  "servers": {\n    "o": 1 // one\n  }\n}\n',
        '{\r\n\t"servers": {\r\n\t\t"o": 1, /* one */\r\n\t},\r\n}',
    ],
)
def test_in_a_tidy_file_dropping_brings_every_byte_back(text: str) -> None:
    assert drop(put(text, PLACE, ENTRY), PLACE) == text


def test_the_place_of_a_fault_is_said() -> None:
    with pytest.raises(Malformed, match="line 3, column 3"):
        load('{\n  "a": 1,\n  b: 2\n}')
