"""Carries out what runs ask for: one executor for every kind, one book of calls, one place for budgets."""
