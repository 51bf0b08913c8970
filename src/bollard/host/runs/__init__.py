"""Runs: the pure state machine, the executor that feeds it, and the hub that shows it to readers."""
