"""Models that runs may use: providers as data, one way to call them, what each call cost."""
