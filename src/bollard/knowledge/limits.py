"""Limits of the knowledge process, each with its unit. Those that the host shares: `bollard.wire.knowledge_frames`."""

from typing import Final

from bollard.protocol.limits import KIB, MIB

METADATA_BYTES: Final = 64 * KIB
"""What a document is given along, as JSON."""

EXTRACTED_CHARACTERS: Final = 32 * MIB
"""Text that is taken from one document; of one that has more no part is used."""
PAGES: Final = 5_000
"""Pages of one PDF."""
EXTRACT_S: Final = 90.0
"""Time that the text of one document may take."""
CHILD_MEMORY_BYTES: Final = 1024 * MIB
"""Address space of the process that reads documents."""
CHILD_FILES: Final = 32
"""Files that it may have open."""
CHILD_DOCUMENTS: Final = 200
"""Documents after which it is started anew: what a library leaks goes with it."""
ZIP_MEMBERS: Final = 4_096
"""Entries of a DOCX."""
ZIP_DIRECTORY_BYTES: Final = MIB
"""Its table of contents."""
DOCX_RATIO: Final = 200
"""How many times as large a packed member may become."""
DOCX_RATIO_FREE_BYTES: Final = 4 * MIB
"""What it may become in any case."""
XML_DEPTH: Final = 256
"""How deep its elements may be nested."""

HEADING_CHARACTERS: Final = 200
"""What is kept of one heading."""
HEADING_LEVELS: Final = 6
"""Headings above one chunk."""
BATCH_CHUNKS: Final = 256
"""Chunks of one transaction: the progress that is seen, and what a crash repeats."""
INDEX_ATTEMPTS: Final = 3
"""Times that a document may be begun; one that ends the process each time is given up."""
PROBLEM_CHARACTERS: Final = 500
"""What is kept of the reason why a document failed."""
WORDS_KEPT: Final = 16_384
"""Words whose vectors are kept in memory, at 1 KiB each."""

MATRIX_BYTES: Final = 256 * MIB
"""Vectors of all bases that are kept in memory: a million chunks. What does not fit is read for each question."""
CANDIDATES: Final = 200
"""Chunks that each way of searching puts forward."""
MATCHES: Final = 10_000
"""Chunks that a question by words may weigh, in sum over its words: the rarest words are taken first."""
FREQUENCIES: Final = 4_096
"""Words of one base of which it is remembered in how many chunks they are."""
MOVE_BATCHES: Final = 8
"""Batches of vectors that are moved over to pgvector in one transaction."""
READERS: Final = 2
"""Questions that are answered at once."""
PURGE_PAGES: Final = 500
"""Pages of the index by words that one step of clearing away rewrites, so that nobody waits for long."""

LOCK_WAIT_S: Final = 10.0
"""Time that a process which was just killed has to be gone."""
CONNECT_WAIT_S: Final = 5
"""Time that PostgreSQL has to let this process in."""
