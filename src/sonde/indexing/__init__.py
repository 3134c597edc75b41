"""Disk -> stores: what changed, and bringing the index in step with it."""
