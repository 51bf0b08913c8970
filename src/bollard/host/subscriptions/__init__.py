"""Outgoing webhooks: saved subscriptions, and the deliveries of events to them."""
