"""`python -m bollard.knowledge FD`: the knowledge process. The host starts it with one end of a socket pair; it ends
with that socket, or with the host."""

import gc
import logging
from typing import Final

from bollard.helper.host_link import HostGone, HostLink, host_socket, live_with_host
from bollard.knowledge.server import serve
from bollard.wire.knowledge_frames import FRAME_BYTES, decode_from_host

_COLLECT_AFTER: Final = 20_000


def main() -> int:
    """Serve one host; 0 after an orderly end."""
    try:
        with host_socket() as connection:
            live_with_host()
            logging.disable(logging.CRITICAL)  # libraries set up logging of their own
            gc.freeze()  # keeps the loaded modules out of garbage collection
            gc.set_threshold(_COLLECT_AFTER, 20, 20)
            return serve(HostLink(connection, decode_from_host, FRAME_BYTES))
    except HostGone:
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
