"""The pages of one thing: a file of a disk, a knowledge entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from sonde.app import App
from sonde.disk.listing import NodeDetail, inspect_node, preview_file
from sonde.disk.scope import find_node
from sonde.disk.trees import join_node
from sonde.errors import SondeError
from sonde.policy.roots import show_path
from sonde.runtime.work import Work
from sonde.stores.disk.filters import KINDS
from sonde.tools.disk import IndexParam, NodeParam
from sonde.tools.research import fetch
from sonde.tools.route import Content
from sonde.tools.schema import Param
from sonde.tools.shapes.shell import show_epoch, show_permissions
from sonde.web.pages.html import Markup, frame, link_to, show_age, show_note, show_size, tag


def show_entry_page(
    app: App,
    uri: Annotated[str, Param("Of a result", min_length=1, max_length=5000)],
    offset: Annotated[int, Param("Where to go on", minimum=0)] = 0,
    *,
    work: Work,
) -> Content:
    """One knowledge entry."""
    retrieval = {"mode": "full", "offset": offset} if offset else None
    answer = fetch(app, uri, None, retrieval, work=work)
    meta = answer["meta"]
    title = meta.get("title") or uri
    tags = [tag("span", each, class_="badge") for each in meta.get("tags") or ()]
    head = tag(
        "div",
        tag("h1", title),
        tag("p", tag("span", meta["source"], class_="badge"), tags,
            tag("span", meta["last_modified"]) if meta.get("last_modified") else None,
            class_="facts"),
        class_="head",
    )  # fmt: skip
    after = answer.get("next_offset")
    way = link_to("/entry", uri=uri, offset=after)
    more = tag("nav", tag("a", "Read on", href=way), class_="ways") if after is not None else None
    return frame(str(title), "", head, _show_content(answer["content"]), more, kind="entry")


def _show_content(content: str | Mapping[str, Any]) -> Markup | list[Markup]:
    if isinstance(content, str):
        return tag("div", content, class_="prose")
    if "messages" in content:
        return [
            tag("article", tag("h2", each.get("sender") or "?"),
                tag("div", each["content"], class_="prose"))
            for each in content["messages"]
        ]  # fmt: skip
    return [
        tag("article", tag("h2", name), tag("div", str(value), class_="prose"))
        for name, value in content.items()
        if value
    ]


def show_node_page(app: App, index_id: IndexParam, node_id: NodeParam, *, work: Work) -> Content:
    """A file: its metadata, and its beginning."""
    detail = inspect_node(app.disk, *find_node(app.disk, work.caller, node_id, index_id))
    index, node = detail.index, detail.node
    kind, name = KINDS[node.kind], show_path(node.name)
    facts: list[tuple[str, str | Markup]] = [
        ("Size", show_size(node.size)),
        ("On disk", show_size(node.disk)),
        ("Changed", show_age(show_epoch(node.mtime_ms))),
        ("Permissions", tag("code", show_permissions(kind, node.mode))),
        ("Kind", kind),
    ]
    if node.target:
        facts.append(("Leads to", tag("code", show_path(node.target))))
    above = join_node(index.id, node.parent) if node.parent else None
    address, api = f"/disk/{index_id}", f"/api/indexes/{index_id}/nodes/{node_id}"
    return frame(
        name,
        "/disk",
        tag("div", tag("h1", name),
            tag("p", tag("code", show_path(detail.path)),
                tag("a", "Its folder", href=link_to(address, node=above)) if above else None,
                tag("a", "Look inside", href=link_to(address, node=node_id))
                if node.listable else None,
                tag("a", "Download", href=f"{api}/download") if detail.shown else None,
                class_="facts"), class_="head"),
        tag("dl", [tag("div", tag("dt", label), tag("dd", fact)) for label, fact in facts],
            class_="facts-grid"),
        None if node.listable else [tag("h2", "Beginning"), _show_beginning(app, detail, api)],
        kind="disk",
    )  # fmt: skip


def _show_beginning(app: App, detail: NodeDetail, api: str) -> Markup:
    if not detail.shown:
        return show_note("The contents of this are not shown")
    try:
        preview = preview_file(app.disk, detail.index, detail.node)
    except SondeError as error:
        return show_note(error.user_message, tag("p", error.next_action))
    if isinstance(preview.body, bytes):
        return tag("img", src=f"{api}/preview", alt=show_path(detail.node.name))
    if not preview.body:
        return show_note("This file is empty")
    return tag("pre", tag("code", preview.body), class_="prose", tabindex="0")
