#!/bin/sh
# Install the agents from npm into a cache, then drive them where nothing but loopback exists.
# usage: agents.sh PYTHON CACHE [AGENT…]
set -eu
python=$1 cache=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$cache"
if ! cmp -s "$here/package.json" "$cache/installed.json"; then
    cp "$here/package.json" "$cache/package.json"
    npm install --prefix "$cache" --no-audit --no-fund --loglevel=error
    cp "$here/package.json" "$cache/installed.json"
fi
isolate="unshare --user --map-root-user --net --mount --pid --fork --kill-child --mount-proc"
if command -v ip >/dev/null && $isolate true 2>/dev/null; then
    # shellcheck disable=SC2016
    exec $isolate sh -c 'ip link set lo up && exec "$@"' - "$python" "$here/drive.py" "$cache" "$@"
fi
echo "no network namespaces here: a proxy that does not exist keeps the agents off the network" >&2
HTTP_PROXY=http://127.0.0.1:9 HTTPS_PROXY=http://127.0.0.1:9 NO_PROXY=127.0.0.1,localhost \
    exec "$python" "$here/drive.py" "$cache" "$@"
