"""Limits of what the host does with MCP servers, each with its unit. Those of the bridge are its own."""

from typing import Final

SERVERS_OF_WORKSPACE: Final = 50
"""MCP servers that one workspace may have."""
URL_CHARACTERS: Final = 2048
"""The address of a server."""
ARGUMENTS: Final = 64
"""Arguments of a command."""
ARGUMENT_CHARACTERS: Final = 4096
"""One argument, one variable of the environment, one header."""
NAMED_VALUES: Final = 64
"""Variables, or headers, of one server."""
TOOLS_ALLOWED: Final = 512
"""Names in the list of allowed tools."""
CONSENT_TOOLS: Final = 512
"""Tools of one server that somebody may have said yes to."""
CONSENT_BYTES: Final = 1024 * 1024
"""Everything of one server that somebody said yes to: the definitions are kept, to show what changed."""
DIFF_LINES: Final = 200
"""Lines of a difference between two definitions that are shown."""
START_S: Final = 30.0
"""Time that a server has to start, to greet and to list its tools."""
CALL_DEFAULT_S: Final = 60.0
"""Time of one call, unless the server was saved with another."""
CALL_MAX_S: Final = 3600.0
"""The longest time of one call that can be saved."""
CALL_GRACE_S: Final = 5.0
"""Time beyond that of a call in which the bridge must have said something; it would have said that time is up."""
CALLS_AT_ONCE: Final = 32
"""Calls of one server at the same time; more wait, within their time."""
RECONNECT_S: Final = 1.0
"""Time before a server that was lost is connected again; doubled with each try that fails."""
RECONNECT_MAX_S: Final = 300.0
"""The longest time between two tries."""
STEADY_S: Final = 60.0
"""Time that a connection must have held for the next loss to count as the first."""
REFRESH_S: Final = 30.0
"""Time that a request to list tools again waits for the answer."""
LOG_LINES: Final = 200
"""Lines of a server's stderr that are kept."""
SCOPES: Final = 64
"""Scopes that a login asks for."""
LOGIN_S: Final = 600.0
"""Time that a person has to come back from a login."""
LOGIN_STEP_S: Final = 30.0
"""Time to find out where people log in for a server, and to exchange what they bring back."""
LOGIN_CHARACTERS: Final = 24 * 1024
"""What is kept of one login."""
BRIDGE_PING_S: Final = 15.0
"""Time between two questions whether the bridge is alive."""
BRIDGE_ANSWER_S: Final = 60.0
"""Time that it has to answer; then it is killed, and started again."""
