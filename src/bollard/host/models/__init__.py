"""Models that runs may call: providers as data, one interface for all of them, and the cost of each call."""
