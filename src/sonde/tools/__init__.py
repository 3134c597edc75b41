"""Every verb, listed once; MCP, the command line and the reference page follow from here."""

from __future__ import annotations

from sonde.tools import disk, queries, sessions, sets
from sonde.tools.code import cortex_search, search_by_path, search_code, search_docs
from sonde.tools.index import (
    create_index,
    delete_index,
    get_index_status,
    list_projects,
    reindex_file,
    reindex_project,
)
from sonde.tools.knowledge import KNOWLEDGE_TOOLS
from sonde.tools.pages import hybrid_search, lexical_search, regex_search, semantic_search
from sonde.tools.research import RESEARCH_TOOLS
from sonde.tools.tool import Tool

TOOLS: tuple[Tool, ...] = (
    Tool(
        name="search_code",
        call=search_code,
        toolset="code",
        title="Search code",
        description=(
            "Search your codebase for relevant code by question, words or symbol name. "
            "Prefer search_docs for prose and search_by_path for file names."
        ),
        hint=(
            "TIP: Prefer this over reading full files when looking for specific functions, "
            "patterns, or implementations."
        ),
        always_load=True,
    ),
    Tool(
        name="search_docs",
        call=search_docs,
        toolset="code",
        title="Search docs",
        description=("Search documentation files (.md, .txt). Prefer search_code for source code."),
        hint=(
            "TIP: For follow-up questions about a doc already in context, use this tool instead "
            "of re-reading the entire file - more precise results, less context usage."
        ),
    ),
    Tool(
        name="search_by_path",
        call=search_by_path,
        toolset="code",
        title="Search by path",
        description=(
            "Find files whose path matches a glob pattern. "
            "Prefer search_code when you know what the file does but not its name."
        ),
    ),
    Tool(
        name="semantic_search",
        call=semantic_search,
        toolset="code",
        title="Semantic search",
        description=(
            "Page through everything in code and docs that means the like. "
            "Prefer search_code for the few best answers."
        ),
    ),
    Tool(
        name="regex_search",
        call=regex_search,
        toolset="code",
        title="Regex search",
        description=(
            "Page through the lines that match a regular expression; needs no index. "
            "Prefer search_code when the exact text is unknown."
        ),
    ),
    Tool(
        name="hybrid_search",
        call=hybrid_search,
        toolset="code",
        title="Hybrid search",
        description=(
            "Page through code and docs by meaning, words and names together. "
            "Prefer regex_search for exact text."
        ),
        shown=(
            "query",
            "path",
            "include",
            "exclude",
            "language",
            "top_k",
            "page_size",
            "context_lines",
            "project",
            "cursor",
        ),
    ),
    Tool(
        name="lexical_search",
        call=lexical_search,
        toolset="code",
        title="Lexical search",
        description=(
            "Page through code and docs that hold the words, filtered as in semantic_search. "
            "Prefer semantic_search when the wording is unknown."
        ),
        shown=("query", "path", "page_size", "cursor"),
    ),
    Tool(
        name="cortex_search",
        call=cortex_search,
        toolset="code",
        title="Cortex search",
        description=(
            "Search for relevant context in the project codebase and documentation, by chunk type "
            "and tag (language, folder, #tag). Prefer search_code for whole code."
        ),
    ),
    Tool(
        name="create_index",
        call=create_index,
        toolset="index",
        title="Create index",
        description=(
            "Index the contents of the current project so that it can be searched. "
            "Asks for confirmation; an existing index is brought up to date."
        ),
        read_only=False,
    ),
    Tool(
        name="get_index_status",
        call=get_index_status,
        toolset="index",
        title="Index status",
        description=(
            "Show how large, fresh and complete the project's index is and what was left out. "
            "Use list_projects to see every project."
        ),
    ),
    Tool(
        name="reindex_project",
        call=reindex_project,
        toolset="index",
        title="Reindex project",
        description=(
            "Rebuild the entire index from scratch; asks for confirmation. "
            "Rarely needed: changed files are picked up by themselves."
        ),
        read_only=False,
        destructive=True,
    ),
    Tool(
        name="reindex_file",
        call=reindex_file,
        toolset="index",
        title="Reindex file",
        description=(
            "Index a single file again right now. Rarely needed: searches notice changed files."
        ),
        read_only=False,
    ),
    Tool(
        name="delete_index",
        call=delete_index,
        toolset="index",
        title="Delete index",
        description=(
            "Delete the index of the current project; asks for confirmation. "
            "The project's own files are not touched."
        ),
        read_only=False,
        destructive=True,
    ),
    Tool(
        name="list_projects",
        call=list_projects,
        toolset="index",
        title="List projects",
        description=(
            "List every indexed project on this machine with its size and age. "
            "Pass a project's path as `project` to search it."
        ),
    ),
    *disk.TOOLS,
    *sets.TOOLS,
    *queries.TOOLS,
    *sessions.TOOLS,
    *KNOWLEDGE_TOOLS,
    *RESEARCH_TOOLS,
)
