"""A witness on another machine: the wire, with the receiver of the examples and with ones that misbehave."""

import importlib.util
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doubles.manual_clock import ManualClock

from bollard.host.audit.heads import head_line
from bollard.host.audit.trail import check_witnessed
from bollard.host.audit.witness_sinks import WitnessFile, WitnessHttp
from bollard.host.errors import AuditUnavailable, LogBroken
from bollard.host.limits import HEAD_RECORDS, WITNESS_REQUEST_BYTES
from bollard.host.log.chain import Chains
from bollard.host.store.store import Store
from bollard.trust.keys import SigningKey

EXAMPLE = Path(__file__).parents[3] / "examples/witness/receiver.py"
TOKEN = "t0ken"
WITHIN_S = 0.3


class Served:
    """The receiver of the examples on a free port, and its file."""

    def __init__(self, path: Path) -> None:
        spec = importlib.util.spec_from_file_location("receiver", EXAMPLE)
        assert spec is not None
        assert spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.Receiver.path_of_heads, module.Receiver.token = path, TOKEN
        module.Receiver.log_message = lambda *_: None
        self.path = path
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), module.Receiver)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/heads"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    receiver = Served(tmp_path / "heads.jsonl")
    yield receiver
    receiver.close()


@pytest.fixture
def answering() -> Iterator[Callable[..., str]]:
    """A server that answers one request with these bytes, or with silence."""
    opened: list[socket.socket] = []

    def serve(answer: bytes | None) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        opened.append(listener)

        def work() -> None:
            connection, _ = listener.accept()
            opened.append(connection)
            connection.recv(1 << 16)
            if answer is not None:
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)

        threading.Thread(target=work, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/heads"

    yield serve
    for each in opened:
        each.close()


def test_lines_are_appended_in_order_and_read_back_whole_or_from_their_end(served: Served) -> None:
    witness = WitnessHttp(served.url, TOKEN)
    assert list(witness.lines()) == []
    assert list(witness.lines(100)) == []
    lines = [b'{"n":%d}\n' % n for n in range(200)]
    witness.append(b"".join(lines[:100]))
    witness.append(b"".join(lines[100:]))
    assert list(witness.lines()) == lines
    assert list(witness.lines(1 << 20)) == lines
    assert list(witness.lines(25)) == lines[-2:], "what begins before is left out"
    assert list(WitnessFile(served.path).lines(25)) == lines[-2:]
    assert list(WitnessFile(served.path).lines()) == lines


def test_many_heads_leave_in_requests_of_a_limited_size(served: Served) -> None:
    line = b"x" * 60_000 + b"\n"
    count = 2 * WITNESS_REQUEST_BYTES // len(line)
    WitnessHttp(served.url, TOKEN).append(line * count)  # the receiver takes no larger ones
    assert served.path.read_bytes() == line * count


def test_a_witness_that_refuses_lines_is_reported_with_its_reason(
    served: Served, answering: Callable[..., str]
) -> None:
    with pytest.raises(OSError, match="answered POST with 401"):
        WitnessHttp(served.url, "other").append(b"{}\n")
    with pytest.raises(OSError, match="answered GET with 401"):
        list(WitnessHttp(served.url).lines())
    assert not served.path.exists()
    moved = b"HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n"
    for answer, said in (
        (moved, "answered POST with 302"),
        (b"HTTP/1.1 507 Insufficient Storage\r\ncontent-length: 0\r\n\r\n", "507 Insufficient Storage"),
        (b"hello\r\n\r\n", "does not speak HTTP"),
        (b"", "does not speak HTTP|reset|closed"),
        (None, "timed out"),
    ):
        with pytest.raises(OSError, match=said):
            WitnessHttp(answering(answer), within_s=WITHIN_S).append(b"{}\n")
    cut = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{}"
    with pytest.raises(OSError, match="does not speak HTTP"):
        list(WitnessHttp(answering(cut), within_s=WITHIN_S).lines())
    cut = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}\n{}\n"
    with pytest.raises(OSError, match="lost 3 bytes before the end"):
        list(WitnessHttp(answering(cut), within_s=WITHIN_S).lines())


def test_a_line_truncated_by_a_full_disk_does_not_spoil_the_next_one(served: Served, tmp_path: Path) -> None:
    head = b'{"n":1}\n'
    served.path.write_bytes(head + b'{"n":')
    WitnessHttp(served.url, TOKEN).append(head)
    assert served.path.read_bytes() == head + b'{"n":\n' + head
    path = tmp_path / "file.jsonl"
    witness, other_limit = WitnessFile(path), resource.getrlimit(resource.RLIMIT_FSIZE)
    witness.append(head)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(head) + 5, other_limit[1]))  # Python ignores the signal of it
    try:
        with pytest.raises(OSError, match="File too large"):
            witness.append(head)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, other_limit)
    witness.append(head)
    witness.append(head)
    assert path.read_bytes() == head + b'{"n":\n' + head + head


@pytest.fixture
def told(signing_key: SigningKey, clock: ManualClock, scribe: Any, store: Store) -> list[bytes]:
    """The heads of two starts at a witness, whose records are in the store."""
    lines: list[bytes] = []
    first_id = 1
    for incarnation in ("i1", "i2"):
        chains = Chains(incarnation, signing_key, clock, every_records=HEAD_RECORDS, every_s=60)
        rows = chains.chain([scribe.note(n=n) for n in range(3)], first_id)
        rows += chains.chain([replace(scribe.note(), workspace="other")], first_id + 3)
        first_id += 4
        with store.write() as transaction:
            transaction.next_record_ids(4)
            transaction.add_records(rows)
        lines += [head_line(head, closed=True) for head in chains.due_heads(closing=True)]
    return lines


def test_a_start_finds_the_newest_heads_of_the_witness(
    store: Store, told: list[bytes], signing_key: SigningKey, memory_store: Any
) -> None:
    keys = {signing_key.verify_key.key_id: signing_key.verify_key}
    assert check_witnessed(store, told, keys, "") is None
    assert check_witnessed(store, told[:1], keys, "") is None
    gone = [line.replace(b'"i2"', b'"i3"') for line in told]  # signed for another chain: not ours
    assert check_witnessed(store, gone, keys, "") is None
    with pytest.raises(AuditUnavailable, match="no head of this host"):
        check_witnessed(store, [], keys, "")
    with pytest.raises(AuditUnavailable, match="cannot be read"):
        check_witnessed(store, [b"nonsense\n"], keys, "")
    if store is not memory_store:
        assert check_witnessed(memory_store, [], keys, "") is None, "a new host and a new witness"
        with pytest.raises(LogBroken, match="witness names record") as refused:
            check_witnessed(memory_store, told, keys, "i1:3")
        name = str(refused.value.details["name"])
        assert name.startswith("i2:")
        gap = check_witnessed(memory_store, told, keys, name)
        assert gap is not None
        assert gap.chain == "i2"
