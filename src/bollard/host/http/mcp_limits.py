"""Limits of the MCP gateway, each with its unit."""

from typing import Final

__all__ = [
    "ANSWER_MESSAGES",
    "CALLS_OF_CALLER",
    "JSON_ANSWER_S",
    "NOTES",
    "NOTE_CHARACTERS",
    "TOOLS_OF_PAGE",
    "TOOL_LIST_TTL_MS",
]

TOOLS_OF_PAGE: Final = 100
"""Tools of one page of `tools/list`."""
TOOL_LIST_TTL_MS: Final = 5_000
"""How long a client may take a list of agents as it was. That of a run does not change while the run goes on, except
by what is taken away from it."""
JSON_ANSWER_S: Final = 10.0
"""A call that says nothing for so long is answered as a stream where the client takes one, so that nobody between the
two takes it for dead."""
NOTES: Final = 256
"""Notes of progress that wait for a slow reader; then the oldest goes."""
NOTE_CHARACTERS: Final = 4096
"""The text of one note of progress."""
ANSWER_MESSAGES: Final = 8
"""The last messages of an agent, which are its answer."""
CALLS_OF_CALLER: Final = 64
"""Calls that one caller of `/mcp` may have under way."""
