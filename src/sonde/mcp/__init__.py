"""MCP: the tools over the Model Context Protocol."""
