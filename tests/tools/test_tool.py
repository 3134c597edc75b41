"""A tool is declared once; schemas, checks and names follow."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.errors import EmptyQuery, InvalidRequest, UnknownArgument
from sonde.runtime.work import Work
from sonde.tools.tool import Param, Tool, bind_arguments, find_tool, read_answer


class Answer(TypedDict):
    results: list[dict[str, Any]]
    total: int
    share: float
    note: str | None
    mode: Literal["a", "b"]
    cursor: NotRequired[str]
    anything: Any


class Partial(TypedDict, total=False):
    seen: bool


def search(
    app: object,
    query: Annotated[str, Param("What to find", min_length=1, max_length=10)],
    top_k: Annotated[int, Param("How many", minimum=1, maximum=50)] = 10,
    weight: Annotated[float, Param("How much", minimum=0)] = 0.5,
    paths: Annotated[list[str] | None, Param("Where", max_length=2)] = None,
    mode: Annotated[Literal["auto", "regex"], Param("How")] = "auto",
    project: Annotated[str | None, Param("Which", choices=("here", "there"))] = None,
    exact_case: Annotated[bool, Param("Mind the case")] = False,
    options: Annotated[dict[str, Any] | None, Param("More")] = None,
    *,
    work: Work,
) -> Answer:
    raise NotImplementedError


def resume(
    app: object,
    query: Annotated[str, Param("What to find")] = "",
    cursor: Annotated[str, Param("Where to go on")] = "",
    *,
    work: Work,
) -> Partial:
    raise NotImplementedError


def rest(app: object, *, work: Work) -> Partial:
    raise NotImplementedError


def loose(app: object, *, work: Work) -> dict[str, Any]:
    raise NotImplementedError


SEARCH = Tool(
    "search_it", search, "code", "Search", "Searches.", aliases=("search-it", "it.search")
)
REST = Tool("rest", rest, "index", "Rest", "Rests.", read_only=False, idempotent=False)
LOOSE = Tool("loose", loose, "index", "Loose", "Anything.")


def test_the_input_schema_is_the_signature():
    schema = SEARCH.input_schema
    assert schema["required"] == ["query"]
    assert schema["additionalProperties"] is False
    assert schema["properties"] == {
        "query": {"type": "string", "maxLength": 10, "description": "What to find"},
        "top_k": {
            "type": "integer",
            "minimum": 1,
            "maximum": 50,
            "default": 10,
            "description": "How many",
        },
        "weight": {"type": "number", "minimum": 0, "default": 0.5, "description": "How much"},
        "paths": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": 2,
            "description": "Where",
        },
        "mode": {
            "type": "string",
            "enum": ["auto", "regex"],
            "default": "auto",
            "description": "How",
        },
        "project": {"type": "string", "enum": ["here", "there"], "description": "Which"},
        "exact_case": {"type": "boolean", "description": "Mind the case"},
        "options": {"type": "object", "description": "More"},
    }


def test_a_tool_without_arguments_takes_none():
    assert REST.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    with pytest.raises(UnknownArgument, match="no arguments"):
        bind_arguments(REST, {"x": 1})


def test_the_output_schema_is_the_outline_of_the_answer():
    assert read_answer(SEARCH.call) == {
        "type": "object",
        "properties": {
            "results": {"type": "array"},
            "total": {"type": "integer"},
            "share": {"type": "number"},
            "note": {"type": ["string", "null"]},
            "mode": {"type": "string"},
            "cursor": {"type": "string"},
            "anything": {},
        },
        "required": ["results", "total", "share", "note", "mode", "anything"],
    }
    assert read_answer(REST.call) == {"type": "object", "properties": {"seen": {"type": "boolean"}}}
    assert read_answer(LOOSE.call) == {"type": "object"}


def test_annotations_say_what_a_call_may_do():
    assert REST.annotations == {
        "readOnlyHint": False,
        "destructiveHint": False,
        "idempotentHint": False,
        "openWorldHint": False,
    }


def test_an_argument_without_a_description_is_refused_at_once():
    def careless(app: object, query: str, *, work: Work) -> Partial:
        raise NotImplementedError

    with pytest.raises(TypeError, match="query"):
        _ = Tool("careless", careless, "code", "Careless", "Oops.").input_schema


@pytest.mark.row("000-P70")
def test_what_is_given_is_bound_under_its_declared_name():
    assert bind_arguments(SEARCH, {"query": "x"}) == {"query": "x"}
    given = {"query": "x", "topK": 5.0, "exactCase": True, "paths": ["a"], "weight": 1}
    bound = bind_arguments(SEARCH, given)
    assert bound == {"query": "x", "top_k": 5, "exact_case": True, "paths": ["a"], "weight": 1.0}
    assert [type(bound["top_k"]), type(bound["weight"])] == [int, float]


@pytest.mark.row("000-P69", "003-C5")
def test_null_is_a_way_of_not_giving_what_is_optional():
    assert bind_arguments(SEARCH, {"query": "x", "paths": None})["paths"] is None
    assert bind_arguments(SEARCH, {"query": "x", "top_k": None})["top_k"] == 10
    with pytest.raises(InvalidRequest, match="`query` must be a string; it is null"):
        bind_arguments(SEARCH, {"query": None})


@pytest.mark.row("000-P4")
@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "search_it needs `query`: What to find"),
        ({"query": 5}, "`query` must be a string; it is 5, an integer"),
        ({"query": "x" * 11}, "`query` must be 1 to 10 characters long; it is 11"),
        ({"query": "x", "top_k": 0}, "`top_k` must be 1 to 50; it is 0"),
        ({"query": "x", "top_k": 51}, "`top_k` must be 1 to 50; it is 51"),
        ({"query": "x", "top_k": "5"}, "`top_k` must be an integer; it is '5', a string"),
        ({"query": "x", "top_k": 5.5}, "`top_k` must be an integer; it is 5.5, a number"),
        ({"query": "x", "top_k": True}, "`top_k` must be an integer; it is True, a boolean"),
        ({"query": "x", "top_k": float("nan")}, "`top_k` must be an integer; it is nan"),
        ({"query": "x", "top_k": 10**400}, "`top_k` must be an integer"),
        ({"query": "x", "weight": -1}, "`weight` must be at least 0; it is -1"),
        ({"query": "x", "weight": float("inf")}, "`weight` must be a number"),
        ({"query": "x", "paths": "a"}, "`paths` must be an array; it is 'a', a string"),
        ({"query": "x", "paths": ["a", 1]}, "`paths[1]` must be a string; it is 1, an integer"),
        ({"query": "x", "paths": ["a"] * 3}, "`paths` must be at most 2 items long; it is 3"),
        ({"query": "x", "mode": "{it}"}, "`mode` must be one of auto, regex; it is '{it}'"),
        ({"query": "x", "project": "gone"}, "`project` must be one of here, there"),
        ({"query": "x", "exact_case": 1}, "`exact_case` must be true or false; it is 1"),
        ({"query": "x", "options": []}, "`options` must be an object; it is an array"),
        ({"query": "x", "top_k": 1, "topK": 1}, "`top_k` is given twice"),
    ],
)
def test_a_wrong_argument_is_refused_precisely(given, complaint):
    with pytest.raises(InvalidRequest) as caught:
        bind_arguments(SEARCH, given)
    assert complaint in caught.value.user_message
    assert complaint in caught.value.developer_message


@pytest.mark.parametrize("blank", ["", "  ", "\n\t", "\u3000"])
def test_a_blank_query_is_an_empty_query(blank):
    with pytest.raises(EmptyQuery):
        bind_arguments(SEARCH, {"query": blank})


def test_a_query_that_may_be_left_out_may_be_blank_too():
    tool = Tool("resume", resume, "code", "Resume", "Goes on.")
    assert bind_arguments(tool, {"query": " ", "cursor": "c"}) == {"query": "", "cursor": "c"}
    assert tool.input_schema["properties"]["query"] == {
        "type": "string",
        "description": "What to find",
    }


@pytest.mark.row("000-P70")
@pytest.mark.parametrize(
    ("name", "nearest"), [("querry", "query"), ("topk", "top_k"), ("exactcase", "exact_case")]
)
def test_an_unknown_argument_is_refused_with_the_nearest_one(name, nearest):
    with pytest.raises(UnknownArgument) as caught:
        bind_arguments(SEARCH, {"query": "x", name: 1})
    assert caught.value.next_action == f"Did you mean `{nearest}`?"


def test_an_argument_that_resembles_nothing_is_refused_with_all_names():
    with pytest.raises(UnknownArgument, match="It takes `query`, `top_k`"):
        bind_arguments(SEARCH, {"query": "x", "zzz{0}": 1})


@pytest.mark.parametrize("name", ["search_it", "search-it", "it.search", "Search_It", " IT.Search"])
def test_a_tool_is_found_under_every_documented_spelling(name):
    assert find_tool([REST, SEARCH], name) is SEARCH


def test_an_unknown_tool_is_refused_with_the_nearest_names():
    with pytest.raises(UnknownArgument) as caught:
        find_tool([REST, SEARCH], "serch_it")
    assert caught.value.next_action == "Did you mean search_it?"
    with pytest.raises(UnknownArgument, match=r"\{x\}"):
        find_tool([REST, SEARCH], "{x}")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
names = st.sampled_from([argument.name for argument in SEARCH.arguments]) | st.text(max_size=8)


@given(st.dictionaries(names, values))
def test_any_arguments_are_bound_within_bounds_or_refused(given_arguments):
    try:
        bound = bind_arguments(SEARCH, given_arguments)
    except InvalidRequest:
        return
    assert bound["query"].strip()
    assert 1 <= bound.get("top_k", 10) <= 50
    assert bound.get("mode", "auto") in ("auto", "regex")


def test_declaring_an_argument_loads_no_verb():
    script = "import sys, sonde.tools.schema; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {"apsw", "sonde.app", "sonde.tools.code"}.isdisjoint(run.stdout.split())


def test_listing_tools_imports_nothing_heavy():
    heavy = {"anyio", "lancedb", "mcp", "onnxruntime", "pydantic", "tokenizers"}
    script = "import sys, sonde.tools as t, sonde.mcp.stdio; [*t.TOOLS]; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert heavy.isdisjoint(run.stdout.split())


def test_a_tool_is_found_without_importing_those_after_it():
    others = {"sonde.tools.disk", "sonde.tools.knowledge", "sonde.knowledge.importing"}
    script = (
        "import sys\nfrom sonde.tools import TOOLS\nfrom sonde.tools.tool import find_tool\n"
        "find_tool(TOOLS, 'hybrid_search')\nprint(*sys.modules)\nprint(*[t.name for t in TOOLS])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported, named = run.stdout.splitlines()
    assert others.isdisjoint(imported.split())
    assert "sonde.tools.code" in imported.split()
    assert {"search_code", "knowledge_search", "cd"} <= set(named.split())
