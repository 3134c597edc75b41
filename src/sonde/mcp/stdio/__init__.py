"""MCP over stdin and stdout, with early answers before the SDK is imported."""
