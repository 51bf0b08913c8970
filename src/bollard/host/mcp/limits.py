"""Limits of the host for MCP servers, each with its unit. Those of the bridge are in `bollard.mcp_bridge.limits`."""

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
"""Tools of one server that may have a consent."""
CONSENT_BYTES: Final = 1024 * 1024
"""All consents of one server, with the consented definitions."""
DIFF_LINES: Final = 200
"""Lines of a shown difference between two definitions."""
START_S: Final = 30.0
"""Time that a server has to start, to initialize and to list its tools."""
CALL_DEFAULT_S: Final = 60.0
"""Time of one call, unless the server was saved with another."""
CALL_MAX_S: Final = 3600.0
"""The longest time of one call that can be saved."""
CALL_GRACE_S: Final = 5.0
"""Extra time for the bridge to report the time-out of a call."""
CALLS_AT_ONCE: Final = 32
"""Calls of one server at the same time; more wait, within their time."""
RECONNECT_S: Final = 1.0
"""Delay before a lost server is connected again; doubled after each failure."""
RECONNECT_MAX_S: Final = 300.0
"""The longest delay between two attempts."""
STEADY_S: Final = 60.0
"""Time that a connection must last to reset the backoff."""
REFRESH_S: Final = 30.0
"""Time that a request to list tools again waits for the answer."""
LOG_LINES: Final = 200
"""Stored lines of a server's stderr."""
SCOPES: Final = 64
"""Scopes that a login asks for."""
LOGIN_S: Final = 600.0
"""Time that a person has to complete a login."""
LOGIN_STEP_S: Final = 30.0
"""Time to discover the authorization server, and to exchange a code for tokens."""
LOGIN_CHARACTERS: Final = 24 * 1024
"""The stored form of one login."""
BRIDGE_PING_S: Final = 15.0
"""Time between two pings of the bridge."""
BRIDGE_ANSWER_S: Final = 60.0
"""Time that the bridge has to answer a ping before it is killed and restarted."""
TRIES_AT_ONCE: Final = 2
"""Unsaved servers that are tried at once. Each is a process."""
TRY_S: Final = 30.0
"""Time in which an unsaved server must connect and list its tools."""
PLACES_SHOWN: Final = 8
"""Places that a server could not reach, in its log and in its problem."""
FOLDER_BYTES: Final = 2 * 1024 * 1024 * 1024
"""Files in the folder of one server, which is also its home with the caches of `npx` and `uvx`."""
FOLDER_FILES: Final = 200_000
"""Files and folders in it."""
FOLDER_WATCH_S: Final = 2.0
"""Time between two looks at the folder of a running server."""
FOLDER_WATCH_SHARE: Final = 0.02
"""The largest share of time that looking may take: large folders are looked at less often."""
