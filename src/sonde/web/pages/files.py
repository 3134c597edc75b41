"""The page of a file of a disk: its metadata, and its beginning."""

from __future__ import annotations

from sonde.app import App
from sonde.disk.listing import NodeDetail, inspect_node, preview_file
from sonde.disk.scope import find_node
from sonde.disk.trees import join_node
from sonde.errors import SondeError
from sonde.policy.roots import show_path
from sonde.runtime.work import Work
from sonde.stores.disk.filters import KINDS
from sonde.tools.disk import IndexParam, NodeParam
from sonde.tools.route import Content
from sonde.tools.shapes.shell import show_epoch, show_permissions
from sonde.web.pages.html import Markup, frame, link_to, show_age, show_note, show_size, tag


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
