"""Secrets: write-only values, used by reference and redacted from all output."""
