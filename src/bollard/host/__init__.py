"""The server: events in, runs executed by workers, every fact in one log, streams out. Built in `app.py`."""
