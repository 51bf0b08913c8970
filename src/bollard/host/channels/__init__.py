"""Channels: connections to chat platforms, programs and devices, which send events and receive replies."""
