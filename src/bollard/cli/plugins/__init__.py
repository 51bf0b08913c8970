"""Commands for plugins, runtimes and the protocol of workers."""
