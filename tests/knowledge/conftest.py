"""A PostgreSQL server with pgvector, once for all tests that ask."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from tests.knowledge.vector_server import NoVectorServer, vector_server


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorDatabase:
    """An empty database. Its owner may not make the extension; a superuser may."""

    owner: str
    superuser: str

    def run(self, *statements: str) -> None:
        """As the superuser."""
        with psycopg.connect(self.superuser, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[arg-type]

    def count(self, what: str) -> int:
        with psycopg.connect(self.superuser, autocommit=True) as connection:
            rows = connection.execute(f"SELECT count(*) FROM {what}").fetchall()  # type: ignore[arg-type]
        return rows[0][0]


_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def vector_server_url() -> Iterator[str]:
    try:
        with vector_server(["fsync=off", "full_page_writes=off"]) as url:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("CREATE ROLE plain LOGIN")
            yield url
    except NoVectorServer as error:
        pytest.skip(str(error))


@pytest.fixture
def vector_database(vector_server_url: str) -> VectorDatabase:
    name = f"knowledge_{next(_numbers)}"
    with psycopg.connect(vector_server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} OWNER plain")  # type: ignore[arg-type]
    superuser = urlunsplit(urlsplit(vector_server_url)._replace(path=f"/{name}"))
    return VectorDatabase(superuser=superuser, owner=superuser.replace("postgres@", "plain@"))
