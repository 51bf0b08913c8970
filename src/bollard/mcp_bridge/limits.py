"""Limits of the MCP bridge, each with its unit. Those that the host shares are in `bollard.wire.bridge_frames`."""

from typing import Final

from bollard.protocol.limits import KIB, MIB

CONNECT_S: Final = 10.0
"""Time to connect to an HTTP server, with the lookup of its name and the proxy."""
PROBE_S: Final = 10.0
"""Time for one step of the initialization: a legacy server may not answer the probe of the modern protocol."""
LIST_S: Final = 30.0
"""Time that a server has to list its tools."""
LIST_PAGES: Final = 32
"""Pages of tools read from one server."""
TOOLS_OF_SERVER: Final = 512
"""Tools of one server; more are ignored."""
TOOLS_BYTES: Final = 2 * MIB
"""All definitions of one server; more are unusable."""
DESCRIPTION_CHARACTERS: Final = 8 * KIB
"""The description of a tool."""
SCHEMA_BYTES: Final = 64 * KIB
"""One schema of a tool."""
SCHEMA_DEPTH: Final = 24
"""Nesting depth of a schema."""
REFRESH_EVERY_S: Final = 300.0
"""Time between two listings of an idle server's tools, without a change notification."""
REFRESH_PAUSE_S: Final = 1.0
"""Minimum time between two listings."""
PROGRESS_EVERY_S: Final = 0.2
"""Minimum time between two progress messages of one call; those between are dropped."""
PROGRESS_CHARACTERS: Final = 500
"""The text of one progress message."""
PROBLEM_CHARACTERS: Final = 1000
"""The text of an error."""
LOGIN_REQUEST_S: Final = 10.0
"""Time for each step of a request of a login."""
LOGIN_ANSWER_BYTES: Final = 256 * KIB
"""An answer to such a request."""
LOGIN_VALUE_CHARACTERS: Final = 8 * KIB
"""A token or a client secret."""
LOG_LINE_BYTES: Final = 2 * KIB
"""One line of a server's stderr."""
LOG_LINES_PER_S: Final = 50
"""Lines of one server per second; more are dropped and counted."""
WINDOW_S: Final = 0.1
"""The window for `MESSAGES_PER_WINDOW`."""
MESSAGES_PER_WINDOW: Final = 500
"""Messages read from one server per window; more wait in its pipe."""
LAST_LINES_S: Final = 0.25
"""Time to read the last lines of an ended server. A process that it started may keep its stderr open."""
EXIT_S: Final = 10.0
"""Time to learn the exit code of a server that closed its stdout: the kernel first removes its namespaces, which takes
seconds on a busy machine."""
