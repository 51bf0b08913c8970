"""Commands for operators: start, backup, audit, diagnosis."""
