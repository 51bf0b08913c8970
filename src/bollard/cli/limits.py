"""Limits of the command line, each with its unit."""

from typing import Final

LOAD_TIMEOUT_S: Final = 20.0
"""Time limit for importing a plugin."""
RUN_TIMEOUT_S: Final = 300.0
"""Default time limit of one run in `plugin run`."""
END_MARGIN_S: Final = 1.0
"""Time limit for the end of a cancelled run, after its grace."""
STOP_GRACE_S: Final = 1.0
"""Time limit for the exit of a worker after the session."""
TOOL_TIMEOUT_MS: Final = 60_000
"""Time limit of a tool call."""
SETTLED_LINES: Final = 20
"""Lines that a restore prints for each kind of unfinished work; JSON lists all of it."""
HELP_COLUMNS: Final = 100
"""Widest help page; longer lines are hard to read."""
LOG_FILE_BYTES: Final = 64 * 1024 * 1024
"""One file of the host's log (`log_dir`); a further part of the day follows it."""
LOG_FILES: Final = 14
"""Files of the host's log that are kept; older ones are deleted."""
LOG_LINE_BYTES: Final = 1024 * 1024
"""One line of the host's log; the rest is left out with a mark."""
SEARCH_PAGES: Final = 20
"""Pages that `bollard conversations search` reads until one has messages that the person may see."""
LINE_CHARACTERS: Final = 300
"""One side line of a run (a log record, a tool's parameters); the rest is cut with a mark."""
CHAT_FILES: Final = 32
"""Files of one message of a chat, as the host accepts them."""
SOURCE_BYTES: Final = 1024 * 1024
"""A module larger than this is not read by `plugin check`."""
PLUGIN_FILES: Final = 10_000
"""Files of a plugin folder that `plugin check` looks at."""
HTTP_CONNECT_S: Final = 5.0
"""Time to reach a host."""
TLS_PROBE_S: Final = 2.0
"""Time to find out whether a port that does not answer over HTTP speaks TLS."""
HTTP_SILENCE_S: Final = 45.0
"""Time without a byte after which a connection counts as lost; a streaming host sends something every 15 s."""
HTTP_HEAD_BYTES: Final = 64 * 1024
"""The head of an answer, and one line of it."""
HTTP_BODY_BYTES: Final = 64 * 1024 * 1024
"""The body of an answer that is read whole."""
RECONNECT_S: Final = 60.0
"""Time for which a lost stream is retried."""
RECONNECT_WAIT_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Delays between two attempts; the last one repeats."""
AGENT_WAIT_S: Final = 10.0
"""Time limit for an agent that is starting."""
COLLECT_AFTER: Final = (20_000, 20, 100)
"""Objects after which the host's garbage collector runs. Values of a run are freed by reference counting."""
WATCH_S: Final = 0.1
"""Interval between two checks of starting agents."""
STOP_MARGIN_S: Final = 8.0
"""Time beyond its grace that a stopping host has to end its runs and close its streams."""
STOP_DEADLINE_S: Final = 30.0
"""Time beyond twice the grace after which the kernel ends a stopping host."""
DEV_LOOK_S: Final = 0.3
"""Interval between two checks of a plugin's files in development."""
DEV_KEEP_S: Final = 15.0
"""Time between two heartbeats of a development plugin; the host waits for a minute."""
FILE_BYTES: Final = 100 * 1024 * 1024
"""The largest file that `bollard files add` sends; the host accepts no larger one."""
KNOWLEDGE_FILES: Final = 10_000
"""Files that one `bollard knowledge put` sends."""
KNOWLEDGE_FILE_BYTES: Final = 32 * 1024 * 1024
"""The largest of them; the host accepts no larger document."""
KNOWLEDGE_LOOK_S: Final = 0.25
"""Interval between two checks of the index status."""
LOGIN_S: Final = 600.0
"""Time for which `bollard mcp login` waits for the redirect of the browser; the host waits as long."""
LOGIN_HEAD_S: Final = 10.0
"""Time of one request to the port of the redirect."""
LOGIN_HEAD_BYTES: Final = 32 * 1024
"""The head of such a request."""
