"""Agents: a runner with its configuration and policies."""
