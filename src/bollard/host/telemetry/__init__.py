"""Metrics and traces of the host. This package only observes, and never delays the observed code."""
