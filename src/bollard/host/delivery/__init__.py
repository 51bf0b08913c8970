"""Results out: messages of runs to channels, in order, each as often as its channel allows."""
