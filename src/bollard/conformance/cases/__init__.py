"""The cases of the worker kit, by area."""
