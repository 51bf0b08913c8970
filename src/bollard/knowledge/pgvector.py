"""Vectors in a PostgreSQL with the extension `vector`: a table for each base, searched by the server.

The server compares every vector of a base. An HNSW index would accept a few hundred vectors per second, find nine of
ten, and filter by document after its search (ADR 0067).

The vectors are the quantised ones of the batches, so both implementations find the same, and earlier batches are moved
without a change. If the extension is dropped, its tables are lost, and documents are indexed again.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Literal

import numpy as np
import psycopg

from bollard.knowledge.embedding import DIMENSIONS, Vectors, dequantised
from bollard.knowledge.errors import OutOfService, WriterLost
from bollard.knowledge.library import INDEX_ANEW
from bollard.knowledge.limits import MOVE_BATCHES
from bollard.knowledge.postgres import PostgresKnowledge, translated, vector_table
from bollard.knowledge.vectors import Matrices, Near, VectorTables

_ROW: Final = np.dtype(
    [
        ("fields", ">i2"),
        *(("document_bytes", ">i4"), ("document", ">i8")),
        *(("number_bytes", ">i4"), ("number", ">i8")),
        *(("vector_bytes", ">i4"), ("dimensions", ">i2"), ("unused", ">i2"), ("vector", ">f4", (DIMENSIONS,))),
    ]
)
"""One row in the binary format of COPY."""
_COPY_HEAD: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_TAIL: Final = b"\xff\xff"
_GONE: Final = (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction, psycopg.errors.UndefinedObject)
"""Errors of a server that has lost the extension."""


def open_vectors(database: PostgresKnowledge) -> VectorTables:
    """Return the vector tables that this server supports, opened. Raises `OutOfService`."""
    earlier = Matrices(database)
    with translated():
        schema = _extension(database)
    if schema is None:
        _leave(database)
        return earlier
    vectors = ServerVectors(database, schema, earlier)
    vectors.open()
    return vectors


class ServerVectors:
    """Implements `VectorTables`. `schema` is the quoted schema of the extension; `earlier` has unmoved vectors."""

    searched_by: Literal["process", "database"] = "database"

    def __init__(self, database: PostgresKnowledge, schema: str, earlier: Matrices) -> None:
        self._database = database
        self._schema = schema
        self._earlier = earlier

    def open(self) -> None:
        """Create the missing table of each base. If a table was lost, its documents are indexed again."""
        database = self._database
        with database.writing():
            was_used = _is_used(database)
            for base in _without_vectors(database):
                self.make(base)
                if was_used:
                    _index_anew(database, base)
            if not was_used:
                database.run("INSERT INTO knowledge_meta VALUES ('vectors', 'database')")

    # --- writing ---

    def make(self, base: int) -> None:
        self._database.run(f"DROP TABLE IF EXISTS {vector_table(base)}")
        with _noticing_loss():
            self._database.run(
                f"CREATE TABLE {vector_table(base)} (document BIGINT NOT NULL, number BIGINT NOT NULL, "
                f"body {self._schema}.vector({DIMENSIONS}) NOT NULL, PRIMARY KEY (document, number))"
            )

    def add(self, base: int, document: int, first_chunk: int, body: bytes) -> None:
        vectors = np.frombuffer(body, dtype=np.int8).reshape(-1, DIMENSIONS)
        rows = np.zeros(len(vectors), dtype=_ROW)
        rows["fields"] = 3
        rows["document_bytes"] = rows["number_bytes"] = 8
        rows["document"] = document
        rows["number"] = np.arange(first_chunk, first_chunk + len(vectors))
        rows["vector_bytes"] = 4 + 4 * DIMENSIONS
        rows["dimensions"] = DIMENSIONS
        rows["vector"] = vectors
        statement = f"COPY {vector_table(base)} (document, number, body) FROM STDIN (FORMAT BINARY)"
        with _noticing_loss():
            self._database.copy(statement, _COPY_HEAD + rows.tobytes() + _COPY_TAIL)

    def remove(self, base: int, document: int) -> None:
        self._earlier.remove(base, document)
        self._database.run(f"DELETE FROM {vector_table(base)} WHERE document = ?", (document,))  # noqa: S608 -- our name

    def remove_all(self, base: int) -> None:
        self._earlier.remove_all(base)
        self._database.run(f"DROP TABLE IF EXISTS {vector_table(base)}")

    def move(self) -> bool:
        database = self._database
        with database.writing():
            rows = self._earlier.take(MOVE_BATCHES)
            for row in rows:
                self.add(row.base, row.document, row.first_chunk, row.body)
            for base in sorted({row.base for row in rows}):
                database.run("UPDATE knowledge_bases SET purge = purge + 1 WHERE number = ?", (base,))
        return bool(rows)

    # --- searching ---

    def nearest(self, base: int, vector: Vectors, limit: int, documents: Sequence[int] | None) -> list[Near]:
        # Batches first: a vector that is moved in between is found twice, in the other order never.
        earlier = self._earlier.nearest(base, vector, limit, documents)
        return merged(earlier, self._searched(base, vector, limit, documents), limit)

    def _searched(self, base: int, vector: Vectors, limit: int, documents: Sequence[int] | None) -> list[Near]:
        narrowed = "" if documents is None else f" WHERE {self._database.among('document')}"
        chosen = () if documents is None else (self._database.listed(documents),)
        statement = (
            f"SELECT number, distance FROM (SELECT number, body OPERATOR({self._schema}.<#>) "  # noqa: S608 -- our names
            f"CAST(? AS {self._schema}.vector) AS distance FROM {vector_table(base)}{narrowed}) AS compared "
            "ORDER BY distance, number LIMIT ?"
        )
        text = "[" + ",".join(map(str, vector.tolist())) + "]"
        try:
            with _noticing_loss():
                rows = self._database.read(statement, (text, *chosen, limit))
        except OutOfService as error:
            if isinstance(error.__cause__, psycopg.errors.UndefinedTable):
                return []  # the base was dropped meanwhile
            raise
        products = dequantised(-np.asarray([distance for _, distance in rows], dtype=np.float32))  # it negates them
        return [(number, score) for (number, _), score in zip(rows, products.tolist(), strict=True) if score > 0]


def merged(some: list[Near], others: list[Near], limit: int) -> list[Near]:
    """Merge results, nearest first, each chunk once."""
    if not some:
        return others
    return sorted({**dict(some), **dict(others)}.items(), key=lambda near: (-near[1], near[0]))[:limit]


@contextmanager
def _noticing_loss() -> Generator[None]:
    """End this process if the extension was dropped; the next one checks what is left."""
    try:
        yield
    except (psycopg.Error, OutOfService) as error:
        if isinstance(error, _GONE) or isinstance(error.__cause__, _GONE):
            raise WriterLost(
                "pgvector was removed from the server",
                hint="retry; the documents are indexed again",
                reason="pgvector_removed",
            ) from error
        raise


def _extension(database: PostgresKnowledge) -> str | None:
    """Return the quoted schema of the extension; `None` if this role cannot use it."""
    if not database.fetch("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        return None
    with suppress(psycopg.Error):  # a role that may not create it may still use it
        database.run("CREATE EXTENSION IF NOT EXISTS vector")
    found = database.fetch(
        "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace AS place ON place.oid = extnamespace "
        "WHERE extname = 'vector' AND has_schema_privilege(place.oid, 'USAGE')"
    )
    return found[0][0] if found else None


def _leave(database: PostgresKnowledge) -> None:
    """Go on without the extension: index the documents again whose vectors it held."""
    with database.writing():
        if not _is_used(database):
            return
        for (base,) in database.fetch("SELECT number FROM knowledge_bases ORDER BY number"):
            database.run(f"DROP TABLE IF EXISTS {vector_table(base)}")
            _index_anew(database, base)
        database.run("DELETE FROM knowledge_meta WHERE name = 'vectors'")


def _index_anew(database: PostgresKnowledge, base: int) -> None:
    if database.fetch("SELECT 1 FROM knowledge_bases WHERE number = ? AND embedding <> 'none'", (base,)):
        database.run(INDEX_ANEW, (base,))


def _is_used(database: PostgresKnowledge) -> bool:
    return bool(database.fetch("SELECT 1 FROM knowledge_meta WHERE name = 'vectors'"))


def _without_vectors(database: PostgresKnowledge) -> list[int]:
    """Return the bases without a table, or without its vectors: dropping the extension drops the column."""
    rows = database.fetch("SELECT number FROM knowledge_bases ORDER BY number")
    return [
        base
        for (base,) in rows
        if not database.fetch(
            "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass(?) AND attname = 'body' AND NOT attisdropped",
            (vector_table(base),),
        )
    ]
