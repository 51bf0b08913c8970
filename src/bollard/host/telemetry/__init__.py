"""What the host says of itself: numbers, traces. It watches, decides nothing, and never holds up what it watches."""
