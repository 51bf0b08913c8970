"""Confinement by the kernel: file access beneath one folder, and programs in a jail.

Imports nothing here, because the jail is a separate process that starts with each program.
"""
