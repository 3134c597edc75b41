"""The configuration files of agents: where they lie, and how our entry gets into them and out."""
