"""Personal knowledge: one protocol, the SQLite and PostgreSQL stores behind it."""
