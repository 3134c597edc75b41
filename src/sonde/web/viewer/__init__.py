"""The viewer: a file of a project beside its folder, its outline and the names in it."""
