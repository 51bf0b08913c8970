"""Challenges: good once, for a while, at one host, for the key that signed them."""

from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.limits import RUNTIME_CHALLENGE_S
from bollard.host.runtimes.enrolment import Challenges
from bollard.trust import connect_proof
from bollard.trust.keys import SigningKey

KEY = SigningKey(b"k" * 32)
PUBLIC = KEY.verify_key.public


@pytest.fixture
def challenges(clock: ManualClock) -> Challenges:
    return Challenges("here", clock)


def signed(nonce: str, host_id: str = "here", key: SigningKey = KEY) -> str:
    return key.sign(connect_proof(host_id, nonce, key.verify_key.public)).hex()


def test_a_signed_challenge_is_valid_once(challenges: Challenges) -> None:
    nonce, _ = challenges.issue()
    assert challenges.answer(nonce, PUBLIC.hex(), signed(nonce))
    assert not challenges.answer(nonce, PUBLIC.hex(), signed(nonce))


def test_a_challenge_expires(challenges: Challenges, clock: ManualClock) -> None:
    early, _ = challenges.issue()
    clock.advance(RUNTIME_CHALLENGE_S - 0.01)
    late, expires_ms = challenges.issue()
    assert challenges.answer(early, PUBLIC.hex(), signed(early))
    clock.advance(RUNTIME_CHALLENGE_S)
    assert expires_ms == clock.now_ms()
    assert not challenges.answer(late, PUBLIC.hex(), signed(late))


def test_a_signature_for_another_host_or_by_another_key_is_refused(challenges: Challenges) -> None:
    nonce, _ = challenges.issue()
    other = SigningKey(b"o" * 32)
    for signature in (signed(nonce, "there"), signed(nonce, key=other)):
        assert not challenges.answer(nonce, PUBLIC.hex(), signature)
    assert challenges.answer(nonce, PUBLIC.hex(), signed(nonce)), "a wrong try uses nothing up"


def test_a_restart_invalidates_every_earlier_challenge(challenges: Challenges, clock: ManualClock) -> None:
    nonce, _ = challenges.issue()
    assert not Challenges("here", clock).answer(nonce, PUBLIC.hex(), signed(nonce))


@pytest.mark.parametrize("change", [lambda nonce: "f" + nonce[1:], lambda nonce: nonce[:-1] + "0", lambda _: "x.y.z"])
def test_an_unissued_challenge_is_refused(challenges: Challenges, change: Any) -> None:
    nonce, _ = challenges.issue()
    made_up = change(nonce)
    if made_up != nonce:
        assert not challenges.answer(made_up, PUBLIC.hex(), signed(made_up))


@pytest.mark.parametrize("said", ["", "\u00ff", "no hex", "00", "f" * 128, "é" * 64, "\u00b2"])
def test_invalid_values_are_refused_without_an_error(challenges: Challenges, said: str) -> None:
    nonce, _ = challenges.issue()
    assert not challenges.answer(said, PUBLIC.hex(), signed(nonce))
    assert not challenges.answer(nonce, said, signed(nonce))
    assert not challenges.answer(nonce, PUBLIC.hex(), said)


def test_a_used_challenge_is_forgotten_after_its_expiry(challenges: Challenges, clock: ManualClock) -> None:
    for _ in range(50):
        nonce, _ = challenges.issue()
        assert challenges.answer(nonce, PUBLIC.hex(), signed(nonce))
        clock.advance(RUNTIME_CHALLENGE_S)
    assert len(challenges._used) == 1
