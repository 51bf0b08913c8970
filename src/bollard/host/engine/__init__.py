"""Who runs what, and where: ownership of runs as leases with epochs, and signals to their owners."""
