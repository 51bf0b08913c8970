"""A remote runtime's own side: where it dials, its key, and how long it waits between two tries."""

import asyncio
import datetime
import http.server
import ipaddress
import json
import ssl
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.tables import for_each

from bollard.runtime.limits import RECONNECT_MAX_S, RECONNECT_S
from bollard.runtime.remote_host import (
    HostAddress,
    RuntimeKey,
    connect_with_retries,
    enrol,
    load_key,
    make_key,
    read_address,
    require_private,
    retry_delay_s,
    save_key,
    sign_headers,
)
from bollard.trust import connect_proof, enrol_proof
from bollard.trust.keys import VerifyKey
from bollard.wire import ChannelClosed, IncompatiblePeer
from bollard.wire.errors import HandshakeRefused

CHALLENGE = {"nonce": "1.2.3", "host_id": "here", "expires_at": 1.0}


class Door(http.server.BaseHTTPRequestHandler):
    """Answers every request with the answers of its server, in turn; the last answer repeatedly."""

    def _answer(self) -> None:
        server: Any = self.server
        length = int(self.headers.get("content-length") or 0)
        server.asked.append((self.command, self.path, json.loads(self.rfile.read(length) or b"null")))
        status, body = server.answers[0] if len(server.answers) == 1 else server.answers.pop(0)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _answer  # noqa: N815 -- the library's names

    def log_message(self, *said: Any) -> None:
        del said


@pytest.fixture
def open_door() -> Iterator[Callable[..., Any]]:
    """Servers on free ports of this machine, and their addresses."""
    servers: list[Any] = []

    def start(*answers: tuple[int, Any], tls: ssl.SSLContext | None = None) -> Any:
        server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Door)
        server.answers, server.asked = list(answers), []
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        server.address = HostAddress(
            secure=tls is not None, host="127.0.0.1", port=server.server_address[1], prefix="/below"
        )
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


# --- where it dials ---


@for_each(
    ("url", "address"),
    [
        ("ws://127.0.0.1:8420", HostAddress(secure=False, host="127.0.0.1", port=8420, prefix="")),
        ("http://localhost:8420/", HostAddress(secure=False, host="localhost", port=8420, prefix="")),
        ("ws://[::1]:1/x/", HostAddress(secure=False, host="::1", port=1, prefix="/x")),
        ("wss://bollard.example.org", HostAddress(secure=True, host="bollard.example.org", port=443, prefix="")),
        ("https://h.example/a/b", HostAddress(secure=True, host="h.example", port=443, prefix="/a/b")),
    ],
)
def test_an_address_is_read(url: str, address: HostAddress) -> None:
    assert read_address(url) == address


@for_each(
    "url",
    ["", "127.0.0.1:8420", "ftp://127.0.0.1", "wss://", "wss://u:p@h", "wss://h?token=x", "wss://h:99999", "wss://[h"],
)
def test_an_invalid_address_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(IncompatiblePeer) as refused:
        read_address(url)
    assert "wss://" in refused.value.hint


@for_each(
    "url", ["ws://192.0.2.1", "http://bollard.example.org", "ws://localhost.example.org", "ws://0.0.0.0", "ws://127.1"]
)
def test_a_remote_address_without_tls_is_refused(url: str) -> None:
    for read in (read_address, require_private):
        with pytest.raises(IncompatiblePeer, match="in the clear"):
            read(url)


# --- its key ---


def test_a_key_is_private_to_its_user_and_reads_back_the_same(tmp_path: Path) -> None:
    path, key = tmp_path / "keys" / "a.json", make_key()
    save_key(path, key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_key(path) == key
    known = RuntimeKey(secret=key.secret, host_id="here")
    save_key(path, known)
    assert load_key(path) == known
    assert [file.name for file in path.parent.iterdir()] == ["a.json"]
    assert key.secret.hex() not in repr(known)


def test_a_key_readable_by_others_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    save_key(path, make_key())
    path.chmod(0o640)
    with pytest.raises(IncompatiblePeer, match="readable by others") as refused:
        load_key(path)
    assert "chmod 600" in refused.value.hint


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"private_key": "00", "host_id": null}', b"\xff", b"null"])
def test_a_file_without_a_key_is_reported(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(IncompatiblePeer):
        load_key(path)
    with pytest.raises(IncompatiblePeer, match="cannot be read"):
        load_key(tmp_path / "absent.json")


# --- the door ---


def test_an_enrolment_sends_the_public_key_and_proves_the_private_one(open_door: Any) -> None:
    door, key = open_door((201, {"name": "box", "host_id": "here"})), make_key()
    assert enrol(door.address, "blr_code", key) == ("box", "here")
    ((method, path, body),) = door.asked
    assert (method, path) == ("POST", "/below/api/v1/runtime/enrolment")
    public = key.signing.verify_key.public
    assert body["public_key"] == public.hex()
    VerifyKey(public).verify(enrol_proof("blr_code", public), bytes.fromhex(body["proof"]))
    assert key.secret.hex() not in json.dumps(body)


async def test_the_challenge_of_the_host_is_signed_with_its_name(open_door: Any) -> None:
    door, key = open_door((200, CHALLENGE)), make_key()
    headers = dict(await sign_headers(door.address, key))
    public = key.signing.verify_key.public
    assert headers["bollard-runtime-key"] == public.hex()
    VerifyKey(public).verify(
        connect_proof("here", "1.2.3", public), bytes.fromhex(headers["bollard-runtime-signature"])
    )


async def test_a_challenge_of_another_host_is_not_signed(open_door: Any) -> None:
    door = open_door((200, CHALLENGE))
    with pytest.raises(IncompatiblePeer, match="this key is for there"):
        await sign_headers(door.address, RuntimeKey(secret=make_key().secret, host_id="there"))


@pytest.mark.parametrize("body", [b"hello", b"[]", {}, {"nonce": 1, "host_id": "h"}])
async def test_an_answer_of_another_server_is_reported(open_door: Any, body: Any) -> None:
    door = open_door((200, body))
    with pytest.raises(IncompatiblePeer, match="does not answer like a Bollard host"):
        await sign_headers(door.address, make_key())
    with pytest.raises(IncompatiblePeer, match="does not answer like a Bollard host"):
        enrol(door.address, "code", make_key())


async def test_a_refusal_has_the_message_of_the_host(open_door: Any) -> None:
    door = open_door((401, {"error": {"message": "no", "hint": "enrol"}}))
    with pytest.raises(HandshakeRefused) as refused:
        await sign_headers(door.address, make_key())
    assert (refused.value.status, refused.value.hint) == (401, "enrol")
    assert refused.value.problem.endswith("no")


def _certificate(folder: Path) -> tuple[Path, Path]:
    """One that signs itself, for this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return certificate, secret


async def test_a_certificate_is_verified(open_door: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, secret = _certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, secret)
    door = open_door((200, CHALLENGE), tls=tls)
    with pytest.raises(IncompatiblePeer, match="cannot be verified"):
        await sign_headers(door.address, make_key())
    assert door.asked == []
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert dict(await sign_headers(door.address, make_key()))["bollard-runtime-nonce"] == "1.2.3"


# --- again and again ---


def test_delays_grow_to_a_limit_and_have_jitter() -> None:
    assert retry_delay_s(0, 0.5) == RECONNECT_S
    assert [retry_delay_s(failures, 0.5) for failures in range(4)] == [1.0, 2.0, 4.0, 8.0]
    for failures in (5, 50, 10**6):
        assert (retry_delay_s(failures, 0.0), retry_delay_s(failures, 1.0)) == (
            RECONNECT_MAX_S / 2,
            RECONNECT_MAX_S * 1.5,
        )


class Trying:
    """Counts pauses instead of making them, and connects as often as it is let."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.pauses: list[float] = []
        self.told: list[str] = []
        self.urls: list[str] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    async def connect(self, url: str, headers: list[tuple[str, str]]) -> Any:
        assert len(headers) == 3
        self.urls.append(url)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def dial(self, door: Any, *, again: bool = False) -> Any:
        return await connect_with_retries(
            door.address, make_key(), self.connect, again=again, tell=self.told.append, sleep=self.sleep
        )


async def test_a_broken_line_is_redialled_until_it_is_connected(open_door: Any) -> None:
    door = open_door((503, {"error": {"message": "draining", "hint": "wait"}}), (200, CHALLENGE))
    busy = HandshakeRefused(409, "it is connected already", "end the other")
    trying = Trying(ChannelClosed("cut"), IncompatiblePeer("it took too long", "x"), busy, "a line")
    assert await trying.dial(door) == "a line"
    assert len(trying.pauses) == len(trying.told) == 4
    assert "draining" in trying.told[0]
    assert trying.urls[0] == f"ws://127.0.0.1:{door.address.port}/below/api/v1/runtime/channel"
    for earlier, later in zip(trying.pauses, trying.pauses[2:], strict=False):
        assert earlier < later * 1.5


async def test_a_recently_connected_line_pauses_first(open_door: Any) -> None:
    trying = Trying("a line")
    assert await trying.dial(open_door((200, CHALLENGE)), again=True) == "a line"
    assert len(trying.pauses) == 1
    assert RECONNECT_S / 2 <= trying.pauses[0] <= RECONNECT_S * 1.5


@pytest.mark.parametrize("status", [400, 401, 403, 404, 421])
async def test_a_permanent_refusal_is_raised_at_once(open_door: Any, status: int) -> None:
    refusal = HandshakeRefused(status, "no", "never")
    trying = Trying(refusal)
    with pytest.raises(HandshakeRefused):
        await trying.dial(open_door((200, CHALLENGE)))
    with pytest.raises(HandshakeRefused):
        await trying.dial(open_door((status, {})))
    assert trying.pauses == []
