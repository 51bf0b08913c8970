"""Faults of PostgreSQL only: lost connections, lost answers, and other hosts."""

import contextlib
import random
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from bollard.host.errors import Conflict, InvalidRequest, SettingsError, StorageUnavailable
from bollard.host.store.postgres import postgres_store
from bollard.host.store.queries import Lease
from bollard.host.store.rows import PatchEvent, PutEvent, PutRun

READY = b"Z\0\0\0\5I"
"""How an answer of the server ends."""
NAMED = "application_name = 'bollard' AND datname = current_database()"


def refusal() -> bytes:
    """The message of a server to a connection that it ends, before it closes it."""
    fields = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"
    return b"E" + (len(fields) + 4).to_bytes(4, "big") + fields


class Proxy:
    """A proxy between a client and the server. It can lose a commit's question or its answer, or end the connection in
    the server's own words when the commit is made."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname, parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        user = f"{parts.username}@" if parts.username else ""
        self.url = f"postgresql://{user}127.0.0.1:{port}{parts.path}?sslmode=disable&gssencmode=disable"
        self.lose: str | None = None
        self.accepting = True
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if not self.accepting:
                    client.close()
                    continue
                server = socket.create_connection(self._server)
                for source, sink, asks in ((client, server, True), (server, client, False)):
                    thread = threading.Thread(target=self._pump, args=(source, sink, asks), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _pump(self, source: socket.socket, sink: socket.socket, asks: bool) -> None:
        lost_answer = False
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                commit = asks and b"COMMIT" in data
                if commit and self.lose == "question":
                    break
                if commit and self.lose in ("answer", "ending"):
                    lost_answer = True
                    self.deaf = sink
                if not asks and getattr(self, "deaf", None) is source:
                    if self.lose == "ending":
                        sink.sendall(data.removesuffix(READY) + refusal())
                    break
                sink.sendall(data)
        if lost_answer:
            return
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    proxy = Proxy(postgres_url)
    yield proxy
    proxy.close()


@pytest.fixture
def proxied(proxy: Proxy):
    store = postgres_store(proxy.url, lock_wait_s=1.0)
    store.open()
    yield store
    store.close()


@pytest.fixture
def second_host(postgres_url: str):
    store = postgres_store(postgres_url, lock_wait_s=0.1)
    store.open()
    yield store
    store.close()


def end_connections(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {NAMED}")


def test_a_lost_connection_costs_one_commit_and_is_reopened(postgres_store, postgres_url, make):
    def write():
        with postgres_store.write() as transaction:
            transaction.add_records([make.record(1)])
            end_connections(postgres_url)

    with pytest.raises(StorageUnavailable) as caught:
        write()
    assert caught.value.retryable
    assert "outcome" not in caught.value.details
    with postgres_store.write() as transaction:
        transaction.put_meta("k", "v")
    assert postgres_store.records(0, 10) == []
    assert postgres_store.meta("k") == "v"


def test_connections_that_died_while_idle_are_reopened(postgres_store, postgres_url):
    together = threading.Barrier(4)

    def read():
        together.wait()
        assert postgres_store.meta("k") is None
        postgres_store._database.read("SELECT pg_sleep(0.05)")  # so that each has a connection of its own

    threads = [threading.Thread(target=read) for _ in range(together.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    end_connections(postgres_url)
    assert postgres_store.meta("k") is None


def test_a_writer_that_died_while_idle_is_reopened_by_the_retry(postgres_store, postgres_url):
    end_connections(postgres_url)
    with contextlib.suppress(StorageUnavailable), postgres_store.write() as transaction:
        transaction.put_meta("k", "first")
    with postgres_store.write() as transaction:
        transaction.put_meta("k", "second")
    assert postgres_store.meta("k") == "second"


@pytest.mark.parametrize("lost", ["answer", "ending"])
def test_a_commit_whose_answer_is_lost_is_not_reported_as_failed(proxied, proxy, make, lost):
    proxy.lose = lost
    with proxied.write() as transaction:
        transaction.add_records([make.record(transaction.next_record_ids(1))])
    proxy.lose = None
    assert len(proxied.records(0, 10)) == 1
    with proxied.write() as transaction:
        transaction.add_records([make.record(transaction.next_record_ids(1))])
    assert len(proxied.records(0, 10)) == 2


def test_a_commit_that_never_arrived_is_reported_as_failed(proxied, proxy, make):
    proxy.lose = "question"
    with pytest.raises(StorageUnavailable) as caught, proxied.write() as transaction:
        transaction.add_records([make.record(transaction.next_record_ids(1))])
    assert "outcome" not in caught.value.details
    proxy.lose = None
    assert proxied.records(0, 10) == []


def test_a_commit_with_an_unknown_fate_is_reported_as_unknown(proxied, proxy, make):
    def write():
        with proxied.write() as transaction:
            transaction.add_records([make.record(transaction.next_record_ids(1))])
            proxy.lose, proxy.accepting = "answer", False

    with pytest.raises(StorageUnavailable) as caught:
        write()
    assert caught.value.details["outcome"] == "unknown"
    proxy.lose, proxy.accepting = None, True
    assert len(proxied.records(0, 10)) == 1


def test_a_locked_epoch_stays_until_the_commit(postgres_store, second_host, make, apply):
    apply(postgres_store, PutRun(make.run("r")))
    with postgres_store.write() as transaction:
        assert transaction.lock_epochs(["r"]) == {"r": 0}
        with pytest.raises(StorageUnavailable, match="locked") as caught, second_host.write() as other:
            other.take_lease("r", Lease(owner="b", epoch=1, until_ms=1))
        assert caught.value.retryable
    with second_host.write() as other:
        assert other.take_lease("r", Lease(owner="b", epoch=1, until_ms=1))
    with postgres_store.write() as transaction:
        assert transaction.lock_epochs(["r"]) == {"r": 1}


def test_an_event_adopted_by_one_host_is_not_adopted_by_another(postgres_store, second_host, make, apply):
    apply(postgres_store, PutEvent(make.event(1, dispatch="pending")))
    with postgres_store.write() as transaction:
        assert transaction.event_dispatch("w", "e1") == "pending"
        with pytest.raises(StorageUnavailable, match="locked"), second_host.write() as other:
            other.event_dispatch("w", "e1")
        transaction.apply([PatchEvent("w", "e1", {"dispatch": "run", "run_id": "r"})])
    with second_host.write() as other:
        assert other.event_dispatch("w", "e1") == "run"


def test_two_hosts_never_get_the_same_ids(postgres_store, second_host):
    taken: dict[int, list[int]] = {0: [], 1: []}

    def take(host, store):
        for number in range(40):
            with store.write() as transaction:
                transaction.expect_records(50 * (number % 2))
                first = transaction.next_record_ids(50)
                taken[host].extend(range(first, first + 50))

    threads = [threading.Thread(target=take, args=pair) for pair in enumerate((postgres_store, second_host))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(taken[0]) | set(taken[1])) == 2 * 40 * 50
    assert all(ids == sorted(ids) for ids in taken.values())


def test_two_hosts_that_accept_the_same_event_store_it_once(postgres_store, second_host, make, apply):
    apply(postgres_store, PutEvent(make.event(1)))
    with pytest.raises(Conflict):
        apply(second_host, PutEvent(make.event(2, source_id="s1")))
    with second_host.write() as transaction:
        assert transaction.find_event("w", "web", "s1") == make.event(1)


def test_an_unreachable_server_is_refused_with_a_hint():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(StorageUnavailable) as caught:
        postgres_store(f"postgresql://nobody@127.0.0.1:{port}/none").open()
    assert caught.value.hint


def test_an_invalid_value_is_not_reported_as_a_storage_problem(postgres_store, make, apply):
    with pytest.raises(psycopg.ProgrammingError):
        apply(postgres_store, PutRun(make.run("r", facts=object())))
    assert postgres_store.run("r") is None


def test_a_commit_is_flushed_with_any_setting_of_the_database(postgres_url):
    name = urlsplit(postgres_url).path[1:]
    shown = {}
    for setting in ("off", "local", "remote_write", "on", "remote_apply"):
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute(f"ALTER DATABASE {name} SET synchronous_commit = {setting}")
        store = postgres_store(postgres_url)
        try:
            store.open()
            with store.write():
                ((shown[setting],),) = store._database.fetch("SHOW synchronous_commit")
        finally:
            store.close()
            with psycopg.connect(postgres_url, autocommit=True) as admin:
                admin.execute(f"ALTER DATABASE {name} RESET synchronous_commit")
    assert shown == {
        "off": "on",
        "local": "local",
        "remote_write": "remote_write",
        "on": "on",
        "remote_apply": "remote_apply",
    }


def test_a_database_with_a_limited_encoding_is_refused_at_open(postgres_url):
    name = f"{urlsplit(postgres_url).path[1:]}_latin"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    try:
        with pytest.raises(SettingsError, match="LATIN1") as caught:
            postgres_store(urlsplit(postgres_url)._replace(path=f"/{name}").geturl()).open()
        assert "UTF8" in caught.value.hint
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute(f"DROP DATABASE {name}")


def test_a_value_too_large_for_an_index_is_refused_permanently(postgres_store, make, apply):
    dice = random.Random(1)
    name = "".join(chr(dice.randrange(0x4E00, 0x9FA5)) for _ in range(1500))
    with pytest.raises(InvalidRequest) as caught:
        apply(postgres_store, PutEvent(make.event(1, source_id=name)))
    assert not caught.value.retryable
    assert caught.value.details["sqlstate"] == "54000"
    apply(postgres_store, PutEvent(make.event(2)))


def test_leases_use_the_clock_of_the_database(postgres_store, postgres_url):
    before = postgres_store.now_ms()
    with psycopg.connect(postgres_url) as connection:
        ((now,),) = connection.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").fetchall()
    assert before <= now <= postgres_store.now_ms()
