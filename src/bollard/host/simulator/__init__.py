"""What must hold of a host after any fault, and a host in virtual time to look for what breaks it."""
