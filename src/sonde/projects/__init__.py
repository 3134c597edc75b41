"""What happens to a project: find, update, follow, check, search."""
