"""Texts -> vectors; `providers.PROVIDERS` names the ways."""
