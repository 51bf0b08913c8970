"""The process that speaks MCP for the host, through the official SDK."""
