"""What may be seen: the only code that lists or opens a user's files."""
