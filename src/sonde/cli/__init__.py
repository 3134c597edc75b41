"""The command line: argv -> verbs -> text or JSON."""
