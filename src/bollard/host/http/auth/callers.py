"""The caller of a request: found by its admin token, API key or session, in a header or a cookie.

This runs for every request, so it is one lookup by the digest of the token. The edge has already checked whether the
page may use the cookie.
"""

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Final, Protocol, cast

from msgspec.structs import replace
from starlette.requests import HTTPConnection
from starlette.types import Scope

from bollard.host.clock import Clock
from bollard.host.errors import Forbidden, HostError, Unauthenticated
from bollard.host.identity.caller import DEFAULT_WORKSPACE, Caller, installation
from bollard.host.identity.directory import IdentityDirectory
from bollard.host.identity.workspaces import WORKSPACE
from bollard.host.scope import Actor
from bollard.trust import make_folder, sync_folder

COOKIE: Final = "bollard-{port}"
"""Browsers share cookies between the ports of a machine, so the name carries the port of the URL."""
SECURE_COOKIE: Final = "__Host-bollard"
"""Used over TLS: a browser accepts it from this host only."""


_HTTP_PORT: Final = "80"


def cookie_name(connection: HTTPConnection) -> str:
    """The name of the session's cookie for the URL that the client uses."""
    return _cookie_name(connection.scope["scheme"], connection.headers.get("host", ""))


def _cookie_name(scheme: str, host: str) -> str:
    if scheme in ("https", "wss"):
        return SECURE_COOKIE
    port = host.rpartition(":")[2]  # the edge has checked the header; `[::1]` has no port
    return COOKIE.format(port=port if port.isdigit() and ":" in host else _HTTP_PORT)


def token_of(connection: HTTPConnection) -> str | None:
    """The token in the `Authorization` header, otherwise in the cookie."""
    token, _ = _read_credentials(connection)
    return None if token is None else token.decode("latin-1")


def _read_credentials(connection: HTTPConnection) -> tuple[bytes | None, bytes | None]:
    """The token and the workspace that a request names, in one pass over its headers. The cookie does not count when
    there is an `Authorization` header, even without a token."""
    authorization: bytes | None = None
    cookies: bytes | None = None
    workspace: bytes | None = None
    host = b""
    for name, value in connection.scope["headers"]:
        if name == b"authorization":
            authorization = value  # the edge refuses a request with two of them
        elif name == b"bollard-workspace":
            workspace = value
        elif name == b"host":
            host = value
        elif name == b"cookie":
            cookies = value if cookies is None else cookies + b"; " + value
    if authorization is not None:
        scheme, _, token = authorization.partition(b" ")
        return (token.strip() or None if scheme.lower() == b"bearer" else None), workspace
    if cookies is None:
        return None, workspace
    wanted = _cookie_name(connection.scope["scheme"], host.decode("latin-1"))
    return _find_cookie(cookies, wanted.encode()), workspace


def _find_cookie(cookies: bytes, wanted: bytes) -> bytes | None:
    for part in cookies.split(b";"):
        name, _, value = part.strip().partition(b"=")
        if name == wanted:
            return value or None
    return None


class AdminToken:
    """The admin token, which has every right: created at the first start, shown once, stored as a digest."""

    def __init__(self, digest: str) -> None:
        self._digest = digest

    @classmethod
    def open(cls, path: Path) -> "tuple[AdminToken, str | None]":
        """Load or create the token. Returns the token itself only when it was created."""
        if path.exists():
            return cls(path.read_text(encoding="ascii").strip()), None
        token = f"bollard_{secrets.token_urlsafe(32)}"
        digest = hashlib.sha256(token.encode()).hexdigest()
        make_folder(path.parent)
        fresh = path.with_suffix(".new")  # atomic: half a digest would lock everyone out
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(digest + "\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        sync_folder(path.parent)  # a token that was shown must survive a power loss
        return cls(digest), token

    @property
    def mark(self) -> str:
        """Stands for this token where its sessions are stored."""
        return hashlib.sha256(self._digest.encode()).hexdigest()[:16]

    def allows(self, authorization: str | None) -> bool:
        """Whether an `Authorization` header has the token."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return False
        return self.matches(hashlib.sha256(token.strip().encode()).hexdigest())

    def matches(self, digest: str) -> bool:
        """Whether this is the digest of the token."""
        return hmac.compare_digest(digest, self._digest)


class IdentityAuthenticator:
    """Authenticates holders of the admin token, of API keys and of sessions."""

    def __init__(self, token: AdminToken, directory: IdentityDirectory, clock: Clock) -> None:
        self._token = token
        self._callers = directory.callers
        self._workspaces = directory.workspaces
        self._clock = clock
        self._installations: dict[str, Caller] = {}

    def authenticate(self, connection: HTTPConnection) -> Caller | HostError:
        token, named = _read_credentials(connection)
        if token is None:
            return Unauthenticated()
        digest = hashlib.sha256(token).hexdigest()
        wanted = None if named is None else named.decode("latin-1")
        if self._token.matches(digest):
            return self._installation(DEFAULT_WORKSPACE if wanted is None else wanted)
        caller = self._callers.find(digest, self._clock.now_ms())
        if caller is None:
            return Unauthenticated()
        if caller.kind == "installation":
            workspace = DEFAULT_WORKSPACE if wanted is None else wanted
            return replace(caller, workspace=workspace) if self._workspaces.is_open(workspace) else WORKSPACE.missing()
        # Foreign and missing workspaces look the same.
        return caller if wanted is None or wanted == caller.workspace else WORKSPACE.missing()

    def _installation(self, workspace: str) -> Caller | HostError:
        if not self._workspaces.is_open(workspace):
            return WORKSPACE.missing()
        caller = self._installations.get(workspace)
        if caller is None:
            caller = self._installations[workspace] = installation(workspace)
        return caller


# --- the caller of a request that the guard admitted ---

_CALLER: Final = "bollard.caller"


class Authenticator(Protocol):
    """Finds the caller of a request. Called for every request, so it must be cheap."""

    def authenticate(self, connection: HTTPConnection) -> Caller | HostError:
        """The caller, or the error to send."""
        ...


def caller_of(connection: HTTPConnection) -> Caller:
    """The caller that the guard admitted. An open operation has none: calling this there is a bug."""
    return cast("Caller", connection.scope[_CALLER])


def caller_in(scope: Scope) -> Caller | None:
    """The caller, or `None` for an open operation."""
    return cast("Caller | None", scope.get(_CALLER))


def give_caller(connection: HTTPConnection, caller: Caller) -> None:
    """Set the caller. Called by the guard."""
    connection.scope[_CALLER] = caller


def bearer_of(connection: HTTPConnection) -> str | None:
    """The token of an `Authorization` header."""
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def speaker(caller: Caller, named: Actor | None) -> Actor | None:
    """The actor of a message: the caller, or another one that the caller may assume. Raises `Forbidden`."""
    own = caller.actor
    if own is None:
        return named
    if named is None:
        return own
    if named != own and not caller.may("actors.assume"):
        raise Forbidden(
            "this caller speaks in its own name only",
            reason="actor",
            hint="leave out actor, or use a key with the right actors.assume",
            right="actors.assume",
        )
    return named
