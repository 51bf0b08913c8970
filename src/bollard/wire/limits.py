"""Limits of the wire that are not part of the protocol, each with its unit."""

from typing import Final

from bollard.protocol.limits import KIB, MIB

WRITE_FLUSH_BYTES: Final = 8 * KIB
"""Frames waiting for the end of the loop's turn leave at once when they are this many bytes."""
WRITE_HIGH_WATER_BYTES: Final = 256 * KIB
"""Unsent bytes above which producers wait."""
WRITE_HARD_LIMIT_BYTES: Final = 16 * MIB
"""Unsent bytes above which the peer counts as not reading and the channel is closed."""
CLOSE_FLUSH_S: Final = 1.0
"""Time a closing channel has to send what is queued; a peer that does not read it must not keep the channel open."""
CALL_ID_CHARACTERS: Final = 256
"""The id of a call, when it is a string: it is remembered until the call is answered."""
HEARTBEAT_S: Final = 10.0
"""Time between two pings of a worker."""
HEARTBEAT_TIMEOUT_S: Final = 10.0
"""Time a ping may stay unanswered; then the worker's loop counts as blocked."""
REQUEST_TIMEOUT_S: Final = 30.0
"""Time an administrative request (initialize, lists) may take."""
WEBSOCKET_HANDSHAKE_S: Final = 10.0
"""Time a WebSocket opening handshake may take."""
OUTPUT_LINE_BYTES: Final = 8 * KIB
"""One line of a worker's stdout or stderr; the rest of a longer one is cut and said to be cut."""
OUTPUT_READ_BYTES: Final = 64 * KIB
"""Bytes of a worker's stdout or stderr that are read at once."""
TERMINATE_GRACE_S: Final = 1.0
"""Time between asking a worker's process to end and killing its process group."""
DEAD_RUNS_REMEMBERED: Final = 65_536
"""Ended runs whose ids a worker refuses by itself; the host refuses them for ever."""
