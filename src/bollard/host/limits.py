"""Limits of the host, each with its unit. Those of the protocol are in `bollard.protocol.limits`.

Imports nothing: the journal process reads it, and is small.
"""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB


JOURNAL_BATCH_RECORDS: Final = 512
"""Records and delta rows of one commit."""
JOURNAL_BATCH_BYTES: Final = 4 * MIB
"""Payload bytes of one commit."""
JOURNAL_LINGER_S: Final = 0.005
"""Time a batch that nobody waits for may wait for company."""
JOURNAL_QUEUE_ENTRIES: Final = 20_000
"""Entries that may wait for the writer; more are refused."""
JOURNAL_QUEUE_BYTES: Final = 64 * MIB
"""Payload bytes that may wait for the writer."""
JOURNAL_RETRY_S: Final = 0.25
"""Time between two tries of a commit that the store could not take."""
JOURNAL_GIVE_UP_S: Final = 2.0
"""Time after which a commit that cannot be made is given up and its waiters are told."""
JOURNAL_FULL_S: Final = 1.0
"""Time between two looks whether a full disk has space again."""
JOURNAL_START_S: Final = 10.0
"""Time the journal process may take to be ready."""
JOURNAL_STOP_S: Final = 5.0
"""Time the journal process may take to end once everything is on disk; then it is killed."""
HEAD_RECORDS: Final = 1000
"""Records after which a chain's head is signed."""
HEAD_S: Final = 60.0
"""Time after which a chain's head is signed."""
SUBSCRIBER_FRAMES: Final = 4096
"""Frames that one stream reader may be behind; then it is cut with a cursor."""
SUBSCRIBER_BYTES: Final = 4 * MIB
"""Bytes that one stream reader may be behind."""
REPLAY_PAGE: Final = 500
"""Records of a run that are read from the store at once."""
RUNS_AT_ONCE: Final = 512
"""Runs that this host executes at the same time; more wait in the queue."""
QUEUED_RUNS: Final = 10_000
"""Runs that may wait; more are refused with host.overloaded."""
EVENT_DATA_BYTES: Final = 256 * KIB
"""Data of one event; more must come as an artifact."""
EVENT_DATA_DEPTH: Final = 48
"""How deep the data of one event may be nested: a frame may be 64 deep, with the request around it."""
EVENT_DATA_VALUES: Final = 8000
"""JSON values in the data of one event: a frame may hold 10 000, with the request around them."""
INPUT_TEXT_BYTES: Final = 256 * KIB
"""Text of one message."""
EVENT_NAME_CHARACTERS: Final = 512
"""Each name in an event: where it comes from, where it belongs, and who is behind it."""
LEASE_S: Final = 15.0
"""Time a run is owned without a renewal."""
LEASE_RENEW_S: Final = 5.0
"""Time between two renewals."""
WORKER_START_S: Final = 10.0
"""Time a worker may take from its process start to its answer to initialize."""
WORKER_STOP_S: Final = 2.0
"""Time a worker may take to answer that it stops, beyond the grace of its runs; then it is killed."""
WORKER_CRASHES: Final = 5
"""Crashes within `WORKER_CRASH_WINDOW_S` that quarantine a plugin."""
WORKER_CRASH_WINDOW_S: Final = 60.0
WORKER_RESTART_S: Final = 0.2
"""Time before a crashed worker is started again; doubled with each crash in the window."""
RUN_DEADLINE_MAX_S: Final = 24 * 3600.0
"""The longest active time an agent may configure."""
GATHER_S: Final = 0.002
"""Time that the first records of a new run's stream may wait for what the run says at once."""
KEEP_ALIVE_S: Final = 15.0
"""Time without a record after which a stream sends a comment, so that proxies do not close it."""
HOUSEKEEPING_S: Final = 600.0
"""Time between two sweeps of what has expired."""
WORKER_MEMORY_BYTES: Final = 4 * 1024 * MIB
"""Memory that one worker process may allocate; more is refused by the kernel."""
WORKER_FILES: Final = 4096
"""Files that one worker process may have open."""
