"""Calls of runs: one executor for every kind of capability, with their records and budgets."""
