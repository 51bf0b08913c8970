"""The one way out: requests to addresses that are globally routable, checked at every hop."""
