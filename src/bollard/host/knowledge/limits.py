"""Limits of knowledge bases in the host, each with its unit. The engine has its own."""

from typing import Final

from bollard.protocol.limits import KIB, MIB, PAGE_BYTES, RERANK_DOCUMENTS, SEARCH_TOP_K

BASES_OF_WORKSPACE: Final = 256
"""Knowledge bases that one workspace may have."""
CHUNK_TOKENS_LEAST: Final = 64
"""The smallest chunk: less text has no topic."""
CHUNK_TOKENS_MOST: Final = 2000
"""The largest chunk."""
OVERLAP_TOKENS_MOST: Final = 500
"""The largest overlap of two chunks."""
DOCUMENT_BYTES: Final = 32 * MIB
"""One document."""
DOCUMENT_ID_CHARACTERS: Final = 128
"""The id of one document."""
DOCUMENT_NAME_CHARACTERS: Final = 256
"""The name of one document."""
SOURCE_CHARACTERS: Final = 1024
"""The cited source of a document."""
METADATA_BYTES: Final = 16 * KIB
"""The metadata of a document, as JSON."""
METADATA_VALUES: Final = 100
"""Values in the metadata: those of all chunks of an answer must fit into one frame."""
METADATA_KEY_CHARACTERS: Final = 128
"""The name of one value."""
MIME_CHARACTERS: Final = 255
"""The media type of a document."""
QUESTION_CHARACTERS: Final = 4096
"""One question."""
FILTERS: Final = 16
"""Metadata keys that one question may filter by."""
FILTER_VALUES: Final = 64
"""Allowed values of one filter."""
FILTER_CHARACTERS: Final = 256
"""One key or one value of a filter."""
CHUNK_TEXT_CHARACTERS: Final = 16_000
"""The text of one chunk; longer text is truncated and marked."""
ANSWER_BYTES: Final = PAGE_BYTES
"""All chunks of one answer, as JSON; the worst chunks that do not fit are left out."""
RERANK_CANDIDATES: Final = min(RERANK_DOCUMENTS, SEARCH_TOP_K)
"""Chunks that a rerank model sorts."""
RERANK_S: Final = 20.0
"""Timeout of the rerank model; after it the order stays."""
DOCUMENTS_AT_ONCE: Final = 100
"""Documents of one page when a base is indexed again."""
INCOMING_HEAD_BYTES: Final = 64 * KIB
"""The header of a restored file, which describes its document."""
