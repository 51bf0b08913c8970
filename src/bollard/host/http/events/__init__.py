"""Requests with events: the native form, CloudEvents and events of channels."""
