"""Which tools are shown, and under which names."""

from __future__ import annotations

import jsonschema
import pytest

from sonde.errors import IndexNotFound
from sonde.mcp.listing import Listing
from sonde.mcp.manifest import INSTRUCTIONS
from sonde.tools import TOOLS
from sonde.tools.tool import bind_arguments, find_tool


def names(listing: Listing) -> list[str]:
    return [entry["name"] for entry in listing.entries]


def test_only_the_toolsets_asked_for_are_shown_in_the_order_of_declaration(toys):
    assert names(Listing(toys.TOYS, ("files",))) == ["chatter", "odd", "linger", "tell_caller"]
    shown = ["remove", "chatter", "odd", "linger", "tell_caller"]
    assert names(Listing(toys.TOYS, ("files", "index"))) == shown
    assert names(Listing(toys.TOYS, ("all",))) == [tool.name for tool in toys.TOYS]


@pytest.mark.parametrize(
    ("spelling", "shown"),
    [("portable", ["count_up"]), ("documented", ["count-up"]), ("both", ["count_up", "count-up"])],
)
def test_names_are_shown_as_asked(toys, spelling, shown):
    counting = (find_tool(toys.TOYS, "count_up"),)
    assert names(Listing(counting, spelling=spelling)) == shown


def test_both_spellings_do_not_show_a_name_twice(toys):
    assert names(Listing((find_tool(toys.TOYS, "say"),), spelling="both")) == ["say"]


def test_hints_are_added_on_request(toys):
    plain, enhanced = Listing(toys.TOYS), Listing(toys.TOYS, enhanced=True)
    assert plain.entries[0]["description"] == "Says it. Nothing else does."
    assert enhanced.entries[0]["description"] == "Says it. Nothing else does. Loudly."


def test_an_error_fits_the_output_schema_of_every_tool(toys):
    error = IndexNotFound("none").as_dict()
    for entry in Listing(toys.TOYS, ("all",)).entries:
        jsonschema.validate(error, entry["outputSchema"])


def test_instructions_fit_the_smallest_client():
    assert len(INSTRUCTIONS) < 2000


def test_every_tool_lists_its_arguments_as_if_it_were_alone():
    """A client may load one tool and no other."""
    for entry in Listing(TOOLS, ("all",)).entries:
        listed = entry["inputSchema"]["properties"]
        assert listed == find_tool(TOOLS, entry["name"]).input_schema["properties"]
        for name, argument in listed.items():
            # KNOW clamps the length of snippets and refuses none
            if argument.get("type") == "integer" and name != "snippet_length":
                assert "minimum" in argument or "maximum" in argument, (entry["name"], name)


@pytest.mark.row("003-C69", "000-P54")
def test_what_leads_on_and_narrows_is_listed_wherever_it_is_taken():
    defaults = {"page_size": 50, "snippet_length": 500, "include_snippet": True, "context_lines": 0}
    for tool in TOOLS:
        listed = tool.input_schema["properties"]
        for argument in tool.arguments if tool.listed else ():
            if argument.name in ("cursor", "project", "max_tokens", "tags", "chunk_types"):
                assert argument.name in listed, (tool.name, argument.name)
    assert find_tool(TOOLS, "cortex_search").input_schema["properties"]["limit"]["default"] == 15
    semantic = find_tool(TOOLS, "semantic_search").input_schema["properties"]
    assert {name: semantic[name]["default"] for name in defaults} == defaults


@pytest.mark.row("003-C2")
def test_a_search_says_that_it_reads_and_destroys_nothing():
    for tool in TOOLS:
        if tool.read_only:
            assert tool.annotations == {"readOnlyHint": True, "destructiveHint": False}


def test_arguments_that_are_not_listed_are_taken():
    tool = find_tool(TOOLS, "lexical_search")
    assert "language" not in tool.input_schema["properties"]
    bound = bind_arguments(tool, {"query": "x", "contextLines": 2, "language": "python"})
    assert (bound["context_lines"], bound["language"]) == (2, "python")
