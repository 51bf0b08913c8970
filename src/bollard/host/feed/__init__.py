"""Events out: the events of a workspace, read from the log, for bindings, streams and subscriptions."""
