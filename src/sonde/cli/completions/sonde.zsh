#compdef sonde
_sonde() {
    local line
    local -a values
    for line in "${(@f)$($words[1] completion zsh -- "${(@)words[1,CURRENT]}" 2>/dev/null)}"; do
        case $line in
            '') ;;
            :file) _files ;;
            :folder) _files -/ ;;
            *) values+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
        esac
    done
    (( $#values )) && _describe sonde values
}
if [[ $funcstack[1] == _sonde ]]; then _sonde "$@"; else compdef _sonde sonde; fi
