"""Installs plugins with consent, stores and pins their code, and runs it in worker pools, one per workspace."""
