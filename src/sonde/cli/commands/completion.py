"""Completion scripts for bash, zsh and fish, derived from the table of commands."""

from __future__ import annotations

from collections.abc import Sequence

from sonde.cli.parse import COMMANDS, FOUND, GLOBALS, Command, Option


def run_completion(shell: str) -> int:
    """Print the script of a shell."""
    writers = {"bash": write_bash, "zsh": write_zsh, "fish": write_fish}
    print(writers[shell](), end="")
    return FOUND


def write_bash() -> str:
    """For `eval "$(sonde completion bash)"`."""
    names = " ".join(command.name for command in COMMANDS)
    shared = _long_flags(GLOBALS)
    cases = "\n".join(
        f"        {command.name}) words='{_list_words(command)} {shared}' ;;"
        for command in COMMANDS
    )
    choices = "\n".join(
        f"        {flag}) COMPREPLY=($(compgen -W '{' '.join(option.choices)}' "
        '-- "$current")); return ;;'
        for option in (*GLOBALS, *(option for command in COMMANDS for option in command.options))
        if option.choices
        for flag in option.flags
        if flag.startswith("--")
    )
    return f"""# bash completion for sonde
_sonde() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}
    local command='' word words
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case " {names} " in *" $word "*) command=$word; break ;; esac
    done
    case $previous in
{choices}
    esac
    case $command in
        '') words='{names} --version --help {shared}' ;;
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    [[ -n $command && $current != -* ]] && COMPREPLY+=($(compgen -f -- "$current"))
}}
complete -o filenames -F _sonde sonde
"""


def write_zsh() -> str:
    """For a file `_sonde` in `$fpath`, or `source <(sonde completion zsh)`."""
    names = "\n".join(f"        '{command.name}:{_plain(command.about)}'" for command in COMMANDS)
    cases = "\n".join(
        f"        {command.name}) _arguments {' '.join(_zsh_options(command))} '*:file:_files' ;;"
        for command in COMMANDS
    )
    return f"""#compdef sonde
_sonde() {{
    local -a commands=(
{names}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    case $words[2] in
{cases}
    esac
}}
if [[ $funcstack[1] == _sonde ]]; then _sonde "$@"; else compdef _sonde sonde; fi
"""


def write_fish() -> str:
    """For `sonde completion fish | source`."""
    lines = ["# fish completion for sonde", "complete -c sonde -f"]
    for command in COMMANDS:
        lines.append(
            f"complete -c sonde -n __fish_use_subcommand -a {command.name} "
            f"-d '{_plain(command.about)}'"
        )
        seen = f"'__fish_seen_subcommand_from {command.name}'"
        for option in (*command.options, *GLOBALS):
            values = f"-a '{' '.join(option.choices)}'" if option.choices else "-F"
            if not option.flags:
                lines.append(f"complete -c sonde -n {seen} {values}")
                continue
            parts = [
                f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                for flag in option.flags
            ]
            if not option.is_flag:
                parts.append(f"-x {values}" if option.choices else f"-r {values}")
            about = _plain(option.settings["help"])
            lines.append(f"complete -c sonde -n {seen} {' '.join(parts)} -d '{about}'")
    return "\n".join(lines) + "\n"


def _zsh_options(command: Command) -> list[str]:
    specs = []
    for option in (*command.options, *GLOBALS):
        values = f"({' '.join(option.choices)})" if option.choices else "_files"
        value = "" if option.is_flag else f":value:{values}"
        specs += [f"'{flag}[{_plain(option.settings['help'])}]{value}'" for flag in option.flags]
        if not option.flags and option.choices:
            specs.append(f"':{option.names[0]}:{values}'")
    return specs


def _list_words(command: Command) -> str:
    positional = [" ".join(option.choices) for option in command.options if not option.flags]
    return " ".join([*filter(None, positional), _long_flags(command.options)])


def _long_flags(options: Sequence[Option]) -> str:
    return " ".join(f for option in options for f in option.flags if f.startswith("--"))


def _plain(text: str) -> str:
    """Help text without characters that are special to shells."""
    return text.replace("'", "’").translate(dict.fromkeys(map(ord, '"`[]:!\\')))
