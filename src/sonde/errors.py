"""Every error sonde raises on purpose.

    SondeError              code, user message, developer message, next action
    ├── InvalidRequest      the call itself is wrong                -> JSON-RPC -32602
    ├── Refused             the guard of the HTTP server            -> 401, 403, 413, 421, 429
    ├── InternalFailure     search or embedding broke               -> JSON-RPC -32603
    └── CatalogError        the RFC's catalogue, and more like it   -> an error result

Catch `SondeError` to catch them all, a leaf to recover from one thing. Every error says in
`next_action` what the caller can do about it.
"""

from __future__ import annotations

from typing import Any


class SondeError(Exception):
    """The root: a code for programs, a message for people, one for developers, and a way on."""

    code = "ERROR"
    user_message = "Something went wrong."
    next_action = "Run `sonde doctor` and look at the log."

    def __init__(
        self,
        detail: str = "",
        *,
        user_message: str | None = None,
        next_action: str | None = None,
        **facts: Any,
    ) -> None:
        self.facts = facts
        said, then = (
            user_message or type(self).user_message,
            next_action or type(self).next_action,
        )
        self.user_message = said.format(**facts) if facts else said
        self.next_action = then.format(**facts) if facts else then
        self.developer_message = f"{self.code}: {detail or self.user_message}"
        super().__init__(self.developer_message)

    def as_dict(self) -> dict[str, Any]:
        """The shape every surface shows."""
        return {
            "code": self.code,
            "userMessage": self.user_message,
            "developerMessage": self.developer_message,
            "nextAction": self.next_action,
        } | ({"retryAfterSeconds": self.facts["seconds"]} if "seconds" in self.facts else {})


class InvalidRequest(SondeError):
    """The call is malformed; the same call will fail again."""

    code = "INVALID_REQUEST"
    user_message = "The request is not valid."
    next_action = "Correct the arguments and call again."


class UnknownArgument(InvalidRequest):
    """An argument, tool or setting nobody knows."""

    code = "UNKNOWN_ARGUMENT"


class EmptyQuery(InvalidRequest):
    """Nothing to search for."""

    code = "EMPTY_QUERY"
    user_message = "The query is empty."
    next_action = "Pass the words or the question to search for in `query`."


class BadCursor(InvalidRequest):
    """A cursor that is forged, foreign, truncated, expired or of another query."""

    code = "BAD_CURSOR"
    user_message = "This cursor cannot be used."
    next_action = "Repeat the search without a cursor to get a fresh first page."


class Refused(SondeError):
    """A request that the HTTP server does not even look at."""

    code = "REFUSED"


class UnknownHost(Refused):
    """A Host header that names another machine: the mark of DNS rebinding."""

    code = "UNKNOWN_HOST"
    user_message = "This server does not answer under the name '{host}'."
    next_action = "Use the address it prints at start, or start it with --public-url."


class ForeignOrigin(Refused):
    """A page of another site tries to use this server through somebody's browser."""

    code = "FOREIGN_ORIGIN"
    user_message = "Requests from the pages of another site are not answered."
    next_action = "Open the server's own address, or call it from outside a browser."


class TokenRequired(Refused):
    """No token, or one that nobody was given."""

    code = "TOKEN_REQUIRED"
    user_message = "This server needs a valid token."
    next_action = "Send the header `Authorization: Bearer TOKEN`."


class BodyTooLarge(Refused):
    """A request larger than any call needs."""

    code = "BODY_TOO_LARGE"
    user_message = "The request is larger than {most} bytes."
    next_action = "Send less at once."


class TooManyRequests(Refused):
    """More requests than one caller may send."""

    code = "TOO_MANY_REQUESTS"
    user_message = "Too many requests."
    next_action = "Wait {seconds} s and go on more slowly."


class NoSuchAddress(InvalidRequest):
    """An address that leads nowhere."""

    code = "NO_SUCH_ADDRESS"
    user_message = "There is nothing at '{address}'."
    next_action = "Take addresses from answers as they are; handles do not last for ever."


class InternalFailure(SondeError):
    """Search itself broke."""

    code = "SEARCH_FAILED"
    user_message = "The search could not be completed."
    next_action = "Try again; if it happens again, run `sonde doctor`."


class EmbeddingFailed(InternalFailure):
    """Text could not be turned into a vector."""

    code = "EMBEDDING_FAILED"
    user_message = "The embedding model did not answer."
    next_action = "Search with mode=lexical, or run `sonde doctor`."


class CatalogError(SondeError):
    """An expected situation with a code of its own."""


class IndexNotFound(CatalogError):
    """The project has no index."""

    code = "INDEX_NOT_FOUND"
    user_message = "This project hasn't been indexed yet. Would you like to index it now?"
    next_action = "Call create_index, or run `sonde index` in the project."


class DocsIndexNotFound(CatalogError):
    """The project has no documentation index."""

    code = "DOCS_INDEX_NOT_FOUND"
    user_message = "No documentation has been indexed yet. Run create_index to index your project."
    next_action = "Call create_index with indexDocs on, or run `sonde index`."


class IndexCorrupt(CatalogError):
    """The stored index cannot be read."""

    code = "INDEX_CORRUPT"
    user_message = "The search index seems corrupted. Rebuilding it now..."
    next_action = "Wait for the rebuild, or call reindex_project."


class IndexTooNew(CatalogError):
    """Written by a newer version than this one."""

    code = "INDEX_TOO_NEW"
    user_message = "This index was written by a newer version of sonde."
    next_action = "Upgrade sonde, or delete the index and create it again."


class IndexBusy(CatalogError):
    """Another process is writing this index."""

    code = "INDEX_BUSY"
    user_message = "Another process is updating this index right now."
    next_action = "Searches go on meanwhile; try again in a moment."


class ModelDownloadFailed(CatalogError):
    """A model asked for by name could not be fetched."""

    code = "MODEL_DOWNLOAD_FAILED"
    user_message = (
        "Couldn't set up the search engine. Please check your internet connection and try again."
    )
    next_action = "Use the bundled model, or pass the path of a model folder."


class FileLimitWarning(CatalogError):
    """More files than the soft limit."""

    code = "FILE_LIMIT_WARNING"
    user_message = (
        "This project is very large ({count} files). Indexing may take several minutes. Continue?"
    )
    next_action = "Or narrow `include`/`exclude` in the project's config.json."


class PermissionDenied(CatalogError):
    """The operating system refused."""

    code = "PERMISSION_DENIED"
    user_message = "Can't access some files in this project. Check folder permissions."
    next_action = "Give read access to the path named in the developer message."


class DiskFull(CatalogError):
    """No room left for the index."""

    code = "DISK_FULL"
    user_message = (
        "Not enough disk space to create the search index. Free up some space and try again."
    )
    next_action = "Free space or set SONDE_HOME to another disk; what was indexed before is intact."


class OutOfMemory(CatalogError):
    """Memory did not suffice for one file at a time."""

    code = "OUT_OF_MEMORY"
    user_message = "There is not enough memory to go on."
    next_action = "Free memory or raise the limit; what was indexed so far is kept."


class FileMissing(CatalogError):
    """No such file in the project or the index."""

    code = "FILE_NOT_FOUND"
    user_message = "The file '{path}' doesn't exist or isn't indexed."
    next_action = "Look the name up with search_by_path."


class EntryMissing(CatalogError):
    """No such note, medium, conversation, character or prompt."""

    code = "ENTRY_NOT_FOUND"
    user_message = "There is no {what} '{id}'."
    next_action = "Look it up with knowledge_search; an id stands in each result."


class FileNotAdmitted(CatalogError):
    """The policy keeps this file out."""

    code = "FILE_NOT_INDEXABLE"
    user_message = "The file '{path}' is not indexed: {reason}."
    next_action = "Look at `exclude` and `maxFileSize` in config.json; the deny list is fixed."


class InvalidPattern(CatalogError):
    """A glob or regular expression that does not parse."""

    code = "INVALID_PATTERN"
    user_message = "The search pattern '{pattern}' is invalid. Please check the syntax."
    next_action = "Correct the pattern at the position named in the developer message."


class ProjectNotDetected(CatalogError):
    """No marker in any folder above."""

    code = "PROJECT_NOT_DETECTED"
    user_message = "Could not detect project root. Please choose a directory."
    next_action = "Pass the project's folder, or start sonde inside it."


class SymlinkNotAllowed(CatalogError):
    """A symbolic link where a file was expected."""

    code = "SYMLINK_NOT_ALLOWED"
    user_message = "Symbolic links are not allowed for security reasons."
    next_action = "Name the real file inside the project."


class OutsideRoots(CatalogError):
    """A path that leaves the project."""

    code = "OUTSIDE_ROOTS"
    user_message = "That path is outside the project."
    next_action = "Name a path inside the project, relative to its root."


class HandleUnknown(CatalogError):
    """A handle that was never given out, is forgotten, or belongs to somebody else."""

    code = "HANDLE_NOT_FOUND"
    user_message = "There is no {what} '{handle}'."
    next_action = "Take handles from answers as they are; list what there is, or start anew."


class NotScanned(CatalogError):
    """A folder that may be looked at but was not scanned."""

    code = "NOT_SCANNED"
    user_message = "'{path}' has not been scanned."
    next_action = "Call index with root='{path}', or run `sonde tree` there."


class NodeMissing(CatalogError):
    """Nothing of that name in a scanned tree."""

    code = "NODE_NOT_FOUND"
    user_message = "There is no {what} '{path}' here."
    next_action = "List the folder above it with cd, or scan again with index."


class StorageUnusable(CatalogError):
    """The storage root cannot be written or read."""

    code = "STORAGE_UNUSABLE"
    user_message = "The folder where sonde keeps its indexes cannot be used."
    next_action = "Set SONDE_HOME to a folder you can write to."


class MissingExtra(CatalogError):
    """An optional dependency is not installed."""

    code = "MISSING_EXTRA"
    user_message = "This needs an optional part of sonde that is not installed."
    next_action = "Install it: pip install 'sonde[{extra}]'."


class ConfigUnreadable(CatalogError):
    """An agent's configuration that cannot be edited safely."""

    code = "AGENT_CONFIG_UNREADABLE"
    user_message = "{path} cannot be understood, so it was left as it is."
    next_action = "Correct the file (`--verbose` says where), or add the server there yourself."


class ConfigChanged(CatalogError):
    """An agent's configuration that somebody else wrote meanwhile."""

    code = "AGENT_CONFIG_CHANGED"
    user_message = "{path} changed meanwhile, so nothing was written to it."
    next_action = "Run the command again to see the change against the file as it is now."


class Cancelled(CatalogError):
    """The user or the client stopped the work."""

    code = "CANCELLED"
    user_message = "The operation was cancelled. What was done so far is kept."
    next_action = "Start it again to go on from where it stopped."


class ConfirmationRequired(CatalogError):
    """A call that changes things must be confirmed first."""

    code = "CONFIRMATION_REQUIRED"
    user_message = "{question}"
    next_action = "Repeat the call with confirm='{token}' within 2 minutes."
