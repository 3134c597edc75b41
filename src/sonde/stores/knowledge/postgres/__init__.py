"""Everybody's knowledge in one PostgreSQL database."""
