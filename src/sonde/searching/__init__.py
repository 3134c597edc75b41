"""Question -> ranked chunks, by words, meaning, path or regular expression."""
