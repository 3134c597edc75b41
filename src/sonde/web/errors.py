"""Errors as HTTP responses: the error's object as the body, and a status."""

from __future__ import annotations

import logging

from starlette.responses import JSONResponse

from sonde.errors import (
    BodyTooLarge,
    Cancelled,
    ConfirmationRequired,
    DiskFull,
    DocsIndexNotFound,
    EntryMissing,
    FileLimitWarning,
    FileMissing,
    FileNotAdmitted,
    ForeignOrigin,
    HandleUnknown,
    IndexBusy,
    IndexNotFound,
    InvalidPattern,
    InvalidRequest,
    MissingExtra,
    NodeMissing,
    NoSuchAddress,
    NotScanned,
    OutsideRoots,
    PermissionDenied,
    ProjectNotDetected,
    SondeError,
    SymlinkNotAllowed,
    TokenRequired,
    TooManyRequests,
    UnknownHost,
)

_log = logging.getLogger("sonde.web")

STATUSES: dict[type[SondeError], int] = {
    NoSuchAddress: 404,
    IndexNotFound: 404,
    DocsIndexNotFound: 404,
    FileMissing: 404,
    EntryMissing: 404,
    ProjectNotDetected: 404,
    HandleUnknown: 404,
    NotScanned: 404,
    NodeMissing: 404,
    InvalidPattern: 400,
    FileNotAdmitted: 403,
    OutsideRoots: 403,
    SymlinkNotAllowed: 403,
    PermissionDenied: 403,
    IndexBusy: 409,
    ConfirmationRequired: 428,
    FileLimitWarning: 428,
    Cancelled: 499,
    MissingExtra: 501,
    DiskFull: 507,
    TokenRequired: 401,
    ForeignOrigin: 403,
    BodyTooLarge: 413,
    UnknownHost: 421,
    TooManyRequests: 429,
    InvalidRequest: 400,
    SondeError: 500,
}
"""By class; a class that is not listed has the status of its nearest base."""


def find_status(kind: type[SondeError]) -> int:
    """The HTTP status of a class of errors."""
    return next(STATUSES[above] for above in kind.__mro__ if above in STATUSES)


def shape_error(error: Exception) -> JSONResponse:
    """The response for an exception of a verb or the guard."""
    if not isinstance(error, SondeError):
        # Details of a defect stay in the log: they may quote what was being read.
        _log.error("a route failed unexpectedly", exc_info=error)
        error = SondeError(f"unexpected {type(error).__name__}; see the log")
    status = find_status(type(error))
    if status == 500:
        _log.error("%s", error.developer_message)
    headers = {"cache-control": "no-store"}
    if isinstance(error, TokenRequired):
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, TooManyRequests):
        headers["retry-after"] = str(error.facts["seconds"])
    return JSONResponse(error.as_dict(), status, headers)
