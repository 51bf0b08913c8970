"""Limits of the command line, each with its unit."""

from typing import Final

LOAD_TIMEOUT_S: Final = 20.0
"""Time a plugin has to be imported."""
RUN_TIMEOUT_S: Final = 300.0
"""Active time of one run of `plugin run`, unless it is told otherwise."""
END_MARGIN_S: Final = 1.0
"""Time a worker has, after a cancelled run's grace, to say that the run has ended."""
STOP_GRACE_S: Final = 1.0
"""Time a worker has to leave when the session is over."""
TOOL_TIMEOUT_MS: Final = 60_000
"""Time a tool of the plugin has to answer a call of its runner."""
HELP_COLUMNS: Final = 100
"""Widest help page; longer lines are hard to read."""
LINE_CHARACTERS: Final = 300
"""One side line of a run (a log record, a tool's parameters); the rest is cut and said to be cut."""
SOURCE_BYTES: Final = 1024 * 1024
"""A module larger than this is not read by `plugin check`."""
PLUGIN_FILES: Final = 10_000
"""Files of a plugin folder that `plugin check` looks at."""
