"""Questions that agents ask the people they work for."""
