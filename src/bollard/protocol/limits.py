"""Every limit of the protocol, by name and with its unit. Hosts may configure them downward, never upward."""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

PROTOCOL_VERSION: Final = 1
"""The one version this package speaks; negotiated by `initialize`."""

# --- a frame, before it is parsed (§11) ---
FRAME_BYTES: Final = 2 * MIB
"""One JSON document on the channel."""
FRAME_DEPTH: Final = 64
"""Nesting of objects and arrays in one frame."""
FRAME_NODES: Final = 10_000
"""JSON values (objects, arrays and scalars) in one frame."""
KEY_CHARACTERS: Final = 256
"""Length of one object key."""
INTEGER_MAX: Final = 2**53
"""Largest absolute value of an integer: what every JSON peer can hold exactly."""

# --- flow control (§11) ---
WINDOW_RESULTS: Final = 256
"""Uncommitted results one run may have under way."""
WINDOW_BYTES: Final = 4 * MIB
"""Encoded `params` of those results."""
STREAM_WINDOW_CHUNKS: Final = 256
"""Chunks of one streamed call that the worker has not credited yet."""
STREAM_WINDOW_BYTES: Final = 4 * MIB
"""Encoded `params` of those chunks."""
STRIKES: Final = 3
"""Protocol violations that end a run, or a worker."""
LOG_RECORDS_PER_S: Final = 100
"""Log records a worker sends each second; more are counted and dropped."""
LOG_RECORDS_BURST: Final = 400
"""Log records a worker may send at once."""
LOG_MESSAGE_CHARACTERS: Final = 8 * KIB
"""One log message; the rest is cut and said to be cut."""
CHANNEL_REQUESTS_IN_FLIGHT: Final = 4096
"""Requests of one peer that the other may have unanswered on one channel."""

# --- results and calls (§5, §6) ---
RESULT_BYTES: Final = 1 * MIB
"""One result, as JSON."""
INLINE_ARTIFACT_BYTES: Final = 700 * KIB
"""Decoded content of one `artifact.created`; more goes through `artifacts.write`."""
CALL_BYTES: Final = 1 * MIB
"""Parameters or answer of one API call, unless its row says otherwise."""
PAGE_ITEMS: Final = 100
"""Items of one page."""
PAGE_BYTES: Final = 512 * KIB
"""One page, as JSON; `has_more` says that it was cut here."""
SEARCH_TOP_K: Final = 50
"""Hits of one search."""
RERANK_DOCUMENTS: Final = 64
"""Documents of one rerank call."""
READ_BYTES: Final = 1 * MIB
"""Decoded content of one ranged read."""
READ_BYTES_DEFAULT: Final = 64 * KIB
"""Decoded content of one ranged read that names no length."""
CALLS_IN_FLIGHT: Final = 32
"""API calls one run may have unanswered."""
CALLS_PER_S: Final = 200
"""API calls of one run each second."""
CALLS_BURST: Final = 400
"""API calls of one run at once, from a rested token bucket."""
CHILD_RUN_DEPTH: Final = 4
"""Runs that call agents that call agents."""

# --- state and storage (§6) ---
STATE_VALUE_BYTES: Final = 256 * KIB
"""One state value, as JSON."""
STATE_SCOPE_BYTES: Final = 4 * MIB
"""All state of one scope key."""
STATE_LIST_KEYS: Final = 100
"""Keys of one `state.list` or `storage.list` answer."""
STATE_SNAPSHOT_BYTES: Final = 64 * KIB
"""State inlined in a context; above it only the keys are."""
STATE_KEY_CHARACTERS: Final = 256
"""One state or storage key."""

# --- steering (§9) ---
STEERING_QUEUE: Final = 100
"""Messages queued for one run."""

# --- time (§8) ---
RUN_DEADLINE_S: Final = 300.0
"""Active time of a run, unless its agent says otherwise."""
RUN_IDLE_S: Final = 120.0
"""Time without a result and without a call in flight."""
CANCEL_GRACE_S: Final = 5.0
"""Time a cancelled runner has to end; then it is abandoned."""

# --- names (§2) ---
NAME_CHARACTERS: Final = 64
"""An author, plugin, runner or tool name."""
TEXT_CHARACTERS: Final = 4096
"""A label or description."""
RUNNERS_PER_PLUGIN: Final = 64
"""Runners of one plugin."""
TOOLS_PER_PLUGIN: Final = 256
"""Tools of one plugin."""
FORM_ITEMS: Final = 128
"""Items of one configuration form."""
COMMAND_WORDS: Final = 64
"""Words of the command that starts a worker."""
COMMAND_WORD_CHARACTERS: Final = 1024
"""One word of that command."""
SANDBOX_NAMES: Final = 64
"""Names that a plugin may reach over the network."""
SANDBOX_PATHS: Final = 16
"""Paths that a plugin may read, and paths that it may write."""
SANDBOX_PATH_CHARACTERS: Final = 1024
"""One of these paths."""
SANDBOX_MEMORY_MIB: Final = 1024 * 1024
"""The most memory that a manifest can ask for, in MiB."""
SANDBOX_CPUS: Final = 256
"""The most processors that a manifest can ask for."""
