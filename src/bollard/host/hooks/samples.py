"""Requests as their senders sign them, to test a webhook route. Pure."""

import base64
import hmac

from bollard.host.channels.signing import secret_bytes, sign
from bollard.host.hooks.verifier import AUTHORIZATION, GITLAB_TOKEN, STRIPE, HmacScheme, Verifier


def signed_headers(verifier: Verifier, secret: str, body: bytes, now_s: float, message_id: str) -> dict[str, str]:
    """The headers with which a sender of this kind would send the body."""
    seconds = int(now_s)
    if verifier.is_standard(secret):
        return sign(secret_bytes(secret), message_id, seconds, body)
    if (scheme := verifier.scheme) is not None:
        delivery = {"x-github-delivery": message_id} if verifier.kind == "github" else {}
        return {**_signature(scheme, secret, body, seconds), **delivery}
    match verifier.kind:
        case "gitlab":
            return {GITLAB_TOKEN: secret, "idempotency-key": message_id}
        case "stripe":
            digest = hmac.new(secret.encode(), f"{seconds}.".encode() + body, "sha256").hexdigest()
            return {STRIPE: f"t={seconds},v1={digest}"}
        case "bearer":
            return {verifier.token_header: verifier.token_prefix + secret}
        case "basic":
            return {AUTHORIZATION: "Basic " + base64.b64encode(f"{verifier.username}:{secret}".encode()).decode()}
        case _:
            return {verifier.token_header: verifier.value or ""}


def _signature(scheme: HmacScheme, secret: str, body: bytes, seconds: int) -> dict[str, str]:
    before, after = scheme.around(str(seconds))
    digest = hmac.new(secret.encode(), before + body + after, scheme.algorithm).digest()
    shown = digest.hex() if scheme.encoding == "hex" else base64.b64encode(digest).decode()
    stamp = {} if scheme.timestamp is None else {scheme.timestamp: str(seconds)}
    return {scheme.header: scheme.prefix + shown, **stamp}
