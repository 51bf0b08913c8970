"""Approvals: show a person the exact call before it is made, and record one decision."""
