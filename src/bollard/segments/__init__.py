"""Text as full-text search sees it, for whoever indexes or asks. Pure, and imports nothing of ours."""

from bollard.segments.search_text import (
    QUERY_TERMS,
    SEARCH_BYTES,
    WORD_CHARACTERS,
    cjk_characters,
    is_prefix,
    segment,
    terms,
    words,
)

__all__ = ["QUERY_TERMS", "SEARCH_BYTES", "WORD_CHARACTERS", "cjk_characters", "is_prefix", "segment", "terms", "words"]
