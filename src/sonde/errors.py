"""Every error sonde raises on purpose.

    SondeError              code, user message, developer message, next action
    ├── InvalidRequest      the call itself is wrong                -> JSON-RPC -32602
    ├── Refused             rejected by the HTTP server's guard     -> 401, 403, 413, 421, 429
    ├── InternalFailure     search or embedding failed              -> JSON-RPC -32603
    └── CatalogError        the RFC's catalogue, and our additions  -> an error result

Catch `SondeError` for all, or a subclass to recover from one. `next_action` tells the caller what
to do. The first sentence of each docstring explains the code in the reference.
"""

from __future__ import annotations

from typing import Any


class SondeError(Exception):
    """Any failure of sonde: a code, messages for users and developers, and a next action."""

    code = "ERROR"
    user_message = "Something went wrong."
    next_action = "Run `sonde doctor` and look at the log."
    status = 500
    """Of the response over HTTP; a class without one has that of its base."""

    def __init_subclass__(cls, code: str = "", status: int = 0) -> None:
        if code:
            cls.code = code
        cls.status = status or cls.status

    def __init__(
        self,
        detail: str = "",
        *,
        user_message: str | None = None,
        next_action: str | None = None,
        **facts: Any,
    ) -> None:
        self.facts = facts  # without any, messages are not formatted, whatever they quote
        message = user_message or type(self).user_message
        action = next_action or type(self).next_action
        self.user_message = message.format(**facts) if facts else message
        self.next_action = action.format(**facts) if facts else action
        self.developer_message = f"{self.code}: {detail or self.user_message}"
        super().__init__(self.developer_message)

    def as_dict(self) -> dict[str, object]:
        """The error as every surface shows it."""
        return {
            "code": self.code,
            "userMessage": self.user_message,
            "developerMessage": self.developer_message,
            "nextAction": self.next_action,
        } | ({"retryAfterSeconds": self.facts["seconds"]} if "seconds" in self.facts else {})


def list_packages(extra: str) -> str:
    """The packages of an extra, as arguments of `pip install`."""
    import re
    from importlib.metadata import PackageNotFoundError, requires

    try:
        needed = [text.partition(";") for text in requires("sonde") or ()]
    except PackageNotFoundError:
        needed = []
    names = [name.strip() for name, _, marker in needed if re.search(rf"['\"]{extra}['\"]", marker)]
    return " ".join(f"'{name}'" for name in names) or f"what pyproject.toml lists under `{extra}`"


# One table: an error's parent, code and HTTP status, its meaning, the user's message, the advice.
# fmt: off
class InvalidRequest(SondeError, code="INVALID_REQUEST", status=400):
    """The call is malformed, so the same call will fail again."""
    user_message = "The request is not valid."
    next_action = "Correct the arguments and try again."

class UnknownArgument(InvalidRequest, code="UNKNOWN_ARGUMENT"):
    """The call names an argument, tool or setting that does not exist."""

class EmptyQuery(InvalidRequest, code="EMPTY_QUERY"):
    """The query has no words to search for."""
    user_message = "The query is empty."
    next_action = "Pass the words or the question to search for in `query`."

class BadCursor(InvalidRequest, code="BAD_CURSOR"):
    """The cursor is truncated, expired, forged, or belongs to another query or caller."""
    user_message = "This cursor cannot be used."
    next_action = "Repeat the search without a cursor to get a fresh first page."

class Refused(SondeError, code="REFUSED"):
    """The HTTP server refuses the request before it reads it."""

class UnknownHost(Refused, code="UNKNOWN_HOST", status=421):
    """The Host header names another machine, which is the mark of a DNS rebinding attack."""
    user_message = "This server does not answer under the name '{host}'."
    next_action = "Use the address it prints at start, or start it with --public-url."

class ForeignOrigin(Refused, code="FOREIGN_ORIGIN", status=403):
    """A page of another site tried to use this server through a user's browser."""
    user_message = "Requests from pages of other sites are refused."
    next_action = "Open the server's own address, or call it from outside a browser."

class TokenRequired(Refused, code="TOKEN_REQUIRED", status=401):
    """The request has no token, or an unknown one."""
    user_message = "This server needs a valid token."
    next_action = "Send `Authorization: Bearer KEY`; on its machine `sonde users key` prints one."

class BodyTooLarge(Refused, code="BODY_TOO_LARGE", status=413):
    """The request is larger than any call needs."""
    user_message = "The request is larger than {most} bytes."
    next_action = "Split it into smaller requests."

class TooManyRequests(Refused, code="TOO_MANY_REQUESTS", status=429):
    """The caller sent more requests than it may."""
    user_message = "Too many requests."
    next_action = "Wait {seconds} s, then send requests more slowly."

class NoSuchAddress(InvalidRequest, code="NO_SUCH_ADDRESS", status=404):
    """The address does not exist, or its handle has expired."""
    user_message = "There is nothing at '{address}'."
    next_action = "Use addresses exactly as answers return them; handles expire."

class InternalFailure(SondeError, code="SEARCH_FAILED"):
    """The search failed for an unexpected reason."""
    user_message = "The search could not be completed."
    next_action = "Try again; if it happens again, run `sonde doctor`."

class EmbeddingFailed(InternalFailure, code="EMBEDDING_FAILED"):
    """The embedding model or service could not turn a text into a vector."""
    user_message = "The embedding model did not answer."
    next_action = "Search with mode=lexical, or run `sonde doctor`."

class CatalogError(SondeError):
    """A foreseen failure with a code of its own."""

class IndexNotFound(CatalogError, code="INDEX_NOT_FOUND", status=404):
    """The project has not been indexed."""
    user_message = "This project hasn't been indexed yet. Would you like to index it now?"
    next_action = "Call create_index, or run `sonde index` in the project."

class DocsIndexNotFound(CatalogError, code="DOCS_INDEX_NOT_FOUND", status=404):
    """The project has no documentation index."""
    user_message = "No documentation has been indexed yet. Run create_index to index your project."
    next_action = "Call create_index with indexDocs on, or run `sonde index`."

class IndexCorrupt(CatalogError, code="INDEX_CORRUPT"):
    """The stored index cannot be read."""
    user_message = "The search index seems corrupted. Rebuilding it now..."
    next_action = "Wait for the rebuild, or call reindex_project."

class DataDamaged(IndexCorrupt, code="DATA_DAMAGED"):
    """A file of data that no project or disk can bring back cannot be read."""
    user_message = "A file in which sonde keeps your data is damaged."
    next_action = "Put a backup of '{path}' back, or move it away: sonde then begins a new one."

class IndexTooNew(CatalogError, code="INDEX_TOO_NEW"):
    """The index was written by a newer version of sonde."""
    user_message = "This index was written by a newer version of sonde."
    next_action = "Upgrade sonde. The index of a project can also be deleted and created again."

class IndexBusy(CatalogError, code="INDEX_BUSY", status=409):
    """Another process is writing this index."""
    user_message = "Another process is updating this index right now."
    next_action = "Searches still work. Try again in a moment."

class ModelDownloadFailed(CatalogError, code="MODEL_DOWNLOAD_FAILED"):
    """A model that was requested by name could not be downloaded."""
    user_message = (
        "Couldn't set up the search engine. Please check your internet connection and try again."
    )
    next_action = "Use the bundled model, or pass the path of a model folder."

class FileLimitWarning(CatalogError, code="FILE_LIMIT_WARNING", status=428):
    """The project has more files than the setting `maxFiles`."""
    user_message = (
        "This project is very large ({count} files). Indexing may take several minutes. Continue?"
    )
    next_action = "Or narrow `include`/`exclude` in the project's config.json."

class PermissionDenied(CatalogError, code="PERMISSION_DENIED", status=403):
    """The operating system refused access to a file or folder."""
    user_message = "Can't access some files in this project. Check folder permissions."
    next_action = "Give read access to the path named in the developer message."

class DiskFull(CatalogError, code="DISK_FULL", status=507):
    """The disk has no space left for the index."""
    user_message = (
        "Not enough disk space to create the search index. Free up some space and try again."
    )
    next_action = "Free space or set SONDE_HOME to another disk; what was indexed before is intact."

class OutOfMemory(CatalogError, code="OUT_OF_MEMORY"):
    """Memory ran out even for one file at a time."""
    user_message = "There is not enough memory to continue."
    next_action = "Free memory or raise the limit; what was indexed so far is kept."

class TooFewFiles(CatalogError, code="TOO_FEW_FILES"):
    """The system lets this process open too few files."""
    user_message = "The system lets sonde open only {limit} files at a time; it needs {needed}."
    next_action = "Raise the limit: `ulimit -n {needed}`, or the hard limit of your account."

class FileMissing(CatalogError, code="FILE_NOT_FOUND", status=404):
    """The file does not exist in the project or in its index."""
    user_message = "The file '{path}' doesn't exist or isn't indexed."
    next_action = "Look the name up with search_by_path."

class EntryMissing(CatalogError, code="ENTRY_NOT_FOUND", status=404):
    """The note, medium, conversation, character or prompt does not exist."""
    user_message = "There is no {what} '{id}'."
    next_action = "Look it up with knowledge_search; every result has an id."

class FileNotAdmitted(CatalogError, code="FILE_NOT_INDEXABLE", status=403):
    """The file exists but is not indexed: a secret, binary, ignored, excluded or too large."""
    user_message = "The file '{path}' is not indexed: {reason}."
    next_action = "Check `exclude` and `maxFileSize` in config.json; the deny list is fixed."

class InvalidPattern(CatalogError, code="INVALID_PATTERN", status=400):
    """The glob or regular expression cannot be parsed."""
    user_message = "The search pattern '{pattern}' is invalid. Please check the syntax."
    next_action = "Correct the pattern at the position named in the developer message."

class ProjectNotDetected(CatalogError, code="PROJECT_NOT_DETECTED", status=404):
    """Neither the folder nor any above it has a marker of a project, such as `.git`."""
    user_message = "Could not detect project root. Please choose a directory."
    next_action = "Pass the project's folder, or start sonde inside it."

class SymlinkNotAllowed(CatalogError, code="SYMLINK_NOT_ALLOWED", status=403):
    """The path leads through a symbolic link."""
    user_message = "Symbolic links are not allowed for security reasons."
    next_action = "Name the real file inside the project."

class OutsideRoots(CatalogError, code="OUTSIDE_ROOTS", status=403):
    """The path leads out of the project, or out of the folders that the caller may use."""
    user_message = "That path is outside the project."
    next_action = "Name a path inside the project, relative to its root."

class HandleUnknown(CatalogError, code="HANDLE_NOT_FOUND", status=404):
    """The handle does not exist, has expired, or belongs to another user."""
    user_message = "There is no {what} '{handle}'."
    next_action = "Use handles exactly as answers return them; list what exists, or start again."

class NotScanned(CatalogError, code="NOT_SCANNED", status=404):
    """The folder may be scanned but has not been."""
    user_message = "'{path}' has not been scanned."
    next_action = "Call index with root='{path}', or run `sonde tree` there."

class NodeMissing(CatalogError, code="NODE_NOT_FOUND", status=404):
    """The scanned tree has no entry at this path."""
    user_message = "There is no {what} '{path}' here."
    next_action = "List the folder above it with cd, or scan again with index."

class NoHistory(CatalogError, code="NO_HISTORY"):
    """The project has no git history of its own that can be read."""
    user_message = "This project has no git history that can be searched."
    next_action = "Search a project that is the root of a git repository; git must be installed."

class SharedIndexMissing(CatalogError, code="SHARED_INDEX_NOT_FOUND"):
    """The address holds no shared index, or not the repository, branch or commit that is asked."""
    user_message = "There is no shared index at '{url}'."
    next_action = "Check the address, or make one: `sonde push URL` in a repository."

class SharedIndexUnreachable(CatalogError, code="SHARED_INDEX_UNREACHABLE"):
    """The storage of the shared index did not answer, refused the credentials, or failed."""
    user_message = "The shared index at '{url}' cannot be reached."
    next_action = "Check the network and the address; local indexes work without it."

class SharedIndexRefused(SharedIndexUnreachable, code="SHARED_INDEX_REFUSED"):
    """The storage of the shared index refused the credentials, or there are none."""
    user_message = "The storage at '{url}' refused the credentials."
    next_action = "Set the credentials in the environment, e.g. AWS_ACCESS_KEY_ID for s3://."

class Uncommitted(CatalogError, code="UNCOMMITTED_CHANGES"):
    """Files differ from the commit that is to be pushed."""
    user_message = "{count} files differ from the commit, such as {path}."
    next_action = "Commit or stash them: only what is committed is pushed."

class ReadOnlyProject(PermissionDenied, code="READ_ONLY"):
    """The project comes from a shared index, which a server only reads."""
    user_message = "'{name}' comes from a shared index, which this server only reads."
    next_action = "Push a commit: `sonde push URL` in a checkout. This server shows it soon."

class StorageUnusable(CatalogError, code="STORAGE_UNUSABLE"):
    """The folder of the indexes cannot be read or written."""
    user_message = "The folder where sonde keeps its indexes cannot be used."
    next_action = "Set SONDE_HOME to a folder you can write to."

class MissingExtra(CatalogError, code="MISSING_EXTRA", status=501):
    """The call needs an optional dependency that is not installed."""
    user_message = "This needs an optional part of sonde that is not installed."
    next_action = "Install its packages: pip install {packages}"

    def __init__(self, detail: str = "", *, extra: str, **facts: Any) -> None:
        super().__init__(detail, extra=extra, packages=list_packages(extra), **facts)

class ConfigUnreadable(CatalogError, code="AGENT_CONFIG_UNREADABLE"):
    """An agent's configuration cannot be parsed, so it is not edited."""
    user_message = "{path} cannot be parsed, so it was not changed."
    next_action = "Correct the file (`--verbose` says where), or add the server there yourself."

class ConfigChanged(CatalogError, code="AGENT_CONFIG_CHANGED"):
    """Another program changed an agent's configuration before it was written."""
    user_message = "{path} was changed by another program, so nothing was written to it."
    next_action = "Run the command again to see the change against the file as it is now."

class Cancelled(CatalogError, code="CANCELLED", status=499):
    """The user or the client cancelled the work."""
    user_message = "The operation was cancelled. What was done so far is kept."
    next_action = "Start it again to continue where it stopped."

class ConfirmationRequired(CatalogError, code="CONFIRMATION_REQUIRED", status=428):
    """The call changes or deletes data and must be confirmed first."""
    user_message = "{question}"
    next_action = "Repeat the call with confirm='{token}' within 2 minutes."
