"""Worker processes: start, heartbeat, restart and quarantine. This package knows nothing about runs."""
