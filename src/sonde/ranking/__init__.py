"""Many orderings -> one; pure."""
