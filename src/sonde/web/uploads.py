"""Uploads of files into a user's knowledge, from the page and by REST."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from sonde.app import App
from sonde.errors import Cancelled
from sonde.knowledge.upload_jobs import MAX_UPLOAD_FILES, refuse_upload, start_upload
from sonde.mcp.calls import SCOPE_CALLER
from sonde.runtime.jobs import Job
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import SOURCES
from sonde.tools.shapes.shell import show_job
from sonde.web.application import Parts
from sonde.web.guard import UPLOADS
from sonde.web.pages.html import redirect_to, refuse_request
from sonde.web.rest import DescribedRoute

_FIELDS = 10  # besides files; a form has four


def add_uploads(parts: Parts) -> Sequence[BaseRoute]:
    """The addresses that take files: one answers with a job, the other with the page of jobs."""

    async def take(request: Request) -> Response:
        caller = request.scope[SCOPE_CALLER]
        try:
            kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "multipart/form-data":
                raise refuse_upload("The upload cannot be read: {name}", kind)
            async with request.form(max_files=MAX_UPLOAD_FILES, max_fields=_FIELDS) as form:
                sent = [each for each in form.getlist("file") if isinstance(each, UploadFile)]
                files = [(each.filename or "", each.file) for each in sent if each.filename]
                texts = {key: value for key, value in form.items() if isinstance(value, str)}
                source = next((each for each in SOURCES if each == texts.get("source")), None)
                if source is None and texts.get("source"):
                    raise refuse_upload("There is no source {name}.", texts["source"])

                def run(work: Work) -> Job:
                    restore, into = bool(texts.get("restore")), texts.get("into", "")
                    app: App = parts.app.get(caller)
                    library = app.knowledge
                    return start_upload(library, files, source, into, restore=restore, work=work)

                what = ("upload", {"files": [name for name, _ in files], **texts})
                job = await parts.calls.run_work(run, Work(caller=caller), what)
        except Exception as error:  # noqa: BLE001 - turned into the response
            if isinstance(error, HTTPException):  # of the parser
                error = refuse_upload("The upload cannot be read: {name}", error.detail)
            elif isinstance(error, ClientDisconnect):
                error = Cancelled("the client disconnected")
            return refuse_request(error, request.scope)
        if not request.url.path.startswith("/api/"):
            return redirect_to("/jobs")
        return JSONResponse(show_job(job.record(), caller), 202, {"cache-control": "no-store"})

    page, rest = UPLOADS
    about = "Files for your knowledge, as a form with fields `file`; the job that reads them"
    answers = {"application/json": "The job"}
    return [DescribedRoute(address, take, about, answers if address == rest else {}, upload=True)
            for address in (page, rest)]  # fmt: skip
