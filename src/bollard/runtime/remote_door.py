"""How a remote runtime comes in: enrolled once with a code, and from then on by signing what the host asks it to sign.

Plain requests of the standard library, in a thread: they are rare, and small.
"""

import asyncio
import http.client
import json
import ssl
from typing import Any, cast

from bollard.runtime.host_address import HostAddress
from bollard.runtime.key_file import RuntimeKey
from bollard.runtime.limits import DOOR_ANSWER_BYTES, DOOR_S
from bollard.trust import connect_proof, enrol_proof
from bollard.wire import ChannelClosed, IncompatiblePeer
from bollard.wire.errors import HandshakeRefused
from bollard.wire.remote_door import CHALLENGE_PATH, ENROLMENT_PATH, KEY_HEADER, NONCE_HEADER, SIGNATURE_HEADER

__all__ = ["Enrolment", "enrol", "signed_headers"]

Enrolment = tuple[str, str]
"""The name that the host has for the runtime, and the host's id."""


def enrol(address: HostAddress, code: str, key: RuntimeKey) -> Enrolment:
    """Give the host the public half of the key. Raises `HandshakeRefused`, `IncompatiblePeer`, `ChannelClosed`."""
    signing = key.signing
    public = signing.verify_key.public
    proof = signing.sign(enrol_proof(code, public)).hex()
    answer = _ask(address, "POST", ENROLMENT_PATH, {"code": code, "public_key": public.hex(), "proof": proof})
    try:
        return str(answer["name"]), str(answer["host_id"])
    except KeyError as error:
        raise _strange(address) from error


async def signed_headers(address: HostAddress, key: RuntimeKey) -> list[tuple[str, str]]:
    """What the head of the handshake says: which key, and that it is ours. Raises as `enrol` does."""
    answer = await asyncio.to_thread(_ask, address, "GET", CHALLENGE_PATH, None)
    host_id, nonce = answer.get("host_id"), answer.get("nonce")
    if not isinstance(host_id, str) or not isinstance(nonce, str):
        raise _strange(address)
    if key.host_id is not None and host_id != key.host_id:
        raise IncompatiblePeer(
            f"{address.authority} is the host {host_id}, but this key is for {key.host_id}",
            "check the address; for another host enrol with a key of its own: --key FILE --enroll CODE",
        )
    signing = key.signing
    public = signing.verify_key.public
    signature = signing.sign(connect_proof(host_id, nonce, public))
    return [(KEY_HEADER, public.hex()), (NONCE_HEADER, nonce), (SIGNATURE_HEADER, signature.hex())]


def _ask(address: HostAddress, method: str, path: str, body: dict[str, str] | None) -> dict[str, Any]:
    connection = (
        http.client.HTTPSConnection(address.host, address.port, timeout=DOOR_S, context=ssl.create_default_context())
        if address.secure
        else http.client.HTTPConnection(address.host, address.port, timeout=DOOR_S)
    )
    try:
        headers = {"accept": "application/json", "connection": "close"}
        raw = None if body is None else json.dumps(body).encode()
        connection.request(method, address.prefix + path, raw, headers if raw is None else _json(headers))
        response = connection.getresponse()
        content = response.read(DOOR_ANSWER_BYTES)
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
        raise _strange(address) from error
    if not isinstance(answer, dict):
        raise _strange(address)
    return cast("dict[str, Any]", answer)


def _json(headers: dict[str, str]) -> dict[str, str]:
    return {**headers, "content-type": "application/json"}


def _strange(address: HostAddress) -> IncompatiblePeer:
    return IncompatiblePeer(
        f"{address.authority} does not answer like a Bollard host", "check the address, and the versions on both sides"
    )
