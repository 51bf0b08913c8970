"""Connects a remote runtime to its host: key file, address, enrolment, signed handshake, and retries with backoff.

Jitter keeps many runtimes from reconnecting at the same moment. A permanent failure is raised instead of retried.
"""

import asyncio
import contextlib
import http.client
import json
import os
import random
import ssl
import stat
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import SplitResult, urlsplit

from bollard.runtime.limits import HANDSHAKE_ANSWER_BYTES, HANDSHAKE_TIMEOUT_S, RECONNECT_MAX_S, RECONNECT_S
from bollard.trust import connect_proof, enrol_proof
from bollard.trust.keys import SigningKey
from bollard.wire import ChannelClosed, IncompatiblePeer, Transport
from bollard.wire.addresses import is_loopback
from bollard.wire.errors import HandshakeRefused
from bollard.wire.runtime_handshake import (
    CHALLENGE_PATH,
    CHANNEL_PATH,
    ENROLMENT_PATH,
    KEY_HEADER,
    NONCE_HEADER,
    SIGNATURE_HEADER,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeKey:
    """The key of a runtime, created on its machine and never sent, and the host that it is for.

    The key file names the host, so that no other host can obtain a signature. `host_id` is `None` before the enrolment.
    """

    secret: bytes
    host_id: str | None = None

    @property
    def signing(self) -> SigningKey:
        return SigningKey(self.secret)

    def __repr__(self) -> str:
        return f"RuntimeKey({self.signing.verify_key.key_id}, host_id={self.host_id!r})"


def load_key(path: Path) -> RuntimeKey:
    """Read the key file. Raises `IncompatiblePeer` with a hint."""
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        detail = getattr(error, "strerror", None) or "it is not text"
        raise IncompatiblePeer(
            f"the key {path} cannot be read: {detail}", "enrol this runtime: --enroll CODE, once"
        ) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise IncompatiblePeer(f"the key {path} is readable by others", f"chmod 600 {path}")
    try:
        body = json.loads(text)
        secret, host_id = bytes.fromhex(body["private_key"]), body["host_id"]
        SigningKey(secret)
    except (ValueError, KeyError, TypeError) as error:
        raise IncompatiblePeer(f"{path} does not hold the key of a runtime", "remove it, and enrol again") from error
    return RuntimeKey(secret=secret, host_id=host_id if isinstance(host_id, str) else None)


def make_key() -> RuntimeKey:
    """Create a key in memory."""
    return RuntimeKey(secret=SigningKey.new_secret())


def save_key(path: Path, key: RuntimeKey) -> None:
    """Write the key file atomically, readable by this user alone. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # created with mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"private_key": key.secret.hex(), "host_id": key.host_id}, file)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


_SCHEMES: Final = {"ws": False, "http": False, "wss": True, "https": True}
_PORTS: Final = {False: 80, True: 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAddress:
    """The address of a host and its path prefix."""

    secure: bool
    host: str
    port: int
    prefix: str

    @property
    def authority(self) -> str:
        """`host:port` as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def socket_url(self, path: str) -> str:
        return f"{'wss' if self.secure else 'ws'}://{self.authority}{self.prefix}{path}"


def read_address(url: str) -> HostAddress:
    """Parse the address of a host. Raises `IncompatiblePeer` if it is invalid or not private. Pure."""
    parts = _split_url(url)
    secure = _SCHEMES.get(parts.scheme)
    if secure is None or not parts.hostname or parts.username is not None or parts.query or parts.fragment:
        raise IncompatiblePeer(f"{url!r} is not the address of a host", "use wss://host, or ws://127.0.0.1:8420")
    require_private(url)
    return HostAddress(
        secure=secure, host=parts.hostname, port=parts.port or _PORTS[secure], prefix=parts.path.rstrip("/")
    )


def require_private(url: str) -> None:
    """Refuse a URL without TLS to another machine. Raises `IncompatiblePeer`. Pure."""
    parts = _split_url(url)
    if not _SCHEMES.get(parts.scheme, True) and not is_loopback(parts.hostname or ""):
        raise IncompatiblePeer(
            f"{url!r} would be spoken in the clear to another machine",
            "use wss://; ws:// is for this machine's own addresses only",
        )


def _split_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise IncompatiblePeer(f"{url!r} is not an address", "use wss://host, or ws://127.0.0.1:8420") from error
    return parts


Enrolment = tuple[str, str]
"""The runtime's name at the host, and the host's id."""


def enrol(address: HostAddress, code: str, key: RuntimeKey) -> Enrolment:
    """Register the public key with the host. Raises `HandshakeRefused`, `IncompatiblePeer` or `ChannelClosed`."""
    signing = key.signing
    public = signing.verify_key.public
    proof = signing.sign(enrol_proof(code, public)).hex()
    answer = _send_request(address, "POST", ENROLMENT_PATH, {"code": code, "public_key": public.hex(), "proof": proof})
    try:
        return str(answer["name"]), str(answer["host_id"])
    except KeyError as error:
        raise _unexpected_answer(address) from error


async def sign_headers(address: HostAddress, key: RuntimeKey) -> list[tuple[str, str]]:
    """Return the handshake headers: the key and a signature of the host's challenge. Raises like `enrol`."""
    answer = await asyncio.to_thread(_send_request, address, "GET", CHALLENGE_PATH, None)
    host_id, nonce = answer.get("host_id"), answer.get("nonce")
    if not isinstance(host_id, str) or not isinstance(nonce, str):
        raise _unexpected_answer(address)
    if key.host_id is not None and host_id != key.host_id:
        raise IncompatiblePeer(
            f"{address.authority} is the host {host_id}, but this key is for {key.host_id}",
            "check the address; for another host enrol with a key of its own: --key FILE --enroll CODE",
        )
    signing = key.signing
    public = signing.verify_key.public
    signature = signing.sign(connect_proof(host_id, nonce, public))
    return [(KEY_HEADER, public.hex()), (NONCE_HEADER, nonce), (SIGNATURE_HEADER, signature.hex())]


def _send_request(address: HostAddress, method: str, path: str, body: dict[str, str] | None) -> dict[str, Any]:
    # The standard library is enough: these requests are rare and small.
    connection = (
        http.client.HTTPSConnection(
            address.host, address.port, timeout=HANDSHAKE_TIMEOUT_S, context=ssl.create_default_context()
        )
        if address.secure
        else http.client.HTTPConnection(address.host, address.port, timeout=HANDSHAKE_TIMEOUT_S)
    )
    try:
        headers = {"accept": "application/json", "connection": "close"}
        raw = None if body is None else json.dumps(body).encode()
        headers = headers if raw is None else {**headers, "content-type": "application/json"}
        connection.request(method, address.prefix + path, raw, headers)
        response = connection.getresponse()
        content = response.read(HANDSHAKE_ANSWER_BYTES)
    except ssl.SSLCertVerificationError as error:
        raise IncompatiblePeer(
            f"the certificate of {address.authority} cannot be verified: {error.verify_message}",
            "use the name that is in the certificate; SSL_CERT_FILE names an authority of your own",
        ) from error
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        raise ChannelClosed(f"{address.authority} cannot be reached: {error}") from error
    finally:
        connection.close()
    if response.status >= 400:
        raise HandshakeRefused.read(response.status, content, "this runtime")
    try:
        answer = json.loads(content)
    except ValueError as error:
        raise _unexpected_answer(address) from error
    if not isinstance(answer, dict):
        raise _unexpected_answer(address)
    return cast("dict[str, Any]", answer)


def _unexpected_answer(address: HostAddress) -> IncompatiblePeer:
    return IncompatiblePeer(
        f"{address.authority} does not answer like a Bollard host", "check the address, and the versions on both sides"
    )


_PERMANENT_STATUSES: Final = frozenset({400, 401, 403, 404, 405, 421, 426})
"""HTTP statuses that a retry would get again."""
Connect = Callable[[str, list[tuple[str, str]]], Awaitable[Transport]]
"""Opens a WebSocket at a URL with headers."""


def retry_delay_s(failures: int, chance: float) -> float:
    """Return the delay before the next retry; `chance` is between 0 and 1. Pure."""
    return min(RECONNECT_MAX_S, RECONNECT_S * 2 ** min(failures, 16)) * (0.5 + chance)


async def connect_with_retries(
    address: HostAddress,
    key: RuntimeKey,
    connect: Connect,
    *,
    again: bool,
    tell: Callable[[str], None],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Transport:
    """Connect, and retry until the handshake succeeds. `again` waits before the first attempt.

    Raises `IncompatiblePeer` for a permanent failure.
    """
    failures = 0
    if again:
        await sleep(retry_delay_s(0, random.random()))  # noqa: S311 -- no secret
    while True:
        try:
            headers = await sign_headers(address, key)
            return await _connect(connect, address, headers)
        except HandshakeRefused as error:
            if error.status in _PERMANENT_STATUSES:
                raise
            problem = error.problem
        except ChannelClosed as error:
            problem = error.reason
        wait_s = retry_delay_s(failures, random.random())  # noqa: S311 -- no secret
        failures += 1
        tell(f"{problem}; trying again in {wait_s:.1f} s")
        await sleep(wait_s)


async def _connect(connect: Connect, address: HostAddress, headers: list[tuple[str, str]]) -> Transport:
    """Connect once. An interrupted or slow handshake counts as a lost connection, so that it is retried."""
    try:
        return await connect(address.socket_url(CHANNEL_PATH), headers)
    except HandshakeRefused:
        raise
    except IncompatiblePeer as error:
        raise ChannelClosed(error.problem) from error
