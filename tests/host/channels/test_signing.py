"""Signatures according to Standard Webhooks: valid, late and forged ones."""

from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.channels.signing import SignatureClaim, new_secret, read_seal, secret_bytes, sign
from bollard.host.limits import WEBHOOK_SKEW_S

NOW = 1_700_000_000
KEY = b"k" * 32
BODY = b'{"hello": "world"}'


def judged(headers: dict[str, str], body: bytes = BODY, *, key: bytes = KEY, now: float = NOW) -> Any:
    seal = read_seal(headers, now)
    if not isinstance(seal, SignatureClaim):
        return seal
    digest = seal.begin(key)
    for start in range(0, len(body), 5):  # as it comes in, piece by piece
        digest.update(body[start : start + 5])
    return seal.fits(digest)


def test_the_example_of_the_specification_has_the_published_signature() -> None:
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    made = sign(secret_bytes(secret), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert made["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_signature_verifies_and_one_changed_byte_breaks_it() -> None:
    headers = sign(KEY, "msg_1", NOW, BODY)
    assert judged(headers) is True
    assert judged(headers, BODY + b" ") is False
    assert judged({**headers, "webhook-id": "msg_2"}) is False
    assert judged({**headers, "webhook-timestamp": str(NOW + 1)}) is False
    assert judged(headers, key=b"other" * 8) is False


def test_one_of_several_signatures_is_enough_during_a_secret_rotation() -> None:
    old, new = sign(b"old" * 11, "m", NOW, BODY), sign(KEY, "m", NOW, BODY)
    both = f"{old['webhook-signature']} v2,future {new['webhook-signature']}"
    assert judged({**new, "webhook-signature": both}) is True


@for_each("beside", ["v1,!!!", "v1,\xe9", "v1", "v1,", "nonsense", "v1,QUJD"])
def test_an_entry_that_is_no_signature_is_skipped(beside: str) -> None:
    headers = sign(KEY, "m", NOW, BODY)
    for listed in (f"{beside} {headers['webhook-signature']}", f"{headers['webhook-signature']} {beside}"):
        assert judged({**headers, "webhook-signature": listed}) is True


@pytest.mark.parametrize("skew", [-WEBHOOK_SKEW_S - 1, WEBHOOK_SKEW_S + 1])
def test_old_and_future_signatures_are_refused(skew: float) -> None:
    headers = sign(KEY, "m", NOW, BODY)
    assert judged(headers, now=NOW + skew) == "late"
    assert judged(headers, now=NOW + skew * 0.9) is True


@for_each(
    ("changed", "fault"),
    [
        ({"webhook-id": ""}, "missing"),
        ({"webhook-signature": ""}, "missing"),
        ({"webhook-timestamp": "soon"}, "malformed"),
        ({"webhook-timestamp": "-1700000000"}, "malformed"),
        ({"webhook-timestamp": "٣"}, "malformed"),
        ({"webhook-id": "x" * 300}, "malformed"),
        ({"webhook-id": "a\x00b"}, "malformed"),
        ({"webhook-signature": "v1,!!!"}, "malformed"),
        ({"webhook-signature": "v1,\xe9\xe9"}, "malformed"),
        ({"webhook-signature": "v2,AAAA"}, "malformed"),
    ],
)
def test_faulty_signature_headers_have_different_reasons(changed: dict[str, str], fault: str) -> None:
    assert judged({**sign(KEY, "m", NOW, BODY), **changed}) == fault


def test_secrets_are_generated_and_checked() -> None:
    assert len(secret_bytes(new_secret())) == 32
    assert new_secret() != new_secret()
    for wrong in ("", "secret", "whsec_", "whsec_!", "whsec_" + "A" * 8, "whsec_" + "A" * 400):
        with pytest.raises(ValueError, match="signing secret"):
            secret_bytes(wrong)
