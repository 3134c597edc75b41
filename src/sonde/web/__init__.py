"""HTTP: one application for MCP, the REST routes and the pages, behind one guard."""
