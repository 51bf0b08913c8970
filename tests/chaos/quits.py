"""A plugin whose import ends the process."""

raise SystemExit(7)
