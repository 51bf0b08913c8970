"""Limits of the wire that are not part of the protocol, each with its unit."""

from typing import Final

from bollard.protocol.limits import KIB, MIB

WRITE_FLUSH_BYTES: Final = 8 * KIB
"""Frames waiting for the end of the loop's turn leave at once when they are this many bytes."""
WRITE_HIGH_WATER_BYTES: Final = 256 * KIB
"""Unsent bytes above which producers wait."""
WRITE_HARD_LIMIT_BYTES: Final = 16 * MIB
"""Unsent bytes above which the channel is closed. Only what never waits comes near: what is large waits for room."""
WRITE_STALL_S: Final = 30.0
"""Time in which a peer that is behind must take a byte; then it counts as not reading and the channel is closed."""
AT_ONCE_BYTES: Final = 1 * KIB
"""An answer or a last result of this size leaves at once, however far the peer is behind: as many answers as there may
be are 4 MiB."""
ANSWERS_HELD_BYTES: Final = 128 * MIB
"""Answers that may wait for a peer which is behind; what a run asks for beyond that is refused."""
LOG_CONGESTED_BYTES: Final = 8 * KIB
"""A log record that is larger leaves its fields out while the host is behind."""
READS_AT_ONCE: Final = 16
"""Ranged reads of one channel that are answered at the same time: their answers are as large as a frame may be."""
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
OUTPUT_BYTES_PER_S: Final = 256 * KIB
"""Bytes of a worker's stdout and stderr that are read each second; then nobody reads, and whoever prints waits."""
OUTPUT_BURST_BYTES: Final = 1 * MIB
"""Bytes of them that may come at once."""
OUTPUT_LINES_PER_S: Final = 100
"""Lines of them that are told each second; more are counted and dropped."""
OUTPUT_BURST_LINES: Final = 400
"""Lines of them that may come at once."""
OUTPUT_DROPPED_S: Final = 5.0
"""Time between two notices of how many lines were dropped."""
OUTPUT_LAST_LINES: Final = 3
"""Newest dropped lines that are kept for the end of the output: they say why a worker ended."""
TERMINATE_GRACE_S: Final = 1.0
"""Time between asking a worker's process to end and killing its process group."""
DEAD_RUNS_REMEMBERED: Final = 65_536
"""Ended runs whose ids a worker refuses by itself; the host refuses them for ever."""
