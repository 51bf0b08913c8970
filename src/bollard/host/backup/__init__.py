"""Copies of a store: backups and restores of all of it, exports and imports of one workspace. Runs beside a host or
without one, never inside it."""
