"""The client of a host's API: requests, streams, credentials and saved documents."""
