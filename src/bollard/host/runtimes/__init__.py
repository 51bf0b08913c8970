"""Runtimes on other machines: enrolled once, authenticated by their key, and given runs like local workers."""
