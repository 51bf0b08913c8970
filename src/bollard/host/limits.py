"""Limits of the host, each with its unit. Those of the protocol are in `bollard.protocol.limits`.

Imports nothing: the journal process reads it, and is small.
"""

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# --- journal ---

JOURNAL_BATCH_RECORDS: Final = 512  # records and delta rows of one commit
JOURNAL_BATCH_BYTES: Final = 4 * MIB  # payload of one commit
JOURNAL_LINGER_S: Final = 0.005  # wait for further entries, while no caller waits for the batch
JOURNAL_QUEUE_ENTRIES: Final = 20_000  # entries that wait for the writer; more are refused
JOURNAL_QUEUE_BYTES: Final = 64 * MIB  # payload that waits for the writer; the entry that exceeds it is the last
JOURNAL_RETRY_S: Final = 0.25  # between two attempts of a commit that the store refused
JOURNAL_GIVE_UP_S: Final = 2.0  # after which a failing commit is given up and its waiters get the error
REFUSED_TRIES: Final = 5  # attempts to write the results of a run after unexpected store errors; then the run ends
JOURNAL_FULL_S: Final = 1.0  # between two checks whether a full disk has space again
JOURNAL_START_S: Final = 60.0
"""Start of the journal process. A process that exits is noticed at once; on a busy machine the imports alone take many
seconds."""
JOURNAL_LOCK_S: Final = 5.0  # until the journal of a host that was just killed has released its lock
JOURNAL_STOP_S: Final = 5.0  # until the journal process exits after its last write; then it is killed

# --- log, audit and witness ---

HEAD_RECORDS: Final = 1000  # records between two signed heads of a chain
HEAD_S: Final = 60.0  # between two signed heads of a chain
ENDS_CHAINS: Final = 1000  # chains of earlier starts whose ends are signed at a start; the others wait for the next
ENDS_RECORDS: Final = 50_000  # records that a start reads for that, in all chains together
TAIL_RECORDS: Final = 1000  # records at the end of the log that a start checks: as many as between two heads
TAIL_BYTES: Final = 16 * MIB  # data of these records; then no more are read
TAIL_PAGE: Final = 50  # of these records, read at once
TAIL_CHAINS: Final = 100  # chains whose newest heads a start checks
WITNESS_HANGS_S: Final = 10.0  # to accept a head; then the witness counts as down and the host continues
WITNESS_RETRY_S: Final = 1.0  # between two attempts to reach a witness that is down
WITNESS_CLOSE_S: Final = 2.0  # to accept the last heads when the host stops
WITNESS_START_S: Final = 15.0  # that a start waits for a required witness
WITNESS_NEWEST_BYTES: Final = 1 * MIB  # end of the witness that such a start reads: a few thousand heads
WITNESS_LINE_BYTES: Final = 64 * KIB  # longest line of a witness
WITNESS_REQUEST_BYTES: Final = 1 * MIB  # heads in one request to a witness
WITNESS_CATCH_UP: Final = 100  # newest heads of earlier starts that a start sends again
AUDIT_WINDOW: Final = 20_000  # records that one query of the audit searches
AUDIT_WINDOWS: Final = 5  # such queries for one page; then the page is shorter and its cursor continues
AUDIT_EXPORT_PAGE: Final = 500  # records of an export in memory at once
AUDIT_S: Final = 2.0  # to make a record durable before its action; otherwise the action is refused
ARCHIVE_SEGMENT_RECORDS: Final = 50_000  # records of one archived segment of a chain
PROOF_RECORDS: Final = 200_000  # records of a proof, including the headers between those of the run

# --- streams of runs ---

SUBSCRIBER_FRAMES: Final = 16_384  # frames that one reader may be behind; then it is cut with a cursor
SUBSCRIBER_BYTES: Final = 4 * MIB  # bytes that one reader may be behind
READERS_BYTES: Final = 256 * MIB  # unsent bytes of all readers, in buffers of streams and of connections
UNSENT_BYTES: Final = 1 * MIB  # unsent bytes of one connection in the kernel; the rest waits in the host and counts
REPLAY_PAGE: Final = 500  # records of a run that one query reads
DELTA_PAGE_ROWS: Final = 16  # delta rows that one query reads: searching further costs more than another query
REPLAY_PAGE_BYTES: Final = 1 * MIB  # deltas after which recovery reads no further row at once; a row has at most 4 MiB
STREAM_PAGE_BYTES: Final = 64 * KIB  # deltas, and records, that a reader of a run gets at once
STREAM_PAGES_AT_ONCE: Final = 2  # such pages read concurrently: readers of large runs must not block the store
RECORDS_PAGE_BYTES: Final = 4 * MIB  # records of a run that one query reads, or one page holds
DELTA_ROW_BYTES: Final = 64 * KIB  # a full delta row; smaller neighbours are merged into one
DELTA_FOLD_ROWS: Final = 256  # small delta rows that are merged however little they hold
RECOVERY_FOLD_BYTES: Final = 1 * MIB  # delta rows that recovery merges in one commit
GATHER_S: Final = 0.002  # that the first records of a stream wait for the first output of the run
KEEP_ALIVE_S: Final = 15.0  # without a record; then the stream sends a comment, so that proxies keep it open
CALLER_LOOK_S: Final = 1.0  # between two checks whether the callers of open streams and sockets are still admitted
STREAM_LOOK_S: Final = 15.0  # between two checks whether the reader of a stream may still see its run

# --- runs and events ---

RUN_OUTPUT_MIB: Final = 256
"""Default limit of the output of one run: its results, the host's records about it, and inline content. The host ends a
run that exceeds it."""
RUN_OUTPUT_MIB_MAX: Final = 65_536  # the largest value in the settings or of an agent
DRAFT_CHARACTERS: Final = 1 * MIB  # text kept to assemble one message that comes as deltas; the rest is counted
DRAFTS_CHARACTERS: Final = 4 * MIB  # texts and ids of all open messages of one run; a run with more is ended
DRAFTS_OF_RUN: Final = 1000  # open messages of one run; a run with more is ended
RUNS_AT_ONCE: Final = 512  # concurrent runs of this host; more wait in the queue
QUEUED_RUNS: Final = 10_000  # runs in the queue; more are refused with host.overloaded
QUEUED_RUNS_OF_CONVERSATION: Final = 500  # of these, runs of one conversation with all its threads
QUEUED_RUNS_OF_CALLER: Final = 5000  # of these, runs of one caller: an API key, a user, a channel
QUEUED_RUNS_OF_AGENT: Final = 7500  # of these, runs of one agent: more than one caller has, who could fill it alone
QUEUE_RETRY_S: Final = 5.0  # retry hint for a sender whose share of the queue is full
EVENT_BYTES: Final = 16 * MIB  # default for the body of one event or batch; data above EVENT_DATA_BYTES is an artifact
EVENT_DATA_BYTES: Final = 256 * KIB  # data of one event; more must come as an artifact
EVENT_DATA_DEPTH: Final = 48  # nesting of the data of one event: a frame may have 64, with the request around it
EVENT_DATA_VALUES: Final = 8000  # JSON values in the data of one event: a frame may have 10 000, with the request
EVENT_SUMMARY_KEYS: Final = 64  # values kept as data of an event whose payload became an artifact
EVENT_SUMMARY_BYTES: Final = 256  # the largest of these values
EVENT_EXTRA_BYTES: Final = 32 * KIB  # other content of an event, such as the extensions of a CloudEvent
EVENTS_IN_BATCH: Final = 500  # events in one request
FACT_RUNS: Final = 200  # newest runs of an agent in a conversation whose facts one page of events reads
EVENTS_AT_ONCE: Final = 32  # events of one batch that are accepted concurrently
LARGE_EVENTS_AT_ONCE: Final = 32  # bodies above BODY_BYTES that are received concurrently; more are refused
LARGE_EVENTS_OF_CHANNEL: Final = 4  # of these, bodies through the channels of one name
INPUT_TEXT_BYTES: Final = 256 * KIB  # text of one message
INPUT_CONTENTS_BYTES: Final = 256 * KIB  # contents of one message, without the files in them
MESSAGE_BODY_BYTES: Final = 12 * MIB  # body of a message to an agent: INLINE_FILES_BYTES as base64, and its text
ATTACHMENTS: Final = 32  # artifacts attached to one message
EVENT_DETAILS_BYTES: Final = 16 * KIB  # language, launcher, metadata of the actor and data of the subject
EVENT_NAME_CHARACTERS: Final = 512  # each name in an event: source, scope and actor
KEY_BYTES: Final = 1024
"""Each name in an event in UTF-8, and each key of state and storage: an index of PostgreSQL holds 2704 bytes, and an
event is found by two names."""
EVENT_TIME_MAX_S: Final = 253_402_300_799  # seconds of the epoch: the end of the year 9999, the last of RFC 3339
EVENT_HOPS: Final = 8  # agents that a chain of host events may start one after the other
RUNS_SEARCHED: Final = 10_000  # runs that one page of a list searches by source, actor or text
OVERVIEW_RUNS: Final = 10_000  # runs that one overview counts; the next one goes on
OVERVIEW_SAMPLE: Final = 50  # newest runs of an hour whose time to the first delta is measured
OVERVIEW_CACHED_HOURS: Final = 1000  # counted hours in memory, of all workspaces
OVERVIEW_HOURS: Final = 168  # longest time of an overview
OVERVIEW_WAITING: Final = 100  # waiting approvals and questions that an overview counts
DISK_LOW_BYTES: Final = 512 * MIB  # free space of the data directory below which an overview warns
VERIFICATION_REST: Final = 2.0  # a verification of the log rests this many times as long as it works
FEED_PAGE: Final = 100  # records that a follower of events reads at once
FEED_STREAM_PAGE: Final = 16  # records that the reader of a stream of events gets at once; each has up to 512 KiB
FEED_STRIDE: Final = 10_000  # records without an event after which a follower stores its position
FEED_ANSWER_CHARACTERS: Final = 16_000  # text of an answer in the event of its run; the rest is cut off
FEED_RETRY_S: Final = 5.0  # before a follower of events repeats what the host could not do
PARTICIPANT_EVENTS: Final = 200  # newest events of a conversation that are searched for a participant
LEASE_S: Final = 15.0  # ownership of a run without a renewal
LEASE_RENEW_S: Final = 5.0  # between two renewals
RUN_DEADLINE_MAX_S: Final = 24 * 3600.0  # longest active time that an agent may configure
AGENT_GONE_S: Final = 3600.0  # that a returned message waits for an agent that no longer exists; then it is dropped
PURGED_STATE_LISTED: Final = 200  # values named in the response to a purge of state; all are counted

# --- workers and plugins ---

WORKER_START_S: Final = 10.0  # from the start of the process to the response to initialize
WORKER_STOP_S: Final = 2.0  # to confirm a stop, beyond the grace of its runs; then the worker is killed
WORKER_CRASHES: Final = 5  # crashes within WORKER_CRASH_WINDOW_S that quarantine a plugin
WORKER_CRASH_WINDOW_S: Final = 60.0
WORKER_RESTART_S: Final = 0.2  # before a crashed worker is restarted; doubled with each crash in the window
VIOLATION_REPEAT_S: Final = 600.0  # between two records of the same violation by a plugin; repeats are counted
VIOLATION_RUNS: Final = 32  # run ids in the recorded violations of one plugin; those of further runs share a record
WORKER_MEMORY_BYTES: Final = 4 * 1024 * MIB  # memory of one worker process; the kernel refuses more
WORKER_ORPHAN_S: Final = 6.0  # in which a worker whose host died may end by itself; then it is killed
WORKER_FILES: Final = 4096  # open files of one worker process
PLUGIN_ARCHIVE_BYTES: Final = 100 * MIB  # an uploaded plugin
README_CHARACTERS: Final = 64_000  # of the README of a plugin; the rest is cut off
PLUGIN_UPLOADS: Final = 8  # concurrent uploads: each may take twice its size of the disk
PLUGIN_UPLOADS_OF_WORKSPACE: Final = 2  # of these, uploads of one workspace
PLUGIN_BYTES: Final = 100 * MIB  # all files of one plugin, unpacked
PLUGIN_ENTRIES: Final = 1000  # files and folders of one plugin
PLUGIN_RATIO: Final = 100  # unpacked size to packed size, of one file and of the whole archive
PLUGIN_RATIO_FREE_BYTES: Final = 64 * KIB  # unpacked size at which no ratio applies: blanks pack to nothing
PLUGIN_NAME_BYTES: Final = 512  # whole name of one file of a plugin
PLUGIN_DIRECTORY_BYTES: Final = 2 * MIB  # table of contents of an archive
PLUGIN_VERSIONS: Final = 5  # versions of one plugin that are kept for a rollback
PLUGINS_PER_WORKSPACE: Final = 200  # plugins installed in one workspace
PLUGIN_LOG_LINES: Final = 2000  # log lines kept of the workers of one plugin
PLUGIN_LOG_BYTES: Final = 1 * MIB  # characters of these lines
PLUGIN_LOG_READERS: Final = 32  # readers that follow the log of one plugin
PLUGIN_DEV_S: Final = 60.0  # that a plugin under development stays without a sign of its developer's command
CATALOGUE_BYTES: Final = 1 * MIB  # index file of a catalogue
CATALOGUE_ITEMS: Final = 250  # items of one catalogue
CATALOGUE_TAGS: Final = 16  # tags of one item
CATALOGUE_README_BYTES: Final = 64 * KIB  # README of one item
CATALOGUE_FETCHES: Final = 4  # concurrent fetches of files: each is in memory as a whole
CATALOGUE_FRESH_S: Final = 300.0  # that a fetched index is used before it is fetched again
CATALOGUE_RETRY_S: Final = 15.0  # after a failed fetch
RUNTIMES_OF_WORKSPACE: Final = 100  # remote runtimes enrolled in one workspace
RUNTIME_CODE_S: Final = 15 * 60.0  # validity of a one-time code that enrols a runtime
RUNTIME_CODES: Final = 100  # unused codes of one workspace
RUNTIME_CHALLENGE_S: Final = 30.0  # validity of a challenge, which can be signed once
RUNTIME_CONNECTS_PER_MINUTE: Final = 30  # connections of one runtime; the burst is half of it
RUNTIME_ALIVE_S: Final = 2.0  # for a connected runtime to respond when its key connects again; then it is replaced

# --- housekeeping, telemetry and readiness ---

HOUSEKEEPING_S: Final = 600.0  # between two sweeps of expired data
HOUSEKEEPING_FIRST_S: Final = 30.0
"""From a start to the first sweep, and up to as much again at random: hosts that start together do not sweep together,
and a host that restarts often sweeps all the same."""
SPANS_WAITING: Final = 8192  # spans queued for the collector; more are dropped and counted
SPANS_AT_ONCE: Final = 256  # spans of one request: encoding them must not block the loop
SPAN_FLUSH_S: Final = 2.0  # that a span waits for others
SPAN_SEND_S: Final = 5.0  # to send a batch, with all attempts
SPAN_RETRY_S: Final = 1.0  # before a batch that the collector refused is sent again
SPAN_STOP_S: Final = 2.0  # that a stopping host waits for the last spans
READY_PROBE_S: Final = 2.0  # for the journal and the store to respond to a probe
READY_KEPT_S: Final = 1.0  # for which the result of a probe is reused: probes are open to every client
STALL_S: Final = 5.0
"""That a request waits for a journal or a store that does not respond; then the next probe answers it with
`storage_stalled`. Longer than `READY_PROBE_S`: the probe begins before the time is over."""

# --- HTTP ---

REQUEST_HEAD_S: Final = 10.0  # from the first byte of a request, or from a new connection, to the end of its head
REQUEST_HEAD_BYTES: Final = 32 * KIB  # head of one request
REQUEST_HEADERS: Final = 100  # header lines of one request
BODY_BYTES_PER_S: Final = 1 * KIB  # least average rate of a body over BODY_WINDOW_S
BODY_WINDOW_S: Final = 10.0  # between two checks of that rate; the first window is the grace of a slow start
CONNECTION_IDLE_S: Final = 75.0  # between two requests: longer than the minute for which proxies keep a connection
DRAIN_S: Final = 30.0  # for a reader to take its unsent data (64 KiB); then its connection is cut
LINGER_S: Final = 2.0  # that a refused connection is still read, so that the client can read the refusal
UNASKED_BYTES: Final = 256 * KIB  # unread data of a connection, such as the rest of a refused body; then it is cut
CONNECTIONS: Final = 12_000  # open connections
CONNECTIONS_PER_ADDRESS: Final = 1000  # connections of one address; this machine and trusted proxies are exempt
REQUESTS_PER_MINUTE: Final = 300_000  # requests of one identity; the burst is a sixth of it
REQUESTS_AT_ONCE: Final = 11_000  # concurrent requests of one identity, including open streams
STRANGER_REQUESTS_PER_MINUTE: Final = 600  # requests without a valid token from one address; the burst is half of it
SOCKET_MESSAGE_BYTES: Final = 2 * MIB  # one WebSocket message from a client: the largest frame of a worker connection
SOCKET_PING_S: Final = 20.0  # between two pings of a WebSocket, and to answer one
SOCKET_CLOSE_S: Final = 1.0  # for the peer of a WebSocket to close; then the connection is cut
CONSOLE_FILE_BYTES: Final = 8 * MIB  # largest file of the console that is served
CONSOLE_PROGRESS_BYTES: Final = 16 * KIB  # of the progress of a build of the console that are read
TICKET_S: Final = 30.0  # validity of a stream ticket
TICKETS: Final = 10_000  # unused stream tickets; more are refused
TICKETS_OF_CALLER: Final = 1000  # of these, tickets of one caller
RENEWABLE_TICKET_S: Final = 12 * 3600.0  # lifetime of a renewable stream ticket
RENEWABLE_TICKET_IDLE_S: Final = 300.0  # until a renewable ticket without an open stream ends
RENEWABLE_TICKETS: Final = 10_000  # renewable tickets; more are refused
RENEWABLE_TICKETS_OF_CALLER: Final = 100  # of these, tickets of one caller
KEPT_ANSWER_S: Final = 24 * 3600.0  # for which the response to a request with an Idempotency-Key is saved
KEPT_ANSWER_BYTES: Final = 256 * KIB  # largest saved response; of a larger one the host saves only that it was sent
ANSWERS_IN_FLIGHT: Final = 10_000  # concurrent requests with an Idempotency-Key; more are refused

# --- identity and secrets ---

PASSWORD_LEAST_CHARACTERS: Final = 10  # shortest password
PASSWORD_CHARACTERS: Final = 256  # longest password
PASSWORDS_AT_ONCE: Final = 2  # passwords hashed concurrently: each takes 64 MiB and a tenth of a second of a core
PASSWORDS_WAITING: Final = 64  # passwords that wait to be hashed; more are refused
LOGINS_PER_MINUTE: Final = 6  # login attempts for one user from one address
LOGINS_OF_ADDRESS_PER_MINUTE: Final = 30  # login attempts from one address, for all users
LOGINS_OF_USER_PER_MINUTE: Final = 60  # login attempts for one user, from all addresses
SESSION_S: Final = 7 * 24 * 3600.0  # lifetime of a session, used or not
SESSIONS_OF_USER: Final = 20  # sessions of one user, key or admin token; a new one ends the oldest
SIGN_IN_TICKET_S: Final = 600.0  # validity of a sign-in ticket
SIGN_IN_TICKETS: Final = 1000  # unused sign-in tickets; more are refused
SIGN_IN_TICKETS_OF_OWNER: Final = 5  # of these, tickets of one user, key or admin token; a new one replaces the oldest
KEY_USE_S: Final = 60.0  # between two records of the last use of a key
KEY_LIFE_S: Final = 90 * 24 * 3600.0  # default lifetime of a key
KEY_LIFE_MAX_S: Final = 5 * 366 * 24 * 3600.0  # longest lifetime of a key
USERS_OF_WORKSPACE: Final = 10_000  # users of one workspace
KEYS_OF_WORKSPACE: Final = 1000  # API keys of one workspace
ACTORS_OF_WORKSPACE: Final = 100_000  # channel actors linked to users of one workspace
WORKSPACES: Final = 1000  # workspaces of one host, including deleted ones
SECRETS_OF_WORKSPACE: Final = 1000  # secrets of one workspace
SECRET_CHARACTERS: Final = 8192  # longest secret
SECRETS_BYTES: Final = 64 * KIB  # values of all secrets of one workspace: every text is searched for each form
FORMER_CHARACTERS: Final = 32 * KIB  # former values that are still searched for; beyond it the oldest are dropped
SECRET_LEAST_CHARACTERS: Final = 6  # a shorter value is a word: masking it would mask half of every text
SECRET_GAP_CHARACTERS: Final = 16  # between two digits of a secret in hex or base64, such as a line end with an indent

# --- channels ---

WEBHOOK_SKEW_S: Final = 300.0  # between the time of a signed request and the host's own
LINK_CODE_S: Final = 600  # life of a code that links an actor to a user
LINK_CODES_PER_MINUTE: Final = 5  # codes that one sender makes or redeems
ROOMS_IN_MEMORY: Final = 10_000  # conversations of channels whose present is in memory
MENTIONS: Final = 100  # bots and actors that one message mentions
CHANNELS_OF_WORKSPACE: Final = 100  # channels of one workspace
BOTS_OF_WORKSPACE: Final = 100  # bots of one workspace
CHANNEL_ANSWER_S: Final = 15.0  # to connect to the program behind a channel and read its response
CHANNEL_ANSWER_BYTES: Final = 64 * KIB  # body of its response that is read
LAZY_FILE_BYTES: Final = 16 * MIB  # one file that a channel keeps until it is read
DELIVERIES_OF_CHANNEL: Final = 500  # messages for one channel in memory; the others wait on disk
DELIVERIES_AT_ONCE: Final = 128  # messages sent to channels concurrently
DELIVERIES_OF_CHANNEL_AT_ONCE: Final = 8  # of these, messages to one channel
DELIVERY_AGE_S: Final = 24 * 3600  # that a message waits for its channel: an answer of yesterday is not sent
DELIVERY_ATTEMPTS: Final = 8  # attempts to send one message; then it has failed
DELIVERY_WAIT_S: Final = 1.0  # before the second attempt; doubled with each
DELIVERY_WAIT_MAX_S: Final = 300.0  # before the next attempt after a defect of the host
DELIVERY_RETRY_AFTER_S: Final = 3600.0  # longest wait that a receiver may request with Retry-After
DELIVERY_LOOK_S: Final = 5.0  # between two searches of the store for messages without a notification

# --- subscriptions ---

SUBSCRIPTIONS_OF_WORKSPACE: Final = 50  # outgoing webhooks of one workspace
SUBSCRIPTION_NAMES: Final = 100  # types, agents, conversations or sources that one subscription names
SUBSCRIPTION_OPEN: Final = 1000  # undelivered events of one subscription; more have failed at once
SUBSCRIPTION_AT_ONCE: Final = 4  # requests to one receiver concurrently
WEBHOOKS_AT_ONCE: Final = 64  # requests to all receivers concurrently
SUBSCRIPTION_FAILING_S: Final = 3 * 24 * 3600  # without a delivered event while others fail; then it is switched off
SUBSCRIPTION_RECENT: Final = 50  # ended deliveries of one subscription that are shown

# --- files, backups and skills ---

FILE_BYTES: Final = 100 * MIB  # one file of a workspace
FILES_OF_WORKSPACE: Final = 1000  # files of one workspace: their metadata is in memory
FILE_NAME_CHARACTERS: Final = 255  # name of a file, and its media type
MESSAGE_FILE_BYTES: Final = 100 * MIB  # one file of a message
INLINE_FILES_BYTES: Final = 8 * MIB  # all files of one message that are in its body; larger ones are uploaded
UPLOADS_OF_CALLER: Final = 16  # unfinished uploads of one caller
UPLOAD_LIFE_S: Final = 24 * 3600.0  # that an unfinished upload, and an upload that no message uses, is kept
ARCHIVE_MEMBERS: Final = 2_000_000  # members of one backup or export: each content is one
ARCHIVE_BYTES: Final = 1 << 40  # all members of one backup or export, unpacked
ARCHIVE_DIRECTORY_BYTES: Final = 256 * MIB  # table of contents of a backup or export
ARCHIVE_MANIFEST_BYTES: Final = 64 * MIB  # manifest of a backup or export
ARCHIVE_SIGNATURE_BYTES: Final = 4 * KIB  # signature of a backup or export
ARCHIVE_LINE_BYTES: Final = 64 * MIB  # one row of a backup or export
ARCHIVE_KEY_BYTES: Final = 64 * KIB  # one key file of a backup
ARCHIVE_FILES: Final = 100_000  # files of a backup besides the database and the contents
SKILL_BYTES: Final = 512 * KIB  # all files of one skill
SKILL_TEXT_BYTES: Final = 64 * KIB  # SKILL.md of a skill, which an activation reads at once
SKILL_FILES: Final = 64  # files of one skill
SKILL_PATH_CHARACTERS: Final = 200  # name of a file of a skill, with its folders
SKILL_READ_BYTES: Final = 64 * KIB  # part of a file of a skill that one call reads
SKILL_VERSIONS: Final = 10  # versions of a skill that are kept besides the current one
SKILLS_OF_WORKSPACE: Final = 256  # skills of one workspace, without those of its plugins
SKILLS_OF_PLUGIN: Final = 64  # skills of one plugin

# --- egress ---

EGRESS_REDIRECTS: Final = 5  # redirects of one request
EGRESS_CONNECT_S: Final = 10.0  # to resolve a name and connect
EGRESS_ANSWER_S: Final = 60.0  # one request in all
EGRESS_BODY_BYTES: Final = 8 * MIB  # body of a response
EGRESS_HEAD_BYTES: Final = 128 * KIB  # head of a response
EGRESS_HEADERS: Final = 64  # headers of one request
EGRESS_HEADER_CHARACTERS: Final = 8192  # longest value of one header of a request
EGRESS_URL_CHARACTERS: Final = 4096  # longest URL
EGRESS_AT_ONCE: Final = 256  # concurrent requests
EGRESS_LOOKUPS: Final = 16  # concurrent name lookups; more wait, within their time
EGRESS_ADDRESSES: Final = 4  # addresses of one name that are tried
EGRESS_FRAMING: Final = 8  # bytes on the wire for each byte of a body: one that is sent alone needs six
EGRESS_KEPT_CONNECTIONS: Final = 16  # idle connections to one destination; more are closed
EGRESS_KEPT_S: Final = 30.0  # that an idle connection is kept
EGRESS_SETTLE_S: Final = 1.0  # for the end of a response after its last content; then its connection is not kept

# --- proxy of workers ---

WORKER_PROXY_CONNECTIONS: Final = 256  # of one plugin in one workspace; more are refused
WORKER_PROXY_CONNECTIONS_ALL: Final = 1024  # of all plugins together; each has a descriptor on both sides
WORKER_PROXY_BACKLOG: Final = 256  # connections that wait to be accepted
WORKER_PROXY_HEAD_S: Final = 10.0  # to receive the head of a request
WORKER_PROXY_HEAD_BYTES: Final = 32 * KIB  # head of a request or a response
WORKER_PROXY_HEADERS: Final = 128  # headers of a request or a response
WORKER_PROXY_CHUNK_LINE_BYTES: Final = 256  # the line with the size of a chunk
WORKER_PROXY_PIECE_BYTES: Final = 64 * KIB  # read at once; as much waits in each direction before reading stops
WORKER_PROXY_IDLE_S: Final = 300.0  # without a byte in either direction; then the connection is closed
WORKER_PROXY_HALF_CLOSED_S: Final = 60.0  # the same after one side has ended its direction
WORKER_PROXY_CLOSE_S: Final = 5.0  # for the last bytes of a connection to leave
WORKER_PROXY_S: Final = 24 * 3600.0  # longest connection
WORKER_PROXY_BYTES: Final = 16 * 1024 * MIB  # of one connection in both directions
WORKER_PROXY_REPEAT_S: Final = 10.0  # between two records of equal connections of a plugin; repeats are summed
WORKER_PROXY_TALLIES: Final = 256  # names in the unwritten records of one plugin; those of further names share a record

# --- capabilities and tools ---

AGENT_WARNINGS: Final = 20  # warnings about one agent in an answer
GRAPH_BYTES: Final = 8 * MIB  # definitions of all tools of one run
GRAPH_CACHE_ENTRIES: Final = 1024  # capability graphs in memory: one for each agent in use
QUESTIONS_OF_RUN: Final = 8  # open questions of one run to its user
ANSWER_CHARACTERS: Final = 20_000  # longest answer to such a question
APPROVALS_OF_RUN: Final = 16  # open approvals of one run
APPROVALS_OF_WORKSPACE: Final = 1000  # open approvals of one workspace
APPROVAL_BYTES_OF_WORKSPACE: Final = 32 * MIB  # open approvals of one workspace, which are all in memory
APPROVERS_SHOWN: Final = 100  # people to whom a channel shows an approval in private
DETACHED_AT_ONCE: Final = 8  # concurrent approved calls of runs that have ended
DETACHED_WAIT_S: Final = 60.0  # that such a call waits after a start for its plugin or server
ACTION_ARGUMENTS_BYTES: Final = 256 * KIB  # arguments in the record of a call; of larger ones it has digest and size
ACTION_RESULT_BYTES: Final = 64 * KIB  # output in the record and the response of a call; more becomes an artifact
ACTION_PREVIEW_CHARACTERS: Final = 2000  # preview of an output that became an artifact
ACTION_OUTPUT_BYTES: Final = 16 * MIB  # output of one call
ACTIONS_PER_RUN: Final = 10_000  # calls of one run
ACTION_OUTCOMES_KEPT: Final = 4  # outcomes of one run in memory for repeats; older ones are read from the store
VALIDATORS_KEPT: Final = 1000  # compiled schemas for arguments
SCHEMA_STEPS: Final = 10_000  # subschemas that one value is checked against: endless recursion is refused
PATTERN_BYTES: Final = 1 * MIB  # a compiled pattern of a schema
SOURCE_CALLS_PER_MINUTE: Final = 1200  # average calls of one workspace to one source outside of this process
SOURCE_CALLS_BURST: Final = 200
BUDGET_ACCOUNTS: Final = 50_000  # actors, agents and workspaces whose daily spending is counted
WORKSPACE_KEPT_S: Final = 24 * 3600.0  # that the files of a run are kept after their last use
PROGRAMS_AT_ONCE: Final = 8  # concurrent programs of runs; more wait in order
PROGRAM_DISK_FREE_BYTES: Final = 256 * MIB  # least free space for programs: deleted files that are open count nowhere
PROGRAM_OUTPUT_BYTES: Final = 256 * KIB  # kept beginning of each of the two outputs of a program
COMMAND_CHARACTERS: Final = 32_768  # command line of one program
FOUND_LINES: Final = 500  # results of one search for names or lines
FILE_LINES: Final = 2000  # lines of a file that one call reads
DOCUMENT_CHARACTERS: Final = 50_000  # text of an attached document that one call reads
TOOL_TEXT_CHARACTERS: Final = 1_000_000  # text that one call writes to a file or an artifact
EXPRESSION_CHARACTERS: Final = 1000  # one expression of the calculator
EXPRESSION_DEPTH: Final = 50  # nested brackets of an expression
