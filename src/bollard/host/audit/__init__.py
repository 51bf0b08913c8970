"""The log as evidence: verify, show, export, prove, a witness, archived segments."""
