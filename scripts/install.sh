#!/bin/sh
# Make the virtual environment and install sonde with its extras and development tools.
set -eu
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "sonde needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2
    exit 1
}
echo "Setting up $VENV with everything the project needs: a minute or two, 1 GB ..."
[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[lance,documents,postgres]' --group dev
