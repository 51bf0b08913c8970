"""Limits of the worker process, each with its unit."""

from typing import Final

from bollard.protocol.limits import KIB

WATCHDOG_TICK_S: Final = 0.5
"""How often the loop shows that it turns."""
WATCHDOG_REPORT_S: Final = 2.0
"""Time without a turn after which the worker reports what blocks it."""
OUTPUT_LINE_CHARACTERS: Final = 8192
"""One line of a plugin's stdout or stderr; the rest of a longer one is cut."""
EXIT_GRACE_S: Final = 5.0
"""Time that runs have to end when the channel is gone."""
HOST_SILENCE_S: Final = 60.0
"""Time a remote host may be silent before the runtime gives the connection up."""
REPORT_FRAMES: Final = 40
"""Stack frames of a watchdog report."""
OUTPUT_LINES_WAITING: Final = 1000
"""Lines of threads that wait for the loop; more are counted and dropped."""
OPEN_LINES: Final = 1024
"""Runs with a line that they began and did not end; of more, the oldest line is sent as it is."""
LOG_FIELDS_BYTES: Final = 64 * KIB
"""Fields of one log record, as JSON; larger ones are left out and said to be."""
CLOSE_GRACE_S: Final = 0.5
"""Time that runners have to close after their runs, when those used up the rest."""
SILENCED_PAUSE_S: Final = 0.01
"""Pause of a runner that goes on sending after its run has ended, so that it cannot hold the loop."""
RECONNECT_S: Final = 1.0
"""Time before a remote runtime dials again; doubled with each try that fails, and each half to one and a half times."""
RECONNECT_MAX_S: Final = 30.0
"""The longest time between two tries, before the part of chance."""
DOOR_S: Final = 10.0
"""Time that a host may take to answer a request before the channel."""
DOOR_ANSWER_BYTES: Final = 64 * KIB
"""What is read of such an answer."""
