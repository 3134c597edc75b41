"""Text -> chunks: pure, by syntax where there is a grammar."""
