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
"""Payload bytes that may wait for the writer; the entry that goes beyond it is the last that is taken."""
JOURNAL_RETRY_S: Final = 0.25
"""Time between two tries of a commit that the store could not take."""
JOURNAL_GIVE_UP_S: Final = 2.0
"""Time after which a commit that cannot be made is given up and its waiters are told."""
REFUSED_TRIES: Final = 5
"""Tries to write what a run sent where the store fails in a way that nobody foresaw; then the run is ended."""
JOURNAL_FULL_S: Final = 1.0
"""Time between two looks whether a full disk has space again."""
JOURNAL_START_S: Final = 60.0
"""Time the journal process may take to be ready; one that ended is noticed at once. On a machine that is busy with
other things, the imports alone take many seconds."""
JOURNAL_LOCK_S: Final = 5.0
"""Time the journal of a host that was just killed may need to be gone."""
JOURNAL_STOP_S: Final = 5.0
"""Time the journal process may take to end once everything is on disk; then it is killed."""
HEAD_RECORDS: Final = 1000
"""Records after which a chain's head is signed."""
HEAD_S: Final = 60.0
"""Time after which a chain's head is signed."""
ENDS_CHAINS: Final = 1000
"""Chains of earlier starts whose ends are signed at a start; the others wait for the next one."""
ENDS_RECORDS: Final = 50_000
"""Records that are followed for that, in all chains together; a chain has a thousand and a commit at most."""
TAIL_RECORDS: Final = 1000
"""Records at the end of the log that a start looks at: as many as lie between two signed heads."""
TAIL_BYTES: Final = 16 * MIB
"""Their data after which no more of them are read."""
TAIL_PAGE: Final = 50
"""Of these records, how many are read at once."""
TAIL_CHAINS: Final = 100
"""Chains whose newest heads a start looks at."""
WITNESS_HANGS_S: Final = 10.0
"""Time that a witness may take for a head; then it is down, and the host goes on."""
WITNESS_RETRY_S: Final = 1.0
"""Time between two tries to reach a witness that is down."""
WITNESS_CLOSE_S: Final = 2.0
"""Time that a witness has to take the last heads when the host stops."""
WITNESS_START_S: Final = 15.0
"""Time that a start waits for a witness that is demanded."""
WITNESS_NEWEST_BYTES: Final = 1 * MIB
"""The end of a witness that such a start reads: a few thousand heads."""
WITNESS_LINE_BYTES: Final = 64 * KIB
"""The longest line that is read of a witness."""
WITNESS_REQUEST_BYTES: Final = 1 * MIB
"""Heads that one request to a witness carries."""
WITNESS_CATCH_UP: Final = 100
"""Newest heads of earlier starts that a witness is told again at a start."""
AUDIT_WINDOW: Final = 20_000
"""Records among which the store looks at once for those that a reader of the audit wants."""
AUDIT_WINDOWS: Final = 5
"""Such looks for one page; then the page is shorter, and its cursor goes on."""
AUDIT_EXPORT_PAGE: Final = 500
"""Records of an export that are in memory at once."""
ARCHIVE_SEGMENT_RECORDS: Final = 50_000
"""Records of one archived segment of a chain."""
PROOF_RECORDS: Final = 200_000
"""Records of a proof, with the headers between those of the run."""
SUBSCRIBER_FRAMES: Final = 16_384
"""Frames that one stream reader may be behind; then it is cut with a cursor."""
SUBSCRIBER_BYTES: Final = 4 * MIB
"""Bytes that one stream reader may be behind."""
READERS_BYTES: Final = 256 * MIB
"""Bytes that wait for all readers together, in buffers of streams and of connections; beyond it readers are cut."""
UNSENT_BYTES: Final = 1 * MIB
"""Bytes of one connection that the kernel holds before they are sent; the rest waits in the host, where it counts."""
REPLAY_PAGE: Final = 500
"""Records of a run that are read from the store at once."""
DELTA_PAGE_ROWS: Final = 16
"""Rows of deltas that are read from the store at once: to look at more costs more than to ask again."""
REPLAY_PAGE_BYTES: Final = 1 * MIB
"""Bytes of deltas after which recovery reads no further row of them at once; one row is 4 MiB at most."""
STREAM_PAGE_BYTES: Final = 64 * KIB
"""Bytes of deltas, and of records, after which a reader of a run is given no further one at once."""
RECORDS_PAGE_BYTES: Final = 4 * MIB
"""Bytes of a run's records after which no further one is read at once, or answered in one page."""
RUN_OUTPUT_MIB: Final = 256
"""MiB that one run may record, unless the settings say otherwise: results, what the host writes beside them, and the
content that comes inside results. A run with more is ended."""
RUN_OUTPUT_MIB_MAX: Final = 65_536
"""The most that the settings or an agent may say."""
DELTA_ROW_BYTES: Final = 64 * KIB
"""Bytes with which a row of deltas is full: none larger is begun, and smaller neighbours are folded into one."""
DELTA_FOLD_ROWS: Final = 256
"""Small rows of deltas that are folded into one however little they hold."""
RECOVERY_FOLD_BYTES: Final = 1 * MIB
"""Bytes of delta rows that recovery folds in one commit."""
STREAM_PAGES_AT_ONCE: Final = 2
"""Such pages that are read at the same time: many readers of large runs must not keep others from the store."""
DRAFT_CHARACTERS: Final = 1 * MIB
"""Text of one message that only comes as deltas which is kept to assemble it; the rest is counted."""
DRAFTS_CHARACTERS: Final = 4 * MIB
"""Texts and ids of all such messages of one run that are open at once; a run with more is ended."""
DRAFTS_OF_RUN: Final = 1000
"""Such messages of one run that are open at once; a run with more is ended."""
RUNS_AT_ONCE: Final = 512
"""Runs that this host executes at the same time; more wait in the queue."""
QUEUED_RUNS: Final = 10_000
"""Runs that may wait; more are refused with host.overloaded."""
QUEUED_RUNS_OF_CONVERSATION: Final = 500
"""Those of them that one conversation may have, all its threads together."""
QUEUED_RUNS_OF_CALLER: Final = 5000
"""Those of them that one caller may have: an API key, a user, a channel."""
QUEUED_RUNS_OF_AGENT: Final = 7500
"""Those of them that one agent may have: more than one caller, who would fill it for the others."""
QUEUE_RETRY_S: Final = 5.0
"""Time after which a sender whose share of the queue is full may try again."""
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
KEY_BYTES: Final = 1024
"""Each of them in UTF-8, and each key of state and storage: PostgreSQL finds nothing by more than 2704 bytes, and an
event is found by two of them."""
EVENT_TIME_MAX_S: Final = 253_402_300_799
"""The latest time of an event, seconds of the epoch: the end of the year 9999, the last that RFC 3339 can write."""
LEASE_S: Final = 15.0
"""Time a run is owned without a renewal."""
LEASE_RENEW_S: Final = 5.0
"""Time between two renewals."""
WORKER_START_S: Final = 10.0
"""Time a worker may take from its process start to its answer to initialize."""
AGENT_GONE_S: Final = 3600.0
"""Time that a message which a run gave back waits for an agent that nobody has any more; then it is dropped."""
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
"""Time between two sweeps of what is too old or has expired."""
HOUSEKEEPING_FIRST_S: Final = 30.0
"""Time after a start before the first sweep, and up to as much again by chance: hosts that start together do not sweep
together, and a host that is restarted often sweeps all the same."""
WORKER_MEMORY_BYTES: Final = 4 * 1024 * MIB
"""Memory that one worker process may allocate; more is refused by the kernel."""
WORKER_FILES: Final = 4096
"""Files that one worker process may have open."""
SPANS_WAITING: Final = 8192
"""Spans that may wait for the collector; more are dropped and counted."""
SPANS_AT_ONCE: Final = 256
"""Spans that are sent together: few enough that writing them out does not hold up the loop."""
SPAN_FLUSH_S: Final = 2.0
"""Time that a span may wait for company."""
SPAN_SEND_S: Final = 5.0
"""Time that a collector may take for a batch, all tries together."""
SPAN_RETRY_S: Final = 1.0
"""Time after which a batch is sent again that the collector could not take."""
SPAN_STOP_S: Final = 2.0
"""Time that a host which stops waits for the last spans to leave."""
READY_PROBE_S: Final = 2.0
"""Time that the journal and the store may take to answer whether they are there."""
READY_KEPT_S: Final = 1.0
"""Time for which that answer is given again: everybody may ask, and asking must be cheap."""
STALL_S: Final = 5.0
"""Time that a request waits for a journal or a store that does not answer; then it is answered with `storage_stalled`,
at the next probe. Longer than `READY_PROBE_S`: the probe begins before the time is over."""
TICKET_S: Final = 30.0
"""Time in which a stream ticket can be used."""
TICKETS: Final = 10_000
"""Stream tickets that may wait to be used; more are refused."""
TICKETS_OF_CALLER: Final = 1000
"""Of these, how many one caller may have."""
KEPT_ANSWER_S: Final = 24 * 3600.0
"""Time for which the answer to a request with an Idempotency-Key is given again."""
KEPT_ANSWER_BYTES: Final = 256 * KIB
"""The largest answer that is given again; of a larger one it is only known that it was given."""
ANSWERS_IN_FLIGHT: Final = 10_000
"""Requests with an Idempotency-Key that may be answered at once; more are refused."""
PLUGIN_ARCHIVE_BYTES: Final = 100 * MIB
"""A plugin as it is uploaded."""
PLUGIN_UPLOADS: Final = 8
"""Plugins that may be on their way in at once: each may take twice its size of the disk."""
PLUGIN_UPLOADS_OF_WORKSPACE: Final = 2
"""Those of them that one workspace may have."""
PLUGIN_BYTES: Final = 100 * MIB
"""All files of one plugin together, unpacked."""
PLUGIN_ENTRIES: Final = 1000
"""Files and folders of one plugin."""
PLUGIN_RATIO: Final = 100
"""How many times larger a file of an archive, or all of them, may become by unpacking."""
PLUGIN_RATIO_FREE_BYTES: Final = 64 * KIB
"""What a file of an archive may become whatever its ratio: a short file of blanks packs to nothing."""
PLUGIN_NAME_BYTES: Final = 512
"""The whole name of one file of a plugin."""
PLUGIN_DIRECTORY_BYTES: Final = 2 * MIB
"""The table of contents of an archive."""
PLUGIN_VERSIONS: Final = 5
"""Versions of one plugin that are kept to go back to."""
PLUGINS_PER_WORKSPACE: Final = 200
"""Plugins that one workspace may have installed."""
PLUGIN_LOG_LINES: Final = 2000
"""Lines that are kept of what the workers of one plugin said."""
PLUGIN_LOG_BYTES: Final = 1 * MIB
"""Characters of those lines together."""
PLUGIN_LOG_READERS: Final = 32
"""Readers that may follow the log of one plugin."""
PLUGIN_DEV_S: Final = 60.0
"""Time that a plugin under development stays when its developer's command is not heard of."""
ARCHIVE_MEMBERS: Final = 2_000_000
"""Members of one backup or export: each content is one."""
ARCHIVE_BYTES: Final = 1 << 40
"""What all members of one backup or export may hold together, unpacked."""
ARCHIVE_DIRECTORY_BYTES: Final = 256 * MIB
"""The table of contents of a backup or export."""
ARCHIVE_MANIFEST_BYTES: Final = 64 * MIB
"""What a backup or export says of itself."""
ARCHIVE_SIGNATURE_BYTES: Final = 4 * KIB
"""The signature of a backup or export."""
ARCHIVE_LINE_BYTES: Final = 64 * MIB
"""One row of a backup or export."""
ARCHIVE_KEY_BYTES: Final = 64 * KIB
"""One key file of a backup."""
ARCHIVE_FILES: Final = 100_000
"""Files beside the database and the contents that a backup takes along."""
REQUEST_HEAD_S: Final = 10.0
"""Time from the first byte of a request, or from a new connection, to the end of its head."""
REQUEST_HEAD_BYTES: Final = 32 * KIB
"""The head of one request."""
REQUEST_HEADERS: Final = 100
"""Header lines of one request."""
BODY_BYTES_PER_S: Final = 1 * KIB
"""What a request's body must bring on average over `BODY_WINDOW_S`, until it is whole."""
BODY_WINDOW_S: Final = 10.0
"""Time between two looks at how much of a body came; the first is the grace of a slow start."""
CONNECTION_IDLE_S: Final = 75.0
"""Time between two requests after which a connection is closed: longer than the minute that proxies keep one."""
DRAIN_S: Final = 30.0
"""Time in which a reader must take what is kept back for it (64 KiB); then its connection is cut."""
LINGER_S: Final = 2.0
"""Time for which a connection that was refused is still listened to, so that the refusal is read."""
UNASKED_BYTES: Final = 256 * KIB
"""What a connection may send that nobody reads, such as the rest of a refused body; then it is cut."""
CONNECTIONS: Final = 12_000
"""Connections that may be open at once."""
CONNECTIONS_PER_ADDRESS: Final = 1000
"""Connections of one address; this machine and trusted proxies have no limit of their own."""
REQUESTS_PER_MINUTE: Final = 300_000
"""Requests of one identity; a sixth of that may come at once."""
REQUESTS_AT_ONCE: Final = 11_000
"""Requests of one identity that may be unanswered at once, open streams among them."""
STRANGER_REQUESTS_PER_MINUTE: Final = 600
"""Requests without a valid token from one address; half of that may come at once."""
SOCKET_MESSAGE_BYTES: Final = 2 * MIB
"""One message that comes over a WebSocket: the largest frame of a runtime's channel."""
SOCKET_PING_S: Final = 20.0
"""Time between two pings of a WebSocket, and time to answer one."""
PASSWORD_LEAST_CHARACTERS: Final = 10
"""The shortest password."""
PASSWORD_CHARACTERS: Final = 256
"""The longest password."""
PASSWORDS_AT_ONCE: Final = 2
"""Passwords that are hashed at the same time: each takes 64 MiB and a tenth of a second of a core."""
PASSWORDS_WAITING: Final = 64
"""Passwords that may wait to be hashed; more are refused."""
LOGINS_PER_MINUTE: Final = 6
"""Tries to log in as one user from one address."""
LOGINS_OF_ADDRESS_PER_MINUTE: Final = 30
"""Tries to log in from one address, as whoever."""
LOGINS_OF_USER_PER_MINUTE: Final = 60
"""Tries to log in as one user, from wherever."""
SESSION_S: Final = 7 * 24 * 3600.0
"""Time after which a session ends, used or not."""
SESSIONS_OF_USER: Final = 20
"""Sessions that one user may have; the oldest ends for a new one."""
KEY_USE_S: Final = 60.0
"""Time between two notes of when a key was last used."""
KEY_LIFE_S: Final = 90 * 24 * 3600.0
"""Time after which a key expires where nothing else is said."""
KEY_LIFE_MAX_S: Final = 5 * 366 * 24 * 3600.0
"""The longest time after which a key may expire."""
USERS_OF_WORKSPACE: Final = 10_000
"""Users that one workspace may have."""
KEYS_OF_WORKSPACE: Final = 1000
"""API keys that one workspace may have."""
ACTORS_OF_WORKSPACE: Final = 100_000
"""Actors of channels that may be linked to users of one workspace."""
WORKSPACES: Final = 1000
"""Workspaces of one host, those that were deleted included."""
EVENT_BYTES: Final = 16 * MIB
"""The body of one event or of a batch, unless the settings say otherwise; what is no small data becomes an artifact."""
EVENT_SUMMARY_KEYS: Final = 64
"""Values that are kept as data of an event whose payload became an artifact."""
EVENT_SUMMARY_BYTES: Final = 256
"""The largest of these values."""
EVENT_EXTRA_BYTES: Final = 32 * KIB
"""What an event brings beside its data, such as the extensions of a CloudEvent."""
EVENTS_IN_BATCH: Final = 500
"""Events that come in one request."""
EVENTS_AT_ONCE: Final = 32
"""Events of one batch that are taken at the same time."""
FILE_BYTES: Final = 100 * MIB
"""One file of a workspace."""
FILES_OF_WORKSPACE: Final = 1000
"""Files of one workspace: what is known of each is in memory."""
FILE_NAME_CHARACTERS: Final = 255
"""The name of a file, and its media type."""
PURGED_STATE_LISTED: Final = 200
"""Values that the answer to a purge of state names; all are counted."""
LARGE_EVENTS_AT_ONCE: Final = 32
"""Bodies beyond `BODY_BYTES` that are received at the same time; more are refused."""
LARGE_EVENTS_OF_CHANNEL: Final = 4
"""Those of them that come through the channels of one name."""
WEBHOOK_SKEW_S: Final = 300.0
"""How far the time of a signed request may be from the host's own."""
CHANNELS_OF_WORKSPACE: Final = 100
"""Channels that one workspace may have."""
CHANNEL_ANSWER_S: Final = 15.0
"""Time to reach the program behind a channel and to have its answer."""
CHANNEL_ANSWER_BYTES: Final = 64 * KIB
"""What is read of the body of its answer."""
DELIVERIES_OF_CHANNEL: Final = 500
"""Messages for one channel that are held in memory; the others wait on disk."""
DELIVERIES_AT_ONCE: Final = 128
"""Messages that are sent to channels at the same time."""
DELIVERIES_OF_CHANNEL_AT_ONCE: Final = 8
"""Those of them that go to one channel."""
DELIVERY_AGE_S: Final = 24 * 3600
"""Time that a message may wait for its channel: an answer of yesterday is not sent."""
DELIVERY_ATTEMPTS: Final = 8
"""Tries to send one message; then it has failed."""
DELIVERY_WAIT_S: Final = 1.0
"""Time before the second try; doubled with each."""
DELIVERY_WAIT_MAX_S: Final = 300.0
"""The longest time between two tries."""
DELIVERY_LOOK_S: Final = 5.0
"""Time between two looks for messages that nobody told of."""
PARTICIPANT_EVENTS: Final = 200
"""Newest events of a conversation in which it is looked whether somebody takes part in it."""
RUNTIMES_OF_WORKSPACE: Final = 100
"""Remote runtimes that one workspace may have enrolled."""
RUNTIME_CODE_S: Final = 15 * 60.0
"""Time in which a one-time code can be used to enrol a runtime."""
RUNTIME_CODES: Final = 100
"""Codes of one workspace that may wait to be used."""
RUNTIME_CHALLENGE_S: Final = 30.0
"""Time in which a challenge can be signed, once."""
RUNTIME_CONNECTS_PER_MINUTE: Final = 30
"""Connections of one runtime; half of that may come at once."""
RUNTIME_ALIVE_S: Final = 2.0
"""Time that a connected runtime has to answer when its key knocks a second time; then the second takes its place."""
SOCKET_CLOSE_S: Final = 1.0
"""Time that the other side of a WebSocket has to say goodbye; then the connection is cut."""
CALLER_LOOK_S: Final = 1.0
"""Time between two looks whether those for whom a stream or a socket is open would still be let in."""
STREAM_LOOK_S: Final = 15.0
"""Time between two looks whether the reader of a stream may still see its run."""
SECRETS_OF_WORKSPACE: Final = 1000
"""Secrets that one workspace may have."""
SECRET_CHARACTERS: Final = 8192
"""The longest secret."""
SECRETS_BYTES: Final = 64 * KIB
"""Values of all secrets of one workspace together: every text is searched for every form of each."""
FORMER_CHARACTERS: Final = 32 * KIB
"""Values that were secrets and are looked for still; of more than that, the oldest are forgotten."""
SECRET_LEAST_CHARACTERS: Final = 6
"""A shorter value is a word, not a secret: to mask it would mask half of what is shown."""
SECRET_GAP_CHARACTERS: Final = 16
"""What may stand between two digits of a secret in hex or base64, such as a line end with an indent."""
AUDIT_S: Final = 2.0
"""Time in which what must be on disk before it is done is on disk; else it is not done."""
EGRESS_REDIRECTS: Final = 5
"""Places that one request outside is sent on to."""
EGRESS_CONNECT_S: Final = 10.0
"""Time to find the address of a place outside and to connect to it."""
EGRESS_ANSWER_S: Final = 60.0
"""The most time that one request outside may take in all."""
EGRESS_BODY_BYTES: Final = 8 * MIB
"""The most that is read of an answer from outside."""
EGRESS_HEAD_BYTES: Final = 128 * KIB
"""What the head of an answer from outside may have."""
EGRESS_HEADERS: Final = 64
"""Headers of one request outside."""
EGRESS_HEADER_CHARACTERS: Final = 8192
"""The longest value of one header of a request outside."""
EGRESS_URL_CHARACTERS: Final = 4096
"""The longest URL of a request outside."""
EGRESS_AT_ONCE: Final = 256
"""Requests outside that may be under way at once."""
EGRESS_LOOKUPS: Final = 16
"""Names outside that are looked up at once; more wait, within their time."""
EGRESS_ADDRESSES: Final = 4
"""Addresses of one name that are tried."""
EGRESS_FRAMING: Final = 8
"""Bytes on the wire for each of an answer's body, at most: one that is sent alone needs six."""
EGRESS_KEPT_CONNECTIONS: Final = 16
"""Connections to one place that wait for the next request; more are closed."""
EGRESS_KEPT_S: Final = 30.0
"""Time that a connection may wait for the next request."""
EGRESS_SETTLE_S: Final = 1.0
"""Time that the end of an answer may take once everything in it has come; then its connection is not kept."""
GRAPH_BYTES: Final = 8 * MIB
"""Definitions of all tools of one run, together."""
GRAPH_CACHE_ENTRIES: Final = 1024
"""Graphs of capabilities that are kept in memory: one for each agent in use."""
QUESTIONS_OF_RUN: Final = 8
"""Questions of one run to the person it works for that may be open at once."""
ANSWER_CHARACTERS: Final = 20_000
"""The longest answer to such a question."""
APPROVALS_OF_RUN: Final = 16
"""Questions of one run that may be open at the same time."""
APPROVALS_OF_WORKSPACE: Final = 1000
"""Questions of one workspace that may be open at the same time."""
APPROVAL_BYTES_OF_WORKSPACE: Final = 32 * MIB
"""What the open questions of one workspace may hold together: they are all in memory."""
DETACHED_WAIT_S: Final = 60.0
"""Time that such a call waits for its plugin or server to be there again after a start."""
DETACHED_AT_ONCE: Final = 8
"""Calls of runs that have ended which are carried out at the same time, after a yes."""
SKILL_BYTES: Final = 512 * KIB
"""All files of one skill, together."""
SKILL_TEXT_BYTES: Final = 64 * KIB
"""The `SKILL.md` of a skill: what is read at once when it is activated."""
SKILL_FILES: Final = 64
"""Files of one skill."""
SKILL_PATH_CHARACTERS: Final = 200
"""The name of a file of a skill, with its folders."""
SKILL_READ_BYTES: Final = 64 * KIB
"""What is read of a file of a skill at once."""
SKILL_VERSIONS: Final = 10
"""Versions of a skill that are kept beside the one in use."""
SKILLS_OF_WORKSPACE: Final = 256
"""Skills that one workspace may have, beside those of its plugins."""
SKILLS_OF_PLUGIN: Final = 64
"""Skills that one plugin may bring."""

ACTION_ARGUMENTS_BYTES: Final = 256 * KIB
"""Arguments of a call that its record holds; of larger ones it holds the digest and the size."""
ACTION_RESULT_BYTES: Final = 64 * KIB
"""What a call returns within its record and its answer; more becomes an artifact, whatever the capability allows."""
ACTION_PREVIEW_CHARACTERS: Final = 2000
"""What is shown of an output that became an artifact."""
ACTION_OUTPUT_BYTES: Final = 16 * MIB
"""What a call may return at all."""
ACTIONS_PER_RUN: Final = 10_000
"""Calls of one run that its host keeps apart."""
ACTION_OUTCOMES_KEPT: Final = 4
"""Outcomes of one run that are told again from memory; older ones are read from the store."""
VALIDATORS_KEPT: Final = 1000
"""Schemas that are ready to check arguments with."""
SCHEMA_STEPS: Final = 10_000
"""Subschemas that one value may have to be held against: what refers to itself over and over is refused."""
PATTERN_BYTES: Final = 1 * MIB
"""A pattern of a schema, compiled."""
SOURCE_CALLS_PER_MINUTE: Final = 1200
"""Calls to one source outside this process, of one workspace, on average."""
SOURCE_CALLS_BURST: Final = 200
BUDGET_ACCOUNTS: Final = 50_000
"""Actors, agents and workspaces whose spending of a day is kept apart."""
WORKSPACE_KEPT_S: Final = 24 * 3600.0
"""Time for which the files of a run are kept after they were last used."""
PROGRAMS_AT_ONCE: Final = 8
"""Programs that runs have started and that run at the same time; more wait, in order."""
PROGRAM_DISK_FREE_BYTES: Final = 256 * MIB
"""What must be free on the disk for programs to run: files that they removed and hold open count nowhere else."""
PROGRAM_OUTPUT_BYTES: Final = 256 * KIB
"""What is kept of each of the two outputs of a program, from the beginning."""
COMMAND_CHARACTERS: Final = 32_768
"""The command line of one program."""
FOUND_LINES: Final = 500
"""What one search for names or lines shows."""
FILE_LINES: Final = 2000
"""Lines of a file that are read at once."""
TOOL_TEXT_CHARACTERS: Final = 1_000_000
"""Text that one call writes into a file or an artifact."""
ATTACHMENTS: Final = 32
"""Artifacts that are attached to one message."""
EXPRESSION_CHARACTERS: Final = 1000
"""What is calculated at once."""
EXPRESSION_DEPTH: Final = 50
"""Brackets in brackets of an expression."""
