"""The tables of knowledge, once for both databases. What a base's index by words needs is made with the base."""

from typing import Final

__all__ = ["CHUNK_COLUMNS", "SCHEMA", "TABLES"]

SCHEMA: Final = 1
"""Is in the tables too; a larger one is refused. Another way of cutting words (`bollard.segments`) needs another."""

CHUNK_COLUMNS: Final = "number, document, first_character, last_character, page, headings, body"

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS knowledge_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS knowledge_bases (
        number BIGINT PRIMARY KEY,
        workspace TEXT NOT NULL,
        kb_id TEXT NOT NULL,
        embedding TEXT NOT NULL,
        chunk_tokens BIGINT NOT NULL,
        overlap_tokens BIGINT NOT NULL,
        purge BIGINT NOT NULL DEFAULT 0,
        UNIQUE (workspace, kb_id))""",
    """CREATE TABLE IF NOT EXISTS knowledge_documents (
        number BIGINT PRIMARY KEY,
        base BIGINT NOT NULL,
        document_id TEXT NOT NULL,
        name TEXT NOT NULL,
        mime_type TEXT NOT NULL,
        size_bytes BIGINT NOT NULL,
        sha256 TEXT NOT NULL,
        status TEXT NOT NULL,
        chunks BIGINT NOT NULL DEFAULT 0,
        done_chunks BIGINT NOT NULL DEFAULT 0,
        error TEXT,
        source TEXT NOT NULL,
        metadata TEXT NOT NULL,
        created_ms BIGINT NOT NULL,
        updated_ms BIGINT NOT NULL,
        attempts BIGINT NOT NULL DEFAULT 0,
        UNIQUE (base, document_id))""",
    "CREATE INDEX IF NOT EXISTS knowledge_documents_status ON knowledge_documents (status, number)",
    "CREATE TABLE IF NOT EXISTS knowledge_contents (document BIGINT PRIMARY KEY, body {bytes} NOT NULL)",
    """CREATE TABLE IF NOT EXISTS knowledge_chunks (
        number {key},
        document BIGINT NOT NULL,
        first_character BIGINT NOT NULL,
        last_character BIGINT NOT NULL,
        page BIGINT,
        headings TEXT NOT NULL,
        body TEXT NOT NULL{words})""",
    "CREATE INDEX IF NOT EXISTS knowledge_chunks_document ON knowledge_chunks (document, number)",
    """CREATE TABLE IF NOT EXISTS knowledge_vectors (
        base BIGINT NOT NULL,
        first_chunk BIGINT NOT NULL,
        document BIGINT NOT NULL,
        chunks BIGINT NOT NULL,
        body {bytes} NOT NULL,
        PRIMARY KEY (base, first_chunk))""",
    "CREATE INDEX IF NOT EXISTS knowledge_vectors_document ON knowledge_vectors (document)",
)
"""Vectors of one batch lie in one row: a base of 100 000 chunks is read as some hundred rows."""
