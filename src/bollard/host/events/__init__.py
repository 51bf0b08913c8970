"""Events in: which agent gets an event, whether it may run, and which run the event goes to."""
