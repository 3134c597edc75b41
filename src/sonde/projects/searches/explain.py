"""Why a search has no hit."""

from __future__ import annotations

from collections.abc import Sequence

from sonde.projects.project import Project
from sonde.projects.views import Views
from sonde.ranking.question import Question
from sonde.searching.hits import explain_no_results
from sonde.searching.request import Request


def explain_nothing(projects: Sequence[Project], request: Request, question: Question) -> str:
    """Why there is no hit in any of these projects."""
    stores = [project.stores()[kind] for project in projects for kind in request.kinds]
    every = [store for project in projects for store in project.stores().values()]
    if not any(store.counts().files for store in stores) and any(s.counts().files for s in every):
        if request.kinds == ("docs",):
            return "No documentation is indexed here; search the code instead."
        return "No code is indexed here; search the documentation instead."
    filters = [
        *([f"the folder {request.under}"] if request.under else []),
        *([f"the language {request.language}"] if request.language else []),
        *(
            f"{name} {', '.join(given)}"
            for name in ("include", "exclude", "tags", "chunk_types")
            if (given := getattr(request, name))
        ),
        *map(str, request.conditions),
    ]
    wheres = [
        request.narrow(
            project.part(Views).store() if request.of_views else project.stores()[kind], kind
        )
        for project in projects
        for kind in request.kinds
        if filters
    ]
    allowed = sum(len(where.paths or ()) for where in wheres)
    return explain_no_results(stores, question, filters, allowed)
