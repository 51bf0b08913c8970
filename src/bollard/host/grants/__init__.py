"""Grants: the permissions of one run, compiled once before it starts, and their explanation."""
