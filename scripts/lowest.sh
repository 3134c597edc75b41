#!/bin/sh
# Install the lowest versions that pyproject.toml allows and run the tests that use each dependency.
set -eu
python=$1 venv=$2
rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --upgrade 'pip>=25.1' packaging
"$venv/bin/python" scripts/lock.py --lowest > "$venv/lowest.txt"
"$venv/bin/python" -m pip install --quiet --requirement "$venv/lowest.txt" \
    hatchling editables hypothesis pytest pytest-xdist
"$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable .
"$venv/bin/python" -m pytest -q -n 2 tests/chunking tests/contracts tests/indexing tests/policy \
    tests/stores tests/knowledge/test_formats.py tests/mcp/test_http.py tests/web/test_serving.py \
    tests/web/test_rest.py tests/web/test_patience.py tests/embedding/test_onnx.py tests/shared/test_push.py
