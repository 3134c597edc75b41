"""Schema changes, applied in order and remembered in the database."""


def pending_migrations(applied, available):
    """Names that have not been applied yet, oldest first."""
    return [name for name in sorted(available) if name not in applied]


def apply_migrations(connection, steps):
    """Run each step in a transaction of its own and note its name."""
    for name, step in steps:
        with connection:
            step(connection)
            connection.execute("INSERT INTO migrations VALUES (?)", (name,))
