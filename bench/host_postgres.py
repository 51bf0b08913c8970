"""A PostgreSQL database of this benchmark alone, dropped afterwards."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

__all__ = ["NoServer", "own_database"]

SERVERS = ("postgresql://postgres@127.0.0.1:5432/postgres", "postgresql://root@127.0.0.1:5432/postgres")


class NoServer(Exception):
    """No PostgreSQL server answers."""


def _server() -> str:
    named = os.environ.get("BOLLARD_TEST_POSTGRES")
    problems: list[str] = []
    for url in (named,) if named else SERVERS:
        try:
            psycopg.connect(url, connect_timeout=3).close()
        except psycopg.Error as error:
            problems.append(str(error).strip())
        else:
            return url
    raise NoServer("; ".join(problems))


@contextmanager
def own_database() -> Generator[str]:
    """Its URL. Raises `NoServer`."""
    server = _server()
    name = f"bollard_bench_{os.getpid()}"
    drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(drop)
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
        finally:
            connection.execute(drop)
