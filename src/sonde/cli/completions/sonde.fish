# fish completion for sonde
function __sonde_complete
    for line in (sonde completion fish -- (commandline -opc) (commandline -ct) 2>/dev/null)
        switch $line
            case :file
                __fish_complete_path (commandline -ct)
            case :folder
                __fish_complete_directories (commandline -ct)
            case '*'
                echo $line
        end
    end
end
complete -c sonde -f -a '(__sonde_complete)'
