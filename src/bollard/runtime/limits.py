"""Limits of the worker process, each with its unit."""

from typing import Final

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
