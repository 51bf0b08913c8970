"""Incoming webhooks: saved routes, their verifiers, and the mapping of a request to an event."""
