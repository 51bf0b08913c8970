"""Limits of the knowledge process, each with its unit. Those that the host shares: `bollard.wire.knowledge_frames`."""

from typing import Final

from bollard.protocol.limits import KIB, MIB

METADATA_BYTES: Final = 64 * KIB
"""The metadata of a document, as JSON."""

EXTRACTED_CHARACTERS: Final = 32 * MIB
"""Text of one document; a document with more is refused."""
PAGES: Final = 5_000
"""Pages of one PDF."""
EXTRACT_S: Final = 90.0
"""Time to extract the text of one document."""
ATTACHMENT_S: Final = 30.0
"""Time to extract the text of a document that a run reads."""
CHILD_MEMORY_BYTES: Final = 1024 * MIB
"""Address space of the extraction process."""
CHILD_FILES: Final = 32
"""Open files of the extraction process."""
CHILD_DOCUMENTS: Final = 200
"""Documents after which the extraction process is replaced, because libraries may leak."""
ZIP_MEMBERS: Final = 4_096
"""Entries of a DOCX."""
ZIP_DIRECTORY_BYTES: Final = MIB
"""The directory of a DOCX."""
DOCX_RATIO: Final = 200
"""Compression ratio of a member of a DOCX."""
DOCX_RATIO_FREE_BYTES: Final = 4 * MIB
"""Size up to which the ratio is not checked."""
XML_DEPTH: Final = 256
"""Nesting depth of the XML of a DOCX."""

HEADING_CHARACTERS: Final = 200
"""The stored part of one heading."""
HEADING_LEVELS: Final = 6
"""Headings above one chunk."""
BATCH_CHUNKS: Final = 256
"""Chunks of one transaction: the unit of progress, and of repeated work after a crash."""
INDEX_ATTEMPTS: Final = 3
"""Attempts to index a document; a document that ends the process each time is given up."""
PROBLEM_CHARACTERS: Final = 500
"""The stored reason why a document failed."""
WORDS_KEPT: Final = 16_384
"""Words with cached vectors, 1 KiB each."""

MATRIX_BYTES: Final = 256 * MIB
"""Vectors of all bases in memory: a million chunks. Others are read for each question."""
CANDIDATES: Final = 200
"""Candidates of each kind of search."""
MATCHES: Final = 10_000
"""Chunks that a search by words may rank, in total over its words; the rarest words come first."""
FREQUENCIES: Final = 4_096
"""Words with a cached number of chunks."""
MOVE_BATCHES: Final = 8
"""Batches of vectors that are moved to pgvector in one transaction."""
READERS: Final = 2
"""Concurrent reads."""
PURGE_PAGES: Final = 500
"""Pages of the word index that one step of a purge rewrites, so that other writes do not wait for long."""

LOCK_WAIT_S: Final = 10.0
"""Time to wait for the lock of a process that was just killed."""
CONNECT_WAIT_S: Final = 5
"""Time to connect to PostgreSQL."""
