"""What may be seen: the only code that opens a user's files or lists a user's folders."""
