"""HTML as values: text is escaped unless it is already markup."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any
from urllib.parse import urlencode

_EMPTY = frozenset({"input", "link", "meta", "br", "hr", "img"})


class Markup(str):
    """Text that is HTML already; only this module and `tag` make it."""

    __slots__ = ()


def tag(name: str, /, *inner: Any, **attributes: Any) -> Markup:
    """An element; a trailing or inner `_` of an attribute's name is left out or becomes `-`.

    Attributes that are None or False are left out; so are children. True is a bare attribute.
    """
    opened = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{_clean(str(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _EMPTY:
        return Markup(f"<{name}{opened}>")
    return Markup(f"<{name}{opened}>{join(inner)}</{name}>")


def join(parts: Iterable[Any]) -> Markup:
    """Texts and markup, lists of them, and nothing for None and False, as one piece."""
    return Markup("".join(map(_show, parts)))


def _show(part: Any) -> str:
    if isinstance(part, Markup):
        return part
    if part is None or part is False:
        return ""
    if isinstance(part, list | tuple):
        return join(part)
    return _clean(str(part))


def _clean(text: str) -> str:
    """Escaped, and without what UTF-8 cannot hold: names of files may be any bytes."""
    try:
        whole = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a pair, as exports of chats hold that cut an emoji in two
        whole = text.encode("utf-8", "replace")
    return escape(whole.decode("utf-8", "backslashreplace"))


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def link_to(path: str, /, **query: Any) -> str:
    """An address of a page; empty and missing arguments are left out."""
    given = {key.rstrip("_"): value for key, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, errors='surrogateescape')}" if given else path
