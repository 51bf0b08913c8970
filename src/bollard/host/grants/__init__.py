"""Grants: what one run may do, decided once before it starts, and every question about it answered from that."""
