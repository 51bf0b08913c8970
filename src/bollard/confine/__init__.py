"""Confinement by the kernel: files that are reached beneath one folder only, and programs that run in a jail.

Imports nothing here: the jail is a process of its own and starts with each program.
"""
