"""Search by regular expression, line by line, with ripgrep's results."""
