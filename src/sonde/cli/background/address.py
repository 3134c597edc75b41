"""Which background process serves a caller, and where it listens.

A process is identified by version, sources, interpreter and every setting in the environment; a
caller that differs in one gets another process. Imports only those standard modules that Python
loads at start-up anyway.
"""

from __future__ import annotations

import json
import os
import sys
import zlib

from sonde.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = "daemon"
"""The folder of the sockets, in the storage folder."""
_MAX_SOCKET_BYTES = 100  # the system takes 104 to 108
_PREFIXES = ("SONDE_", "CORTEX_")
_OF_ONE_CALL = ("SONDE_DAEMON", "SONDE_ASSUME_YES", "SONDE_TOOLSETS")
"""Settings that concern a single call, which the process reads for each caller."""
_NAMES = (
    "HOME", "TZ", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "OPENAI_API_KEY", "PYTHONPATH",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip
"""Other variables that change an answer."""
_PASSED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH")
"""Other variables the process is started with; the first caller decides."""
_SHOWN = ("TERM", "NO_COLOR", "COLUMNS", "PAGER", "LESS", "VISUAL", "EDITOR", "PATH")
"""Variables that affect only how an answer is shown."""


class Address:
    """The socket of a caller's background process, and the facts that identify it."""

    def __init__(self, home: str, environ: Mapping[str, str], config: str, stamp: object) -> None:
        self.home = home
        names = [name for name in environ if name.startswith(_PREFIXES)]
        names += [*_NAMES, _find_value(config, "embeddingKeyVariable")]
        names.append(environ.get("SONDE_EMBEDDING_KEY_VARIABLE", ""))
        settings = {name: environ[name] for name in sorted({*names}) if name in environ}
        kept = {name: value for name, value in settings.items() if name not in _OF_ONE_CALL}
        sources = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120
        self.facts = [__version__, sources, sys.executable, sys.version, home, kept, stamp]
        """What a caller and its process must agree on."""
        self.handed = settings | {name: environ[name] for name in _SHOWN if name in environ}
        """The variables that a caller hands over."""
        self.started_with = kept | {name: environ[name] for name in _PASSED if name in environ}
        number = zlib.crc32(json.dumps(self.facts).encode("utf-8", "surrogatepass"))
        self.folder = os.path.join(home, FOLDER)  # noqa: PTH118 - pathlib loads slowly
        if len(os.fsencode(self.folder)) + 20 > _MAX_SOCKET_BYTES:
            near = environ.get("XDG_RUNTIME_DIR") or "/tmp"  # noqa: S108 - its owner is checked
            self.folder = f"{near}/sonde-{os.getuid()}"
        self.socket = f"{self.folder}/{number:08x}.sock"
        self.lock = f"{self.folder}/{number:08x}.lock"
        self.log = f"{self.folder}/{number:08x}.log"


def find_address(environ: Mapping[str, str], *, wanted: bool) -> Address | None:
    """The address of this caller's process; None if it should not use one. `SONDE_DAEMON` decides,
    then `daemon` in the user's config.json, then whether it is `wanted`."""
    if os.name == "nt":
        return None
    home, user = environ.get("SONDE_HOME", "").strip(), environ.get("HOME", "")
    if not home or home.startswith("~"):
        home = f"{user}/{home[2:]}" if home else f"{user}/.mcp/search"
    home = os.path.normpath(home)
    if not os.path.isabs(user) or not os.path.isabs(home) or "\0" in home:  # noqa: PTH117
        return None
    config, stamp = "", None
    try:
        with open(f"{home}/config.json", encoding="utf-8") as file:  # noqa: PTH123
            facts = os.fstat(file.fileno())
            config, stamp = file.read(), (facts.st_mtime_ns, facts.st_size, facts.st_ino)
    except (OSError, ValueError):
        pass  # there is none; what is wrong with it, the settings say
    choice = environ.get("SONDE_DAEMON", "").strip().lower() or _find_value(config, "daemon")
    if choice == "off" or (choice != "on" and not wanted):
        return None
    return Address(home, environ, config, stamp and list(stamp))


def _find_value(config: str, key: str) -> str:
    """A string from config.json, read leniently; the settings validate it later."""
    if f'"{key}"' not in config:
        return ""
    try:
        found = json.loads(config)
        return str(found.get(key, "")).strip() if isinstance(found, dict) else ""
    except ValueError:
        return ""
