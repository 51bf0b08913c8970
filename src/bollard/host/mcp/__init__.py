"""MCP servers as sources of tools. A separate process loads the SDK (`bollard.mcp_bridge`)."""
