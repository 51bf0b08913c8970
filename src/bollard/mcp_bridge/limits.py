"""Limits of the MCP bridge, each with its unit. Those that the host shares are in `bollard.wire.bridge_frames`."""

from typing import Final

from bollard.protocol.limits import KIB, MIB

__all__ = [
    "DESCRIPTION_CHARACTERS",
    "LIST_PAGES",
    "LIST_S",
    "LOGIN_ANSWER_BYTES",
    "LOGIN_REQUEST_S",
    "LOGIN_VALUE_CHARACTERS",
    "LOG_LINES_PER_S",
    "LOG_LINE_BYTES",
    "MESSAGES_PER_WINDOW",
    "PROBE_S",
    "PROBLEM_CHARACTERS",
    "PROGRESS_CHARACTERS",
    "PROGRESS_EVERY_S",
    "REFRESH_EVERY_S",
    "REFRESH_PAUSE_S",
    "SCHEMA_BYTES",
    "SCHEMA_DEPTH",
    "SERVER_END_S",
    "SERVER_KILL_S",
    "TOOLS_BYTES",
    "TOOLS_OF_SERVER",
    "WINDOW_S",
]

PROBE_S: Final = 10.0
"""Time that a server has for one step of the greeting: one of the old era may not answer the question of the new."""
LIST_S: Final = 30.0
"""Time that a server has to list its tools."""
LIST_PAGES: Final = 32
"""Pages of tools that are read of one server."""
TOOLS_OF_SERVER: Final = 512
"""Tools of one server; those beyond are left out."""
TOOLS_BYTES: Final = 2 * MIB
"""All definitions of one server together; those beyond are left out."""
DESCRIPTION_CHARACTERS: Final = 8 * KIB
"""What a tool says about itself."""
SCHEMA_BYTES: Final = 64 * KIB
"""One schema of a tool."""
SCHEMA_DEPTH: Final = 24
"""How deep a schema may be nested."""
REFRESH_EVERY_S: Final = 300.0
"""Time after which an idle server is asked for its tools again, whether it says that they changed or not."""
REFRESH_PAUSE_S: Final = 1.0
"""Time between two listings, however often a server says that its tools changed."""
PROGRESS_EVERY_S: Final = 0.2
"""Time between two pieces of progress of one call that are passed on; what comes between is dropped."""
PROGRESS_CHARACTERS: Final = 500
"""Words of one piece of progress."""
PROBLEM_CHARACTERS: Final = 1000
"""What is passed on of the words of an error."""
LOGIN_REQUEST_S: Final = 10.0
"""Time of each step of one request that a login needs."""
LOGIN_ANSWER_BYTES: Final = 256 * KIB
"""An answer to such a request."""
LOGIN_VALUE_CHARACTERS: Final = 8 * KIB
"""A token, and a secret of a client that was registered."""
LOG_LINE_BYTES: Final = 2 * KIB
"""One line of a server's stderr."""
LOG_LINES_PER_S: Final = 50
"""Lines of one server that are passed on in a second; the others are counted."""
WINDOW_S: Final = 0.1
"""Time over which the messages of one server are counted."""
MESSAGES_PER_WINDOW: Final = 500
"""Messages of one server that are read in that time; the others wait in its pipe."""
SERVER_END_S: Final = 2.0
"""Time that a server has to end by itself once its stdin is closed."""
SERVER_KILL_S: Final = 2.0
"""Time between asking its process group to end and killing it."""
