"""Too little memory: smaller batches, then a clear error; and memory that goes back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from sonde.app import App
from sonde.embedding.static import StaticEmbedder
from sonde.errors import OutOfMemory
from sonde.projects.maintenance import check_project
from sonde.runtime.jobs import Jobs
from sonde.runtime.processes import retry_in_halves
from sonde.runtime.work import Work
from sonde.tools.index import create_index

LIMITED = (
    "import resource, sys; limit = int(sys.argv.pop(1)) << 20;"
    "resource.setrlimit(resource.RLIMIT_AS, (limit, limit));"
    "from sonde.cli.main import main; sys.exit(main())"
)


def test_halves_are_taken_until_it_fits_and_everything_is_done_once() -> None:
    done: list[int] = []

    def do(part: Sequence[int]) -> None:
        if len(part) > 3:
            raise MemoryError("too many")
        done.extend(part)

    retry_in_halves(range(20), do)
    assert done == list(range(20))

    def fail(part: Sequence[int]) -> None:
        raise MemoryError(f"{len(part)} are too many")

    with pytest.raises(OutOfMemory, match="1 are too many"):
        retry_in_halves(range(20), fail)


class SmallEmbedder(StaticEmbedder):
    """An embedder that has memory for five texts at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def embed(self, texts: Sequence[str], mode: Any) -> Any:
        self.sizes.append(len(texts))
        if len(texts) > 5:
            raise MemoryError("cannot allocate")
        return super().embed(texts, mode)


def test_an_index_made_in_halves_is_the_same(sonde: Any, open_app: Callable[..., App]) -> None:
    app, small = open_app(start=sonde.project), SmallEmbedder()
    limited = replace(app, workspace=replace(app.workspace, static={"code": small, "docs": small}))
    assert create_index(limited, work=Work())["filesIndexed"] == 31
    assert max(small.sizes) > 5 > min(small.sizes)
    project = app.workspace.projects.get(sonde.project)
    assert check_project(limited.workspace, project, Work(), thorough=True).drift == 0


def index_under(megabytes: int, sonde: Any) -> str:
    """The code or status that indexing under a limit of the address space ends with."""
    command = [sys.executable, "-c", LIMITED, str(megabytes), "index", "--yes", "--json"]
    variables = {**sonde.variables, "SONDE_EMBEDDING": "static", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=sonde.project, env=variables, capture_output=True, text=True, timeout=600
    )
    answer = json.loads(done.stdout) if done.stdout else {"code": done.stderr[-300:]}
    return str(answer.get("code", answer.get("status")))


@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS")
def test_a_limit_that_no_library_bears_is_told_before_one_ends_the_process(sonde: Any) -> None:
    assert [index_under(megabytes, sonde) for megabytes in (60, 110)] == 2 * ["OUT_OF_MEMORY"]


def test_a_job_ends_though_nothing_can_be_written_down_of_it() -> None:
    def fail() -> Any:
        raise MemoryError("no room for a database")

    def work(_: Work) -> None:
        raise MemoryError("no room for the work either")

    job = Jobs(fail).submit("key", "kind", work)
    assert job.wait(timeout_s=30)
    with pytest.raises(OutOfMemory, match="either"):
        job.outcome()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_AS")
@pytest.mark.row("001-157")
def test_under_a_limit_of_memory_an_index_is_made_or_the_limit_is_told(sonde: Any) -> None:
    for number in range(5):
        body = "".join(f"value_{number}_{n} = 'text of line {n}'\n" for n in range(1_500))
        (sonde.project / f"large{number}.py").write_text(body)
    told = [index_under(megabytes, sonde) for megabytes in (170, 190, 225, 4_000)]
    assert told[-1] == "success"
    assert set(told) <= {"success", "OUT_OF_MEMORY"}, told
    assert sonde.ask("index")["filesIndexed"] == 36


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_NOFILE")
def test_too_few_open_files_are_a_clear_error_and_a_low_soft_limit_is_raised(sonde: Any) -> None:
    limited = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({0}, {1}));"
    start = "os.execv(sys.argv[1], sys.argv[1:])"
    sonde.prefix = (sys.executable, "-c", limited.format(16, 16) + start)
    for command in (("index", "--yes"), ("search", "walrus"), ("status",)):
        error = sonde.fail(*command)
        assert error["code"] == "TOO_FEW_FILES"
        assert "16 files" in error["userMessage"]
        assert "ulimit -n 64" in error["nextAction"]
    sonde.prefix = (sys.executable, "-c", limited.format(16, 4096) + start)
    sonde.ask("index", "--yes")
