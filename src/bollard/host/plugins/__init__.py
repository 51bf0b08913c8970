"""Plugins in use: taken in, consented to, pinned, and given to workers of their workspace. What a run is, it does not
know."""
