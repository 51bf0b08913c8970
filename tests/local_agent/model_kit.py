"""The real model, started as users start it: a separate process on a free port, with a key."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 120
KEY = "k-of-the-test"


def started(*arguments: str, **variables: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bollard.local_model", "--port", "0", *arguments]
    return subprocess.Popen(command, env=os.environ | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@contextmanager
def local_model() -> Iterator[str]:
    """Its base URL."""
    with started("--threads", "1", "--at-once", "1", BOLLARD_LOCAL_MODEL_KEY=KEY) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, said
