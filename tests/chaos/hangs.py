"""A plugin whose import never returns."""

import time

time.sleep(3600)
