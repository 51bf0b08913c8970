"""MCP servers as sources of tools. The SDK lives in a process of its own (`bollard.mcp_bridge`)."""
