"""Tags of a document: those that its author gave it, and nothing that only looks like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from tests.drawing import draw_text

from sonde.chunking.tags import find_tags, fold_tag, tag_file


@pytest.mark.row("003-C14")
@pytest.mark.parametrize(
    ("front", "tags"),
    [
        ("---\ntags: [architecture, Design]\n---\n", ("architecture", "design")),
        ("---\ntags:\n  - auth\n  - 'single sign-on'  # sso\nother: x\n---\n",
         ("auth", "single sign-on")),
        ("---\ntitle: x\nkeywords: one, two three\n---\n", ("one", "two three")),
        ('---\ncategories:\n  - "[[People]]"\n  - "[[Board games|games]]"\n---\n',
         ("people", "board games")),
        ("---\ncategories: one two\n---\n", ("one", "two")),
        ("---\ntags: [a,\n  b,\n  c]\n---\n", ("a", "b", "c")),
        ("---\r\ntags: [crlf]\r\n---\r\n", ("crlf",)),
        ('+++\ntags = ["go", "Hugo site"]\n[taxonomies]\ncategories = ["posts"]\n+++\n',
         ("go", "hugo site", "posts")),
        ("+++\ntags = [broken\n+++\n", ()),
        ("---\ntags: project/alpha\n---\n", ("project/alpha", "project")),
        ("---\nnested:\n  tags: [inner]\n---\n", ()),
        ("text\n---\ntags: [late]\n---\n", ()),
    ],
)  # fmt: skip
def test_front_matter_names_tags(front: str, tags: tuple[str, ...]) -> None:
    assert find_tags(front + "Body.\n", "markdown") == tags


@pytest.mark.row("003-C15")
def test_hashtags_in_prose_are_tags() -> None:
    text = "Login (#auth) is old.\n#users #roles/admin\n- #listed\nAbout #größe, and #last."
    assert find_tags(text, "markdown") == (
        "auth", "users", "roles/admin", "roles", "listed", "größe", "last",
    )  # fmt: skip


@pytest.mark.row("003-C15")
@pytest.mark.parametrize(
    "text",
    [
        "# Heading",
        "#Heading without a blank",
        "see #123 and GH#12, #4-fix",
        "colour #fff, #A1B2C3, #add, #12ab34cd",
        "code `#code` and ``a `#b` c``",
        "```sh\n#comment here\necho #x\n```",
        "~~~\na #tag\n~~~",
        "- item\n\t- deeper\n\t  ```\n\t  a #tag\n\t  ```\n",
        "    indented #code",
        "Like this:\n\n    - an #example\n\n    and #more\n",
        "[link](#anchor) and https://a.example/#frag and a#b",
        '<a href="#top" id=#x>',
        "<!-- #hidden -->",
        "#include <stdio.h>\nand #define X and #endif",
        "call obj#method or Foo#bar, &#x27; C# F#",
        "the selector #main.wide and #id:hover",
    ],
)
def test_what_only_looks_like_a_tag_is_none(text: str) -> None:
    assert find_tags(text, "markdown") == ()


def test_items_below_others_are_prose() -> None:
    text = "- one #a\n\t- two #b\n\t  more #c\n\n    still #d\n\nEnd #e\n    and #f\n"
    assert find_tags(text, "markdown") == ("a", "b", "c", "d", "e", "f")


def test_code_has_no_hashtags_and_docs_of_other_formats_do() -> None:
    assert find_tags("a #tag here", "python") == ()
    assert find_tags("Text::\n\n    a #literal\n\nand a #tag\n", "rst") == ("tag",)


@pytest.mark.row("003-C11", "003-C12", "003-C13")
def test_a_file_is_tagged_by_its_place_and_language() -> None:
    assert tag_file("internal/Auth/handler.go", "code") == ["code", "go", "internal", "auth"]
    assert tag_file("docs/a.md", "docs", ("x",)) == ["documentation", "markdown", "docs", "x"]
    assert tag_file("docs/a.rst", "code")[:2] == ["documentation", "rst"]


@given(draw_text("ab1#-_/ `~\n[](),.:'\"+=", 200))
def test_any_text_gives_folded_tags(text: str) -> None:
    for source in (text, f"---\n{text}\n---\n", f"+++\n{text}\n+++\n", f"---\ntags: {text}"):
        for tag in find_tags(source, "markdown"):
            assert tag == fold_tag(tag)
            assert tag
