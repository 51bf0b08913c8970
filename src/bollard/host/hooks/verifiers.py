"""Verifies requests of webhook routes. Pure.

A signature is an HMAC over the body and often a time; a body is hashed in pieces, so that a large one need not be in
memory. Other proofs are in the headers alone. Comparisons take constant time.
"""

import base64
import binascii
import hmac
import math
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from bollard.host.channels.signing import SignatureClaim, read_seal
from bollard.host.hooks.limits import HOOK_TOLERANCE_S, SIGNATURES
from bollard.host.hooks.verifier import AUTHORIZATION, GITLAB_TOKEN, STRIPE, HmacScheme, Verifier

Verdict = Literal["verified", "missing", "malformed", "late", "forged", "untrusted"]
"""`untrusted`: the header of a client certificate did not come from a trusted proxy."""
Headers = Mapping[str, str]
"""Headers by name in lower case, without those that occur twice."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """The signatures in the headers of a request, not verified yet."""

    algorithm: str = "sha256"
    before: bytes = b""
    after: bytes = b""
    """What is signed before and after the body."""
    signatures: tuple[bytes, ...]


class Verification:
    """The verification of one request, whose body comes in pieces."""

    def __init__(
        self, verifier: Verifier, secret: str, headers: Headers, now_s: float, *, proxied: bool = False
    ) -> None:
        """`proxied`: a trusted proxy sent the request."""
        self._claim: Claim | None = None
        self._digest: hmac.HMAC | None = None
        self._verdict: Verdict = "forged"
        read = _read(verifier, secret, headers, now_s, proxied=proxied)
        if isinstance(read, Claim):
            self._claim = read
            self._digest = hmac.new(verifier.key(secret), read.before, read.algorithm)
        else:
            self._verdict = read

    def update(self, piece: bytes) -> None:
        if self._digest is not None:
            self._digest.update(piece)

    @property
    def is_open(self) -> bool:
        """Whether the request may still be verified: its headers have a valid proof, or a signature to compare."""
        return self._claim is not None or self._verdict == "verified"

    def verdict(self) -> Verdict:
        """Whether the request is verified, after the last piece."""
        if self._claim is None or self._digest is None:
            return self._verdict
        whole = self._digest.copy()
        whole.update(self._claim.after)
        expected, fits = whole.digest(), False
        for signature in self._claim.signatures:  # all of them, to keep the time constant
            fits |= hmac.compare_digest(expected, signature)
        return "verified" if fits else "forged"


def verify(
    verifier: Verifier, secret: str, headers: Headers, body: bytes, now_s: float, *, proxied: bool = False
) -> Verdict:
    """Verify a request whose body is in memory."""
    verification = Verification(verifier, secret, headers, now_s, proxied=proxied)
    verification.update(body)
    return verification.verdict()


def sole_headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The headers that occur once. Of two headers of one name, a proxy may have checked the other one."""
    found: dict[str, str] = {}
    repeated: set[str] = set()
    for name, value in raw:
        text = name.decode("latin-1")
        if text in found:
            repeated.add(text)
        found[text] = value.decode("latin-1")
    return {name: value for name, value in found.items() if name not in repeated} if repeated else found


# --- the proof in the headers ---


def _read(verifier: Verifier, secret: str, headers: Headers, now_s: float, *, proxied: bool) -> Claim | Verdict:
    tolerance_s = verifier.tolerance_s or HOOK_TOLERANCE_S
    if verifier.is_standard(secret):
        return _standard(headers, now_s)
    if (scheme := verifier.scheme) is not None:
        return _claim(scheme, headers, now_s, tolerance_s)
    match verifier.kind:
        case "stripe":
            return _stripe(headers, now_s, tolerance_s)
        case "gitlab":
            return _same(headers, GITLAB_TOKEN, secret)
        case "bearer":
            return _bearer(verifier, secret, headers)
        case "basic":
            return _basic(f"{verifier.username}:{secret}", headers)
        case _:
            return _same(headers, verifier.token_header, verifier.value or "") if proxied else "untrusted"


def _standard(headers: Headers, now_s: float) -> Claim | Verdict:
    claim = read_seal(headers, now_s)
    if not isinstance(claim, SignatureClaim):
        return claim
    return Claim(before=f"{claim.message_id}.{claim.seconds}.".encode(), signatures=claim.signatures)


def _claim(scheme: HmacScheme, headers: Headers, now_s: float, tolerance_s: int) -> Claim | Verdict:
    text = headers.get(scheme.header)
    stamp = "" if scheme.timestamp is None else headers.get(scheme.timestamp, "")
    if not text or (scheme.timestamp is not None and not stamp):
        return "missing"
    signature = _decoded(text.removeprefix(scheme.prefix), scheme.encoding) if text.startswith(scheme.prefix) else None
    if signature is None:
        return "malformed"
    if scheme.timestamp is not None and (fault := _time_fault(stamp, now_s, tolerance_s)) is not None:
        return fault
    before, after = scheme.around(stamp)
    return Claim(algorithm=scheme.algorithm, before=before, after=after, signatures=(signature,))


def _stripe(headers: Headers, now_s: float, tolerance_s: int) -> Claim | Verdict:
    """`t=SECONDS,v1=HEX,v1=HEX`; other schemes are ignored."""
    if not (text := headers.get(STRIPE)):
        return "missing"
    pairs = [item.strip().partition("=") for item in text.split(",")[: 2 * SIGNATURES]]
    stamps = [value for name, _, value in pairs if name == "t"]
    signatures = [_decoded(value, "hex") for name, _, value in pairs if name == "v1"][:SIGNATURES]
    valid = tuple(each for each in signatures if each is not None)
    if len(stamps) != 1 or not valid:
        return "malformed"
    fault = _time_fault(stamps[0], now_s, tolerance_s)
    return Claim(before=f"{stamps[0]}.".encode(), signatures=valid) if fault is None else fault


def _time_fault(stamp: str, now_s: float, tolerance_s: int) -> Verdict | None:
    if not stamp.isascii() or not stamp.isdigit() or len(stamp) > 12:
        return "malformed"
    return "late" if math.fabs(now_s - int(stamp)) > tolerance_s else None


def _decoded(text: str, encoding: str) -> bytes | None:
    """The bytes of a signature; `None` unless the text is their only spelling, apart from the case of hex digits."""
    try:
        if encoding == "hex":
            return binascii.unhexlify(text)
        decoded = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return None
    return decoded if base64.b64encode(decoded).decode() == text else None


def _same(headers: Headers, header: str, expected: str) -> Verdict:
    given = headers.get(header)
    if not given:
        return "missing"
    return "verified" if _equal(given, expected) else "forged"


def _bearer(verifier: Verifier, secret: str, headers: Headers) -> Verdict:
    given, prefix = headers.get(verifier.token_header, ""), verifier.token_prefix
    if not given:
        return "missing"
    if given[: len(prefix)].lower() != prefix.lower():  # HTTP says that the case of `Bearer` does not matter
        return "malformed"
    return "verified" if _equal(given[len(prefix) :], secret) else "forged"


def _basic(expected: str, headers: Headers) -> Verdict:
    given = headers.get(AUTHORIZATION, "")
    scheme, _, encoded = given.partition(" ")
    if scheme.lower() != "basic":
        return "malformed" if given else "missing"
    decoded = _decoded(encoded, "base64")
    if decoded is None:
        return "malformed"
    return "verified" if hmac.compare_digest(decoded, expected.encode()) else "forged"


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("latin-1", "replace"), expected.encode())
