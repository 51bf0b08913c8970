"""The console: the page for people, its files, and the page of a host that has no such files yet."""
