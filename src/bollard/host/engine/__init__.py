"""Ownership of runs, as leases with epochs, and signals to the owners."""
