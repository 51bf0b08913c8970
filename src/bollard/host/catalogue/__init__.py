"""The catalogue: plugins, MCP servers and skills that a workspace can install, listed by signed index files."""
