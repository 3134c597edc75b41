"""Runs inside sonde's own environment: embed deep vectors for a while, say how many.

python stage_two.py PROJECT SECONDS
"""

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path

from sonde.errors import Cancelled
from sonde.indexing.diff import coverage_of
from sonde.indexing.pipeline import refine_vectors
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.wiring import build_app

root, limit_s = Path(sys.argv[1]), float(sys.argv[2])
app = build_app(load_settings(os.environ), start=root)
project = app.workspace.projects.get(root)
assert app.workspace.deep, "the settings switch the deep model off"
deep = app.workspace.deep
deep.embed(["loads the model"], "passage")
began, used = time.perf_counter(), time.process_time()
before, _ = coverage_of(project.stores(), deep.name)
work = Work()
timer = threading.Timer(limit_s, work.cancel)
timer.start()
with contextlib.suppress(Cancelled):
    refine_vectors(project.stores(), dict.fromkeys(project.stores(), deep), project.lock, work)
timer.cancel()
have, total = coverage_of(project.stores(), deep.name)
print(
    json.dumps(
        {
            "chunks": have - before,
            "wall_s": time.perf_counter() - began,
            "cpu_s": time.process_time() - used,
            "coverage": [have, total],
        }
    )
)
app.close()
