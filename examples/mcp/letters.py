"""A small MCP server over stdio, written with the official SDK: it sends letters, and stores them in a file beside it.

bollard mcp add letters -- "$(command -v python3)" "$PWD/examples/mcp/letters.py"
"""

from pathlib import Path
from typing import Final

from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations

SENT: Final = Path("sent.txt")
"""In the folder that the host starts a server in."""

server = MCPServer("letters", version="1.0.0")


@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
def count_letters() -> str:
    """Says how many letters were sent."""
    return str(len(SENT.read_text(encoding="utf-8").splitlines()) if SENT.exists() else 0)


@server.tool()
def send_letter(to: str, text: str) -> str:
    """Sends a letter."""
    with SENT.open("a", encoding="utf-8") as sent:
        sent.write(f"{to}: {' '.join(text.split())}\n")
    return f"sent to {to}"


if __name__ == "__main__":
    server.run()
