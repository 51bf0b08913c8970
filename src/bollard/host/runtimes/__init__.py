"""Runtimes of other machines: enrolled once, let in by their key, and given runs like a worker of this one."""
