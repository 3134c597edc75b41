#!/bin/sh
# Index this repository and answer a few searches. Keeps everything inside the virtual environment.
# usage: demo.sh BIN   (the folder that holds `sonde`)
set -eu
bin=${1:?usage: demo.sh BIN}
here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
SONDE_DAEMON=off # the storage goes away with this script
SONDE_HOME=$(mktemp -d "$(dirname -- "$bin")/demo.XXXXXX")
export SONDE_HOME SONDE_DAEMON
trap 'rm -rf "$SONDE_HOME"' EXIT
trap 'exit 130' INT TERM
cd "$here"

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$(printf '\033[1m') dim=$(printf '\033[2m') off=$(printf '\033[0m')
else
    bold='' dim='' off=''
fi

show() {
    title=$1
    shift
    command=sonde
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9_./=-]*) command="$command '$word'" ;;
        *) command="$command $word" ;;
        esac
    done
    printf '\n%s%s%s\n%s$ %s%s\n' "$bold" "$title" "$off" "$dim" "$command" "$off"
    "$bin/sonde" "$@"
}

printf '%ssonde, shown on its own source.%s ' "$bold" "$off"
printf 'This index lives in a temporary folder and goes away afterwards.\n'

show 'Index the project' index
show 'Ask a question' search 'how are cursors protected against forgery?' --limit 1
show 'Name a symbol' search load_settings --limit 1
show 'Read the docs' search 'which source of a setting wins, environment or config file?' --docs --limit 1
show 'Match a pattern' grep 'class \w+\(CatalogError' src --limit 5
show 'Bring in notes and documents' knowledge import docs/knowledge.md
show 'Find them' knowledge search 'what happens when both sides change' --limit 1
show 'See what takes the space' tree src/sonde --limit 3

cat <<END

${bold}Your turn${off}
  ${dim}\$${off} export PATH="$bin:\$PATH"
  ${dim}\$${off} cd your/project && sonde index && sonde search "what you are looking for"
  ${dim}\$${off} sonde serve                    # the same in the browser

${bold}For agents${off}
  ${dim}\$${off} sonde setup                    # finds them, shows what it would change, asks
  or by hand:
  ${dim}\$${off} claude mcp add sonde -- $bin/sonde mcp
  {"mcpServers": {"sonde": {"command": "$bin/sonde", "args": ["mcp"]}}}
END
