((command name: (command_name) @_name) @alias (#eq? @_name "alias"))
