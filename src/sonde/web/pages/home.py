"""The home page: projects and their state, example searches, or the first steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from heapq import nlargest

from sonde.app import App
from sonde.errors import SondeError
from sonde.projects.find import readable_project
from sonde.projects.project import Project
from sonde.runtime.work import Work
from sonde.text.formats import count_of, show_time
from sonde.tools import index
from sonde.web.pages import html
from sonde.web.pages.html import Markup, join, link_to, name_folder, show_icon, tag

_SHOWN_PROJECTS = 9  # three rows of a usual screen; the page of projects has them all
_SHOWN_FILES = 8  # those that somebody is at work on
_SAMPLED_FILES = 120  # those with the shortest paths: what a project is about lies near its root
_SAMPLED_DOCS = 12
_EXAMPLE_WORDS = range(3, 9)  # of a heading that reads like a question
_PLAIN = re.compile(r"[\w ,'’?-]+")
_HISTORY = re.compile(r"change|history|news|licen|releas", re.IGNORECASE)
"""Documents whose headings are versions, not topics."""
_RECENT_JOBS = 30  # enough to hold every one that runs


def show_home(app: App, project: str, work: Work) -> Markup:
    """The content of the search page before the first query; a project, if any is indexed."""
    if not project:
        return _show_first_steps(work)
    rows = index.list_projects(app, work=work)["projects"]
    jobs = index.list_jobs(app, _RECENT_JOBS, work=work)["jobs"]
    running = [index.read_job(app, job["jobId"], work=work) for job in jobs
               if job["status"] == "running"]  # fmt: skip
    busy = {job["subject"]: job for job in running if job["kind"] == "index"}
    cards = [html.show_card(row, busy.get(row["projectPath"])) for row in rows[:_SHOWN_PROJECTS]]
    more = len(rows) - len(cards)
    return tag(
        "div",
        tag("section",
            tag("h2", "Projects", tag("a", "Add a project", href="/projects", class_="aside")),
            tag("ul", cards, class_="cards"),
            tag("p", tag("a", f"{count_of(more, 'more project')}", href="/projects"))
            if more > 0 else None,
            _show_changed(app, project)),
        tag("aside",
            _show_examples(app, project),
            tag("section", tag("h2", "Recent searches"), tag("ol"), id="recent", hidden=True),
            tag("section", tag("h2", "Agents"),
                tag("p", "Let an agent search with sonde: ",
                    tag("a", "see what would change", href="/setup"), "."))
            if work.caller.is_person else None,
            tag("p", tag("kbd", "?"), " shows the keys, ", tag("kbd", "Ctrl K"), " goes anywhere",
                class_="faint"),
            aria_label="Getting started"),
        class_="home",
    )  # fmt: skip


def _show_changed(app: App, root: str) -> Markup | None:
    try:
        stores = readable_project(app.workspace, root).stores().values()
        states = [state for store in stores for state in store.files().values()]
    except SondeError:  # as below
        return None
    rows = [
        tag("li", tag("a", show_icon("file"), tag("span", state.path.rpartition("/")[2]),
                      tag("span", state.path.rpartition("/")[0], class_="faint"),
                      tag("small", html.show_age(show_time(state.mtime_ns // 1_000_000))),
                      href=link_to("/view", project=root, path=state.path)))
        for state in nlargest(_SHOWN_FILES, states, key=lambda state: state.mtime_ns)
    ]  # fmt: skip
    return join([tag("h2", f"Recently changed in {name_folder(root)}"),
                 tag("ul", rows, class_="examples changed")]) if rows else None  # fmt: skip


def _show_examples(app: App, root: str) -> Markup | None:
    try:
        found = list(find_examples(readable_project(app.workspace, root), root))
    except SondeError:  # examples are not worth an error
        return None
    rows = [
        tag("li", tag("a", show_icon(icon), tag("code" if icon != "search" else "span", query),
                      tag("small", about), href=href))
        for icon, query, about, href in found
    ]  # fmt: skip
    return tag("section", tag("h2", f"Try it on {name_folder(root)}"),
               tag("ul", rows, class_="examples")) if rows else None  # fmt: skip


def find_examples(project: Project, root: str) -> Iterator[tuple[str, str, str, str]]:
    """Example searches that find something in this project: icon, query, description, address."""
    stores = project.stores()
    known = (path for path in stores["docs"].files() if not _HISTORY.search(path))
    documents = sorted(known, key=lambda path: (path.count("/"), path))
    sections = stores["docs"].symbols_of(documents[:_SAMPLED_DOCS])
    for path in documents[:_SAMPLED_DOCS]:
        titles = (one.name.rpartition(" > ")[2] for one in sections.get(path, ()))
        plain = (each for each in titles if _PLAIN.fullmatch(each))
        title = next((each for each in plain if len(each.split()) in _EXAMPLE_WORDS), None)
        if title:
            yield "search", title, "a topic", link_to("/", project=root, q=title)
            break
    code = sorted(stores["code"].files(), key=lambda path: (path.count("/"), path))
    code = [path for path in code if not re.search(r"(^|/)tests?/|test_|\.test\.", path)]
    names = stores["code"].symbols_of(code[:_SAMPLED_FILES])
    stems = {
        path.rpartition("/")[2].partition(".")[0]: path for path in reversed(code[:_SAMPLED_FILES])
    }
    used = stores["code"].importers(stems)
    for stem in sorted(stems, key=lambda each: (-used.get(each.lower(), 0), stems[each])):
        plain = (d.name for d in names.get(stems[stem], ()) if d.kind in ("type", "function"))
        name = next(
            (each for each in plain if each.isidentifier() and not each.startswith("_")), ""
        )
        if name:
            pattern, glob = rf"\b{name}\w*", f"**/{stem}*"
            yield "braces", name, "a name", link_to("/", project=root, q=name, tab="code")
            yield "regex", pattern, "a pattern", link_to("/", project=root, q=pattern, tab="lines")
            yield "folder", glob, "paths", link_to("/", project=root, q=glob, tab="paths")
            break


def _show_first_steps(work: Work) -> Markup:
    form = html.show_folder_form("/projects", "project", "Index", "~/code/project")
    agents = tag("a", "See what would change", href="/setup", class_="button quiet")
    read = "sonde reads its files once and follows every change. Nothing leaves this machine."
    seen = "Claude Code, Cursor and others can use sonde. You see every change before it is made."
    asked = "Ask a question, or type a symbol, a path or a pattern. You get the lines that answer."
    steps: Sequence[tuple[str, str, Markup | None]] = (
        ("Index a project", read, form),
        ("Set up your agents", seen, agents if work.caller.is_person
         else tag("pre", tag("code", "sonde setup"))),
        ("Ask", asked, None),
    )  # fmt: skip
    items = [
        tag("li", tag("h3", title), tag("p", about, class_="faint"), action)
        for title, about, action in steps
    ]
    return join([
        tag("section", tag("h2", "Nothing is indexed yet"), tag("ol", items, class_="steps"),
            class_="first"),
        tag("p", "Import notes, documents and chats with ",
            tag("code", "sonde knowledge import FOLDER"), ".", class_="faint"),
    ])  # fmt: skip
