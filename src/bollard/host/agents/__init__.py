"""Agents: a runner with its configuration and policies, and the bindings that bring events to it."""
