"""Proofs of senders: the vectors that senders publish, and requests that are not quite right."""

import base64
import hashlib
import hmac
import string
from typing import Any

import pytest
from pydantic import ValidationError
from tests.tables import for_each

from bollard.host.hooks.samples import signed_headers
from bollard.host.hooks.verifier import Verifier
from bollard.host.hooks.verifiers import sole_headers, verify

NOW = 1_794_735_484
SECRET = "a secret of 24 characters"
SIGNING = "whsec_" + base64.b64encode(b"k" * 32).decode()
BODY = b'{"id": "evt_1", "action": "opened"}'
KINDS: list[dict[str, Any]] = [
    {"kind": "standard"},
    {"kind": "github"},
    {"kind": "gitlab"},
    {"kind": "stripe"},
    {"kind": "slack"},
    {"kind": "hmac", "header": "X-Signature"},
    {"kind": "hmac", "header": "X-Signature", "algorithm": "sha1", "prefix": "sha1="},
    {"kind": "hmac", "header": "X-Signature", "algorithm": "sha512", "encoding": "base64"},
    {"kind": "hmac", "header": "X-S", "timestamp_header": "X-Time", "signed": "<{timestamp}:{body}>"},
    {"kind": "bearer"},
    {"kind": "bearer", "header": "X-Api-Key"},
    {"kind": "basic", "username": "hook"},
]
SIGNED = [kind for kind in KINDS if kind["kind"] not in ("gitlab", "bearer", "basic")]


def verifier(**fields: Any) -> Verifier:
    return Verifier.from_wire(fields)


def secret_of(kind: dict[str, Any]) -> str:
    return SIGNING if kind["kind"] == "standard" else SECRET


# --- vectors of the senders' own documentation ---


def test_the_example_of_github_is_verified() -> None:
    headers = {"x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}
    assert verify(verifier(kind="github"), "It's a Secret to Everybody", headers, b"Hello, World!", NOW) == "verified"


def test_the_example_of_slack_is_verified() -> None:
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    headers = {
        "x-slack-request-timestamp": "1531420618",
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    secret = "8f742231b10e8888abcd99yyyzzz85a5"
    assert verify(verifier(kind="slack"), secret, headers, body, 1_531_420_618) == "verified"
    assert verify(verifier(kind="slack"), secret, headers, body, NOW) == "late"


def test_the_example_of_standard_webhooks_is_verified() -> None:
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    assert verify(verifier(kind="standard"), secret, headers, body, 1_614_265_330) == "verified"
    assert verify(verifier(kind="gitlab"), secret, headers, body, 1_614_265_330) == "verified"


def test_a_header_of_stripe_may_have_several_signatures_and_schemes() -> None:
    stamped = f"{NOW}.".encode() + BODY
    right = hmac.new(SECRET.encode(), stamped, hashlib.sha256).hexdigest()
    for text in (f"t={NOW},v1={right}", f"t={NOW},v0=aa,v1={'00' * 32},v1={right}", f"v1={right}, t={NOW}"):
        assert verify(verifier(kind="stripe"), SECRET, {"stripe-signature": text}, BODY, NOW) == "verified", text
    for text in (f"t={NOW},v0={right}", f"v1={right}", f"t={NOW},t={NOW},v1={right}", "t=,v1=", "nonsense"):
        assert verify(verifier(kind="stripe"), SECRET, {"stripe-signature": text}, BODY, NOW) == "malformed", text


# --- every kind ---


@for_each("kind", KINDS)
def test_a_sample_is_verified_as_its_senders_request(kind: dict[str, Any]) -> None:
    secret, chosen = secret_of(kind), verifier(**kind)
    headers = signed_headers(chosen, secret, BODY, NOW, "msg-1")
    assert verify(chosen, secret, headers, BODY, NOW) == "verified"
    assert verify(chosen, secret, {}, BODY, NOW) == "missing"
    other = SIGNING[:-4] + "bGw=" if kind["kind"] == "standard" else "another secret of this route"
    assert verify(chosen, other, headers, BODY, NOW) == "forged"


@for_each("kind", SIGNED)
def test_a_changed_byte_anywhere_in_the_body_is_refused(kind: dict[str, Any]) -> None:
    secret, chosen = secret_of(kind), verifier(**kind)
    headers = signed_headers(chosen, secret, BODY, NOW, "msg-1")
    for place in range(len(BODY)):
        changed = BODY[:place] + bytes([BODY[place] ^ 1]) + BODY[place + 1 :]
        assert verify(chosen, secret, headers, changed, NOW) == "forged", place
    for body in (BODY[:-1], BODY + b" ", b""):
        assert verify(chosen, secret, headers, body, NOW) == "forged"


@for_each("kind", KINDS)
def test_a_changed_character_anywhere_in_a_proof_is_refused(kind: dict[str, Any]) -> None:
    secret, chosen = secret_of(kind), verifier(**kind)
    headers = signed_headers(chosen, secret, BODY, NOW, "msg-1")
    unsigned = {"x-github-delivery", "idempotency-key"}
    for name, value in headers.items():
        if name in unsigned:
            continue
        for place, character in enumerate(value):
            if character == "=" and place == len(value) - 1 and kind["kind"] == "standard":
                continue
            if character.isalpha() and name == "authorization" and place < len("Bearer"):
                continue  # its case does not matter
            # Bit 2 is a part of the value in every encoding: the lowest bits of the last base64 digit are not.
            changed = value[:place] + chr(ord(character) ^ 4) + value[place + 1 :]
            verdict = verify(chosen, secret, {**headers, name: changed}, BODY, NOW)
            assert verdict in ("forged", "malformed", "late", "missing"), (name, place, changed)
        assert verify(chosen, secret, {**headers, name: value[:-1]}, BODY, NOW) != "verified"
        assert verify(chosen, secret, {**headers, name: value + "0"}, BODY, NOW) != "verified"


@for_each("kind", [kind for kind in SIGNED if kind["kind"] in ("standard", "stripe", "slack") or "signed" in kind])
def test_an_old_or_future_request_is_late(kind: dict[str, Any]) -> None:
    secret, chosen = secret_of(kind), verifier(**kind)
    headers = signed_headers(chosen, secret, BODY, NOW, "msg-1")
    for distance in (-301, 301, 86_400):
        assert verify(chosen, secret, headers, BODY, NOW + distance) == "late"
    for distance in (-300, 300):
        assert verify(chosen, secret, headers, BODY, NOW + distance) == "verified"


def test_a_tolerance_of_ones_own_is_used() -> None:
    chosen = verifier(kind="slack", tolerance_s=10)
    headers = signed_headers(chosen, SECRET, BODY, NOW, "m")
    assert verify(chosen, SECRET, headers, BODY, NOW + 10) == "verified"
    assert verify(chosen, SECRET, headers, BODY, NOW + 11) == "late"


@for_each("stamp", ["", "-5", "1e9", "१७९४", "9" * 13, " 1794735484", "1794735484.5"])
def test_a_time_that_is_no_number_is_malformed(stamp: str) -> None:
    chosen = verifier(kind="slack")
    headers = {**signed_headers(chosen, SECRET, BODY, NOW, "m"), "x-slack-request-timestamp": stamp}
    assert verify(chosen, SECRET, headers, BODY, NOW) in ("malformed", "missing")


def test_a_signature_has_one_spelling_in_base64() -> None:
    chosen = verifier(kind="hmac", header="X-S", encoding="base64")
    signed = signed_headers(chosen, SECRET, BODY, NOW, "m")["x-s"]
    digits = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    other = signed[:-2] + digits[digits.index(signed[-2]) ^ 1] + "="
    assert base64.b64decode(other) == base64.b64decode(signed)
    assert verify(chosen, SECRET, {"x-s": other}, BODY, NOW) == "malformed"


def test_a_signing_token_of_gitlab_is_no_plain_token() -> None:
    chosen = verifier(kind="gitlab")
    assert verify(chosen, SIGNING, {"x-gitlab-token": SIGNING}, BODY, NOW) == "missing"
    assert verify(chosen, SECRET, {"x-gitlab-token": SECRET}, BODY, NOW) == "verified"


def test_a_certificate_counts_only_from_a_trusted_proxy() -> None:
    chosen = verifier(kind="mtls", header="X-Client-Cert", value="CN=ci")
    headers = {"x-client-cert": "CN=ci"}
    assert verify(chosen, "", headers, BODY, NOW) == "untrusted"
    assert verify(chosen, "", headers, BODY, NOW, proxied=True) == "verified"
    assert verify(chosen, "", {"x-client-cert": "CN=cj"}, BODY, NOW, proxied=True) == "forged"
    assert verify(chosen, "", {}, BODY, NOW, proxied=True) == "missing"


def test_a_header_that_occurs_twice_is_no_header() -> None:
    raw = [(b"x-a", b"1"), (b"x-b", b"2"), (b"x-a", b"1")]
    assert sole_headers(raw) == {"x-b": "2"}
    assert sole_headers(raw[:2]) == {"x-a": "1", "x-b": "2"}


# --- the shape ---


@for_each(
    "fields",
    [
        {"kind": "smoke"},
        {"kind": "github", "header": "X-A"},
        {"kind": "github", "tolerance_s": 5},
        {"kind": "hmac"},
        {"kind": "hmac", "header": "X A"},
        {"kind": "hmac", "header": "X-A", "signed": "no body"},
        {"kind": "hmac", "header": "X-A", "signed": "{body}{body}"},
        {"kind": "hmac", "header": "X-A", "timestamp_header": "X-T"},
        {"kind": "hmac", "header": "X-A", "signed": "{timestamp}{body}"},
        {"kind": "hmac", "header": "X-A", "algorithm": "md5"},
        {"kind": "basic"},
        {"kind": "basic", "username": "a:b"},
        {"kind": "mtls", "header": "X-A"},
        {"kind": "slack", "tolerance_s": 0},
        {"kind": "slack", "tolerance_s": 3601},
        {},
    ],
)
def test_a_verifier_that_cannot_work_is_refused(fields: Any) -> None:
    with pytest.raises(ValidationError):
        verifier(**fields)
