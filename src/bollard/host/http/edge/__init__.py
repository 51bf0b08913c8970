"""The edge: checks of Host, Origin, proxies and rates before a request reaches an operation."""
