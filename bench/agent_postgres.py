"""PostgreSQL databases for the knowledge benchmark: one of the reachable server, and one with pgvector."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from host_postgres import NoServer

__all__ = ["has_pgvector", "vector_database"]

ROOT = Path(__file__).parent.parent
END_S = 120


@contextmanager
def vector_database() -> Generator[str]:
    """The URL of a database of a running server with pgvector. Raises `NoServer`."""
    command = [sys.executable, "-m", "tests.knowledge.vector_server"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        url = server.stdout.readline().decode().strip()
        try:
            if not url:
                raise NoServer("no server with pgvector could be started")
            yield url
        finally:
            server.stdin.close()
            server.wait(END_S)


def has_pgvector(url: str) -> bool:
    """Whether the knowledge process has found the extension."""
    with psycopg.connect(url) as connection:
        return bool(connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchall())
