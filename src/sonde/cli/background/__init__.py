"""One process per user that keeps indexes, watchers and models for agents and the command line."""
