"""Limits of the worker process, each with its unit."""

from typing import Final

from bollard.protocol.limits import KIB

WATCHDOG_TICK_S: Final = 0.5
"""Time between two ticks of the loop."""
WATCHDOG_REPORT_S: Final = 2.0
"""Time without a tick after which the worker reports a blocked loop."""
OUTPUT_LINE_CHARACTERS: Final = 8192
"""One line of a plugin's stdout or stderr; a longer line is truncated."""
EXIT_GRACE_S: Final = 5.0
"""Time that runs have to end after the connection closed."""
HOST_SILENCE_S: Final = 60.0
"""Time a remote host may be silent before the runtime closes the connection."""
REPORT_FRAMES: Final = 40
"""Stack frames of a watchdog report."""
OUTPUT_LINES_WAITING: Final = 1000
"""Lines of other threads that wait for the loop; more are counted and dropped."""
OPEN_LINES: Final = 1024
"""Runs with an unfinished line; beyond that the oldest line is sent unfinished."""
LOG_FIELDS_BYTES: Final = 64 * KIB
"""Fields of one log record, as JSON; larger fields are replaced by a notice."""
PROGRAM_FILES: Final = 10_000
"""Files that the digest of a program covers."""
PROGRAM_BYTES: Final = 500 * 1024 * KIB
"""Bytes of those files."""
CLOSE_GRACE_S: Final = 0.5
"""Minimum time that runners have to close after their runs."""
SILENCED_PAUSE_S: Final = 0.01
"""Pause of a runner that keeps sending after its run has ended, so that it cannot block the loop."""
RECONNECT_S: Final = 1.0
"""Delay before a remote runtime retries; doubled after each failure, with jitter from 0.5 to 1.5."""
RECONNECT_MAX_S: Final = 30.0
"""The longest delay between two retries, before jitter."""
HANDSHAKE_TIMEOUT_S: Final = 10.0
"""Time a host may take to answer a request of the handshake."""
HANDSHAKE_ANSWER_BYTES: Final = 64 * KIB
"""Bytes that are read of such an answer."""
REFUSAL_S: Final = 1.0
"""Time for the first request of a host whose plugin cannot be loaded. The host sends it when it starts the process."""
