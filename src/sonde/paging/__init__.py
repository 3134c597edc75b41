"""One ranking, many pages: result sets, signed cursors, token budgets."""
