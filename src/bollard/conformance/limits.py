"""The limits of the kit, each with its unit."""

from typing import Final

from bollard.protocol.limits import CANCEL_GRACE_S

START_S: Final = 20.0
"""Time a worker has to answer `initialize` after its process was started."""
ANSWER_S: Final = 5.0
"""Time a worker has for an immediate answer; generous, because machines are busy."""
QUIET_S: Final = 0.25
"""Time to wait for a frame that must not arrive."""
CASE_S: Final = 40.0
"""Time of one case."""
GRACE_EARLY_S: Final = CANCEL_GRACE_S - 0.5
"""Time before which an abandoned run must not be answered."""
GRACE_LATE_S: Final = CANCEL_GRACE_S + 2.5
"""Time within which an abandoned run must be answered."""
EXIT_S: Final = 2.0
"""Time a worker has to exit after its connection closed or its shutdown completed."""
EXIT_BUSY_S: Final = EXIT_S + 2.0
"""The same, measured from outside on a busy machine."""
CONCURRENT_WORKERS: Final = 3
"""Dedicated workers that run beside the shared one."""
OUTPUT_LINES: Final = 1000
"""Lines of a worker's output that are kept."""
QUOTE_CHARACTERS: Final = 300
"""Length of a quoted frame."""
