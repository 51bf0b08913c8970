"""Where events come from and replies go: chat platforms, programs, devices. One boundary, and what stands behind it."""
