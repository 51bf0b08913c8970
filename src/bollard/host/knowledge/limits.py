"""Every limit of knowledge bases on the host's side, by name and with its unit. The engine has its own."""

from typing import Final

from bollard.protocol.limits import KIB, MIB, PAGE_BYTES, RERANK_DOCUMENTS, SEARCH_TOP_K

BASES_OF_WORKSPACE: Final = 256
"""Knowledge bases that one workspace may have."""
CHUNK_TOKENS_LEAST: Final = 64
"""The smallest chunk that a base may be cut into: of less nobody could say what it is about."""
CHUNK_TOKENS_MOST: Final = 2000
"""The largest one."""
OVERLAP_TOKENS_MOST: Final = 500
"""What a chunk may repeat of the one before it."""
DOCUMENT_BYTES: Final = 32 * MIB
"""One document, as it is given."""
DOCUMENT_ID_CHARACTERS: Final = 128
"""The id of one document."""
DOCUMENT_NAME_CHARACTERS: Final = 256
"""The name of one document."""
SOURCE_CHARACTERS: Final = 1024
"""Where a document comes from, as it is cited."""
METADATA_BYTES: Final = 16 * KIB
"""What a document is given along, as JSON."""
METADATA_VALUES: Final = 100
"""Values in it: those of every chunk of an answer must fit into one frame."""
METADATA_KEY_CHARACTERS: Final = 128
"""The name of one of them."""
MIME_CHARACTERS: Final = 255
"""The media type of a document."""
QUESTION_CHARACTERS: Final = 4096
"""What is asked at once."""
FILTERS: Final = 16
"""Keys of the metadata that one question may be narrowed by."""
FILTER_VALUES: Final = 64
"""Values that one of them may have."""
FILTER_CHARACTERS: Final = 256
"""One key or one value of a filter."""
CHUNK_TEXT_CHARACTERS: Final = 16_000
"""What is told of one chunk; the rest is cut and said to be cut."""
ANSWER_BYTES: Final = PAGE_BYTES
"""All chunks of one answer, as JSON; what no room is left for is left out from the worst end."""
RERANK_CANDIDATES: Final = min(RERANK_DOCUMENTS, SEARCH_TOP_K)
"""Chunks that a rerank model gets to choose from."""
RERANK_S: Final = 20.0
"""Time that it may take; then the order stays as it was."""
DOCUMENTS_AT_ONCE: Final = 100
"""Documents that are looked at together when a base is indexed anew."""
INCOMING_HEAD_BYTES: Final = 64 * KIB
"""What a file that waits to be taken in says of its document."""
