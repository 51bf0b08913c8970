"""`bollard`: the entry point. It loads very little, so that Ctrl-C is handled while the rest is loaded."""

import os
import sys

from bollard.cli.errors import EXIT_INTERRUPTED


def main() -> None:
    """Run the command and end the process."""
    try:
        from bollard.cli.app import run

        code = run(sys.argv[1:], os.environ)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    sys.exit(code)
