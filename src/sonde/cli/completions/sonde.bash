# bash completion for sonde
_sonde() {
    local IFS=$'\n' line current=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    local typed=("${COMP_WORDS[@]:0:COMP_CWORD+1}")
    for line in $("${COMP_WORDS[0]}" completion bash -- "${typed[@]}" 2>/dev/null); do
        case $line in
            :file) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -f -- "$current")) ;;
            :folder) compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen -d -- "$current")) ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done
}
complete -F _sonde sonde
