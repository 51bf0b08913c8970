"""The `bollard` command. It may import every package, and no package imports it. Commands import their dependencies
when they run."""
