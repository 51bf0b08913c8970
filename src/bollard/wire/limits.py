"""Limits of the wire that are not part of the protocol, each with its unit."""

from typing import Final

from bollard.protocol.limits import KIB, MIB

WRITE_FLUSH_BYTES: Final = 8 * KIB
"""Queued bytes above which frames are written at once instead of at the end of the loop's turn."""
WRITE_HIGH_WATER_BYTES: Final = 256 * KIB
"""Unsent bytes above which producers wait."""
WRITE_HARD_LIMIT_BYTES: Final = 16 * MIB
"""Unsent bytes above which the connection is closed. Only frames that never wait get there; large ones wait."""
WRITE_STALL_S: Final = 30.0
"""Time in which a congested peer must read a byte; otherwise the connection is closed."""
SMALL_FRAME_BYTES: Final = 1 * KIB
"""Size up to which a response or a terminal result is sent even to a congested peer. The largest possible number of
such responses is 4 MiB."""
HELD_RESPONSE_BYTES: Final = 128 * MIB
"""Responses that may wait for a congested peer; further calls of a run are refused."""
LOG_CONGESTED_BYTES: Final = 8 * KIB
"""Size above which a log record is sent without its fields while the host is congested."""
CONCURRENT_READS: Final = 16
"""Ranged reads of one connection that are served at the same time: each response may fill a frame."""
CLOSE_FLUSH_S: Final = 1.0
"""Time a closing connection has to flush its queue; a peer that does not read must not keep it open."""
CALL_ID_CHARACTERS: Final = 256
"""Length of a request id that is a string; it is kept until the request is answered."""
HEARTBEAT_S: Final = 2.0
"""Time between the answer to a ping and the next ping."""
HEARTBEAT_SILENT_S: Final = 5.0
"""Time a ping may stay unanswered before the worker counts as silent and gets no new runs."""
HEARTBEAT_CHECK_S: Final = 1.0
"""Time between two checks of a silent worker's process."""
HEARTBEAT_TIMEOUT_S: Final = 18.0
"""Time a ping may stay unanswered before the worker's loop counts as blocked: at most 20 s after its last answer."""
REQUEST_TIMEOUT_S: Final = 30.0
"""Time an administrative request (initialize, lists) may take."""
WEBSOCKET_HANDSHAKE_S: Final = 10.0
"""Time a WebSocket opening handshake may take."""
OUTPUT_LINE_BYTES: Final = 8 * KIB
"""One line of a worker's stdout or stderr; a longer line is truncated and marked."""
OUTPUT_READ_BYTES: Final = 64 * KIB
"""Bytes of a worker's stdout or stderr in one read."""
OUTPUT_BYTES_PER_S: Final = 256 * KIB
"""Bytes of a worker's stdout and stderr that are read each second; beyond that reading pauses and the writer blocks."""
OUTPUT_BURST_BYTES: Final = 1 * MIB
"""Bytes of output in one burst."""
OUTPUT_LINES_PER_S: Final = 100
"""Lines of output that are reported each second; more are counted and dropped."""
OUTPUT_BURST_LINES: Final = 400
"""Lines of output in one burst."""
OUTPUT_DROPPED_S: Final = 5.0
"""Time between two notices about dropped lines."""
OUTPUT_LAST_LINES: Final = 3
"""Newest dropped lines that are reported when the output ends: they explain why a worker exited."""
TERMINATE_GRACE_S: Final = 1.0
"""Time between SIGTERM to a worker's process and SIGKILL to its process group."""
ENDED_RUN_IDS: Final = 1024
"""Ids of ended runs that a worker keeps, about 200 KiB, to refuse a second `run/start`. The host never reuses an id.
Other late frames need no memory: a worker ignores every frame for a run that is not active."""
REFUSAL_BYTES: Final = 16 * KIB
"""The details with which a worker explains that its plugin cannot be loaded."""
