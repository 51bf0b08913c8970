"""The run API: every call of a runner passes one gate, which checks the grant of the run."""
