"""Schedules: saved times at which the host raises an event."""
