"""Limits of schedules, each with its unit."""

from typing import Final

SCHEDULES_OF_WORKSPACE: Final = 10_000
"""Schedules of one workspace."""
PROPOSED_SCHEDULES: Final = 100
"""Schedules of one workspace that agents created."""
CRON_CHARACTERS: Final = 120
"""A cron expression."""
ZONE_CHARACTERS: Final = 64
"""The name of a time zone."""
INSTANT_CHARACTERS: Final = 40
"""An instant as text."""
INTERVAL_MIN_S: Final = 10
"""The shortest interval."""
INTERVAL_MAX_S: Final = 366 * 24 * 3600
"""The longest interval."""
GRACE_MAX_S: Final = 24 * 3600
"""The longest grace period."""
JITTER_MAX_S: Final = 3600
"""The longest jitter."""
MISSED_TICKS: Final = 100
"""Missed ticks that start after a downtime at most."""
COUNTED_TICKS: Final = 100
"""Skipped ticks that are counted. A record of more says `at least`."""
TICKS_OF_ROUND: Final = 100
"""Ticks of one schedule between two looks at the clock."""
SHOWN_INSTANTS: Final = 5
"""Next instants that an answer shows."""
DISPATCHES_AT_ONCE: Final = 64
"""Schedules whose ticks are dispatched at once."""
CLOCK_CHECK_S: Final = 1.0
"""The longest wait between two looks at the clock: a clock that jumps is noticed after this time."""
RETRY_MIN_S: Final = 1.0
"""The wait after the first failed dispatch of a tick."""
RETRY_MAX_S: Final = 30.0
"""The longest wait between two tries to dispatch a tick."""
PLANS_OF_TURN: Final = 50
"""Schedules that are planned before other tasks of the host get a turn."""
CATCH_UP_S: Final = 30 * 24 * 3600
"""Ticks that are older than this are not looked at after a downtime."""
