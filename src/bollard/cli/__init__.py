"""The `bollard` command. It may import anything, nobody imports it, and a command imports what it needs when it runs."""
