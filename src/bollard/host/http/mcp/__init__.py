"""The MCP gateway: runs and agents as tools of MCP clients."""
