"""MCP: the tools over the protocol that agents speak."""
