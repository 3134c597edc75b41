"""Inputs that `make hostile` has found to end in an internal error."""

from __future__ import annotations

import json

from tests.faults.conftest import Sonde
from tests.mcp.conftest import RawClient


def test_odd_inputs_are_answered_or_refused_clearly(sonde: Sonde) -> None:
    sonde.ask("index", "--yes")
    environ = sonde.variables | {"SONDE_EMBEDDING": "static"}
    client = RawClient(*sonde.command("mcp")[1:], cwd=sonde.project, env=environ)
    try:
        client.greet()
        for pattern in ("[" * 1_000, "[a" * 300 + "]" * 300):
            refused = client.call("regex_search", pattern=pattern)
            assert "more than 200 deep" in json.dumps(refused)
        assert "result" in client.call("regex_search", pattern="till", path="//" + "[" * 500)
        refused = client.call("regex_search", pattern="till", path="/etc/shadow\0")
        assert "holds a NUL" in json.dumps(refused)
        # sets side by side are not deep
        found = client.call("regex_search", pattern="[f[u[n]]]unction_7" + "[a[b]]?" * 300)
        assert "mod7.py" in json.dumps(found)
    finally:
        client.finish()
