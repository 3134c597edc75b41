"""Words, globs, languages, times and safe cuts of text; pure."""
