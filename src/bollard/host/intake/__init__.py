"""Events in: which agent gets one, whether it may, and what becomes of it."""
