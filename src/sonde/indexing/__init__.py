"""Finding what changed on disk, and updating the index."""
