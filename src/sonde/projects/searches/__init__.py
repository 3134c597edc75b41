"""Searches that start from something else than a question: a place, a passage, the commits."""
