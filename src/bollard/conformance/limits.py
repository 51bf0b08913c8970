"""Every wait and bound of the kit, with its unit."""

from typing import Final

from bollard.protocol.limits import CANCEL_GRACE_S

START_S: Final = 20.0
"""Time a worker has to answer `initialize` after its process was started."""
ANSWER_S: Final = 5.0
"""Time a worker has for anything that it can do at once; generous, because machines are busy."""
QUIET_S: Final = 0.25
"""Time that must pass without a frame that must not come."""
CASE_S: Final = 40.0
"""Time of one case."""
GRACE_EARLY_S: Final = CANCEL_GRACE_S - 0.5
"""An abandoned run may not be answered before this much of its grace."""
GRACE_LATE_S: Final = CANCEL_GRACE_S + 2.5
"""An abandoned run must be answered within this time."""
EXIT_S: Final = 2.0
"""Time a worker has to end after its channel closed, or after its shutdown is through."""
EXIT_BUSY_S: Final = EXIT_S + 2.0
"""The same, as measured from outside on a busy machine."""
WORKERS_AT_ONCE: Final = 3
"""Workers of their own that run beside the shared one."""
OUTPUT_LINES: Final = 1000
"""Lines of a worker's output that are kept."""
BRIEF_CHARACTERS: Final = 300
"""Of a frame that a sentence quotes."""
