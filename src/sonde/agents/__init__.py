"""Configuration files of agents: where they are, and how our entry is added and removed."""
