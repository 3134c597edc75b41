"""Completion scripts for bash, zsh and fish, written from the same table as the parser."""

from __future__ import annotations

from sonde.cli.parse import COMMANDS, GLOBALS, Command, Option


def run_completion(shell: str) -> int:
    """Print the script of a shell."""
    writers = {"bash": write_bash, "zsh": write_zsh, "fish": write_fish}
    print(writers[shell](), end="")
    return 0


def write_bash() -> str:
    """For `eval "$(sonde completion bash)"`."""
    names = " ".join(command.name for command in COMMANDS)
    shared = _flags(GLOBALS)
    cases = "\n".join(
        f"        {command.name}) words='{_complete_words(command)} {shared}' ;;"
        for command in COMMANDS
    )
    choices = "\n".join(
        f"        {flag}) COMPREPLY=($(compgen -W '{' '.join(option.settings['choices'])}' "
        '-- "$current")); return ;;'
        for flag, option in _options_with_choices()
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
            if not option.names[0].startswith("-"):
                words = option.settings.get("choices")
                lines.append(f"complete -c sonde -n {seen} " + _fish_words(words))
                continue
            parts = [
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in option.names
            ]
            if "action" not in option.settings or option.settings["action"] == "append":
                choices = option.settings.get("choices")
                parts.append(f"-x -a '{' '.join(choices)}'" if choices else "-r -F")
            about = _plain(option.settings["help"])
            lines.append(f"complete -c sonde -n {seen} {' '.join(parts)} -d '{about}'")
    return "\n".join(lines) + "\n"


def _fish_words(words: tuple[str, ...] | None) -> str:
    return f"-a '{' '.join(words)}'" if words else "-F"


def _zsh_options(command: Command) -> list[str]:
    specs = []
    for option in (*command.options, *GLOBALS):
        flags = [name for name in option.names if name.startswith("-")]
        about = _plain(option.settings["help"])
        choices = option.settings.get("choices")
        value = ""
        if choices:
            value = f":value:({' '.join(choices)})"
        elif option.settings.get("action") != "store_true":
            value = ":value:_files"
        specs += [f"'{name}[{about}]{value}'" for name in flags]
        if not flags and choices:
            specs.append(f"':{option.names[0]}:({' '.join(choices)})'")
    return specs


def _options_with_choices() -> list[tuple[str, Option]]:
    every = [*GLOBALS, *(option for command in COMMANDS for option in command.options)]
    return [
        (name, option)
        for option in every
        if "choices" in option.settings
        for name in option.names
        if name.startswith("--")
    ]


def _complete_words(command: Command) -> str:
    words = [
        " ".join(option.settings.get("choices", ()))
        for option in command.options
        if not option.names[0].startswith("-")
    ]
    return " ".join([*filter(None, words), _flags(command.options)])


def _flags(options: tuple[Option, ...]) -> str:
    return " ".join(name for option in options for name in option.names if name.startswith("--"))


def _plain(text: str) -> str:
    """Help text without the characters that shells read."""
    return text.replace("'", "’").translate(dict.fromkeys(map(ord, '"`[]:!\\')))
