"""Capabilities: frozen definitions, their sources, and the graph of capabilities that a run has."""
