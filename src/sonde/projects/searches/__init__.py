"""Parts of a search beside the ranking: which projects, why nothing was found, commits."""
