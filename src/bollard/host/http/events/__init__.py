"""Requests that bring events: native ones, CloudEvents and events of channels."""
