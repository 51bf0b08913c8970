"""Secrets: written once, never read back, used by reference, and kept out of everything that is shown or stored."""
