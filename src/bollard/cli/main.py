"""`bollard`: the entry point. It loads next to nothing, so that Ctrl-C finds somebody while the rest is loaded."""

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
