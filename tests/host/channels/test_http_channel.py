"""The HTTP channel against a real server: the request, and the meaning of each response."""

import asyncio
import socket
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from tests.doubles.fixed_resolver import FixedResolver
from tests.doubles.manual_clock import ManualClock
from tests.doubles.proxy_server import proxy_server
from tests.tables import for_each

from bollard.host.channels import signed_post
from bollard.host.channels.channel import (
    Acted,
    ActionOrder,
    Delivered,
    DeliveryUnknown,
    NotDelivered,
    Outgoing,
    SavedChannel,
)
from bollard.host.channels.http_channel import HttpChannel
from bollard.host.channels.signing import SignatureClaim, read_seal, secret_bytes
from bollard.host.egress.addresses import parse_allow
from bollard.host.egress.client import EgressClient
from bollard.host.errors import InvalidRequest, NotFound
from bollard.host.limits import CHANNEL_ANSWER_BYTES, CHANNEL_ANSWER_S, MIB
from bollard.host.log.saved_resources import Saved
from bollard.host.secrets.vault import SecretNote


def outgoing(**more: Any) -> Outgoing:
    fields: dict[str, Any] = {"key": "run_1.5.0", "target": "room", "text": "你好", "run_id": "run_1", "event_id": "e"}
    return Outgoing(**{**fields, **more})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def channel_to(url: str, clock: ManualClock) -> tuple[HttpChannel, bytes]:
    config = SavedChannel.read({"channel_id": "chat", "url": url}).checked(None)
    egress = EgressClient(parse_allow(["127.0.0.0/8"]))
    return HttpChannel(config, "default", clock, egress), secret_bytes(config.secret)


async def test_an_internal_program_is_reached_only_if_an_operator_allows_it(program: Any, clock: ManualClock) -> None:
    config = SavedChannel.read({"channel_id": "chat", "url": program.url}).checked(None)
    outcome = await HttpChannel(config, "default", clock, EgressClient()).send(outgoing())
    assert isinstance(outcome, NotDelivered)
    assert not outcome.retryable
    assert "egress_allow" in outcome.reason
    assert program.came == []


class MemoryLogins:
    """Logins by name, with a count of their uses. Implements `Logins`."""

    def __init__(self, **logins: str) -> None:
        self.logins = logins
        self.used: list[tuple[str, str]] = []

    def find(self, workspace: str, name: str, /) -> Saved[SecretNote] | None:
        if name not in self.logins:
            return None
        return Saved(workspace=workspace, id=name, revision=1, value=SecretNote(created_ms=0, set_ms=0, set_by="ann"))

    async def use(self, workspace: str, name: str, *, purpose: str, by: str) -> str:
        if name not in self.logins:
            raise NotFound(f"there is no secret {name}", reason="secret_missing", hint="set it", secret=name)
        self.used.append((purpose, by))
        return self.logins[name]


async def test_a_channel_sends_through_its_own_proxy_and_reads_the_login_once(program: Any, clock: ManualClock) -> None:
    egress = EgressClient(parse_allow(["127.0.0.0/8"]))
    with proxy_server(program.port, login="ann:word") as proxy:
        body = {"channel_id": "chat", "url": program.url, "proxy": proxy.url("http"), "proxy_secret": "LOGIN"}
        config = SavedChannel.read(body).checked(None)
        config.check_proxy(egress)
        logins = MemoryLogins(LOGIN="ann:word")
        channel = HttpChannel(config, "default", clock, egress, logins)
        assert await channel.send(outgoing()) == Delivered("m1")
        assert await channel.send(outgoing()) == Delivered("m2")
        assert proxy.targets == [f"127.0.0.1:{program.port}"] * 2
        assert logins.used == [("channel:chat", "host")]
        without = await HttpChannel(config, "default", clock, egress, MemoryLogins()).send(outgoing())
        assert without == NotDelivered(
            "the login of the proxy is unavailable: there is no secret LOGIN", retryable=True
        )
        with pytest.raises(InvalidRequest) as refused:
            config.check_proxy(EgressClient())
        assert refused.value.details["field"] == "channel.proxy"
    with pytest.raises(InvalidRequest) as refused:
        SavedChannel.read({"channel_id": "chat", "proxy": "http://proxy.example"}).checked(None)
    assert refused.value.details["reason"] == "channel_proxy_unused"


async def test_a_name_without_an_address_is_retried(clock: ManualClock) -> None:
    config = SavedChannel.read({"channel_id": "chat", "url": "https://chat.example/in"}).checked(None)
    outcome = await HttpChannel(config, "default", clock, EgressClient(resolver=FixedResolver({}))).send(outgoing())
    assert isinstance(outcome, NotDelivered)
    assert outcome.retryable


async def test_a_message_is_one_signed_post(program: Any, clock: ManualClock) -> None:
    channel, key = channel_to(program.url, clock)
    assert await channel.send(outgoing(artifacts=("art_1",))) == Delivered("m1")
    (came,) = program.came
    assert (came.path, came.headers["webhook-id"]) == ("/hook?x=1", "run_1.5.0")
    seal = read_seal(came.headers, clock.now_ms() / 1000)
    assert isinstance(seal, SignatureClaim)
    digest = seal.begin(key)
    digest.update(came.body)
    assert seal.fits(digest)
    assert came.json == {
        "type": "message.sent",
        "channel": "chat",
        "workspace": "default",
        "target": "room",
        "text": "你好",
        "part": 0,
        "parts": 1,
        "final": True,
        "run_id": "run_1",
        "event_id": "e",
        "artifacts": ["art_1"],
    }


async def test_an_edit_names_the_message_that_it_changes(program: Any, clock: ManualClock) -> None:
    channel, _ = channel_to(program.url, clock)
    await channel.send(outgoing(edit_of="m7", final=False))
    said = program.came[0].json
    assert (said["type"], said["message"], said["final"]) == ("message.edited", "m7", False)


async def test_a_failed_run_is_reported_with_its_code(program: Any, clock: ManualClock) -> None:
    channel, _ = channel_to(program.url, clock)
    await channel.send(outgoing(text="It took too long.", failed="runner.timeout"))
    said = program.came[0].json
    assert (said["type"], said["code"], said["text"]) == ("run.failed", "runner.timeout", "It took too long.")


@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (404, False), (410, False), (302, False), (408, True), (429, True), (503, True)],
)
async def test_every_status_has_one_outcome(program: Any, clock: ManualClock, status: int, retryable: bool) -> None:
    program.plan.append(status)
    channel, _ = channel_to(program.url, clock)
    outcome = await channel.send(outgoing())
    assert isinstance(outcome, NotDelivered)
    assert (outcome.retryable, outcome.retry_after_s) == (retryable, 7.0 if retryable else None)
    assert str(status) in outcome.reason


async def test_a_program_may_name_the_time_of_the_next_try_as_a_date(program: Any, clock: ManualClock) -> None:
    date = format_datetime(datetime.fromtimestamp(clock.now_ms() // 1000 + 900, UTC), usegmt=True)
    program.plan.append(f"HTTP/1.1 429 X\r\ncontent-length: 0\r\nretry-after: {date}\r\n\r\n".encode())
    outcome = await channel_to(program.url, clock)[0].send(outgoing())
    assert isinstance(outcome, NotDelivered)
    assert outcome.retry_after_s == pytest.approx(900, abs=1)


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 ", b"this is no HTTP\r\n\r\n"], ids=["nothing", "a cut head", "something else"]
)
async def test_a_message_without_an_answer_has_an_unknown_outcome(
    program: Any, clock: ManualClock, answer: bytes
) -> None:
    program.plan.append(answer)
    channel, _ = channel_to(program.url, clock)
    assert isinstance(await channel.send(outgoing()), DeliveryUnknown)
    assert len(program.came) == 1


async def test_a_message_that_was_never_sent_is_not_delivered(program: Any, clock: ManualClock) -> None:
    channel, _ = channel_to("http://127.0.0.1:1/", clock)
    outcome = await channel.send(outgoing())
    assert isinstance(outcome, NotDelivered)
    assert outcome.retryable


@pytest.mark.parametrize("body", [b"", b"ok", b"[]", b'{"message": 5}', b'{"message": ""}'])
async def test_a_program_may_omit_the_message_id(program: Any, clock: ManualClock, body: bytes) -> None:
    program.plan.append(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    channel, _ = channel_to(program.url, clock)
    assert await channel.send(outgoing()) == Delivered(None)


async def test_an_interim_response_is_not_the_answer(program: Any, clock: ManualClock) -> None:
    program.plan.append(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")
    channel, _ = channel_to(program.url, clock)
    assert await channel.send(outgoing()) == Delivered(None)


async def test_a_body_without_an_end_is_not_waited_for(program: Any, clock: ManualClock) -> None:
    program.plan.append(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n" + b"x" * (CHANNEL_ANSWER_BYTES + 1))
    program.stays = True
    channel, _ = channel_to(program.url, clock)
    async with asyncio.timeout(CHANNEL_ANSWER_S / 2):
        assert await channel.send(outgoing()) == Delivered(None)


async def test_a_head_without_an_end_is_abandoned_within_its_limit(program: Any, clock: ManualClock) -> None:
    program.plan.append(b"HTTP/1.1 200 OK\r\n" + b"x-more: %b\r\n" % (b"y" * 8000) * 100)
    program.stays = True
    channel, _ = channel_to(program.url, clock)
    async with asyncio.timeout(CHANNEL_ANSWER_S / 2):
        outcome = await channel.send(outgoing())
    assert isinstance(outcome, DeliveryUnknown)
    assert "head" in outcome.reason


async def test_a_program_that_does_not_read_delays_no_other_channel(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signed_post, "CHANNEL_ANSWER_S", 0.1)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        channel, _ = channel_to(f"http://127.0.0.1:{deaf.getsockname()[1]}/", clock)
        async with asyncio.timeout(120):
            assert isinstance(await channel.send(outgoing(text="x" * 16 * MIB)), DeliveryUnknown)


# --- platform actions ---


def act(**more: Any) -> ActionOrder:
    fields: dict[str, Any] = {"key": "run_1.call_1", "action": "message.pin", "run_id": "run_1", "call_id": "call_1"}
    return ActionOrder(**{**fields, "arguments": {"target": "room", "message": "m1"}, **more})


def answered(body: bytes, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)


async def test_an_action_is_one_signed_post_and_its_answer_is_the_result(program: Any, clock: ManualClock) -> None:
    channel, key = channel_to(program.url, clock)
    program.plan.append(answered(b'{"result": {"pinned": true}}'))
    assert await channel.act(act()) == Acted({"pinned": True})
    (came,) = program.came
    assert came.headers["webhook-id"] == "run_1.call_1"
    seal = read_seal(came.headers, clock.now_ms() / 1000)
    assert isinstance(seal, SignatureClaim)
    digest = seal.begin(key)
    digest.update(came.body)
    assert seal.fits(digest)
    assert came.json == {
        "type": "action.requested",
        "channel": "chat",
        "workspace": "default",
        "action": "message.pin",
        "arguments": {"target": "room", "message": "m1"},
        "run_id": "run_1",
        "call_id": "call_1",
    }


ANSWERS: dict[str, tuple[bytes, Any]] = {
    "an empty answer": (answered(b""), Acted(None)),
    "an answer without a result": (answered(b'{"message": "m1"}'), Acted(None)),
    "a list as the result": (answered(b'{"result": [1, 2]}'), Acted([1, 2])),
    "an error": (answered(b'{"error": "no such user"}'), NotDelivered("no such user", retryable=False)),
    "no JSON": (answered(b"<html>"), DeliveryUnknown),
    "no object": (answered(b"[]"), DeliveryUnknown),
    "an error that is no text": (answered(b'{"error": 7}'), DeliveryUnknown),
    "nesting without end": (answered(b'{"result": ' + b"[" * 500 + b"]" * 500 + b"}"), DeliveryUnknown),
    "a number that is none": (answered(b'{"result": NaN}'), DeliveryUnknown),
    "an answer beyond the limit": (answered(b'{"result": "%b"}' % (b"x" * CHANNEL_ANSWER_BYTES)), DeliveryUnknown),
    "a refusal": (answered(b"", 404), NotDelivered),
    "an overload": (answered(b"", 503), NotDelivered),
    "no answer": (b"", DeliveryUnknown),
    "half an answer": (b'HTTP/1.1 200 X\r\ncontent-length: 99\r\n\r\n{"res', DeliveryUnknown),
}


@for_each("name", [*ANSWERS])
async def test_the_meaning_of_each_answer_to_an_action(program: Any, clock: ManualClock, name: str) -> None:
    channel, _ = channel_to(program.url, clock)
    answer, meaning = ANSWERS[name]
    program.plan.append(answer)
    outcome = await channel.act(act())
    assert isinstance(outcome, meaning) if isinstance(meaning, type) else outcome == meaning, (name, outcome)


def test_actions_need_an_address_and_a_known_name() -> None:
    with pytest.raises(InvalidRequest) as refused:
        SavedChannel.read({"channel_id": "chat", "actions": ["message.pin"]}).checked(None)
    assert refused.value.reason == "channel_actions_unused"
    with pytest.raises(InvalidRequest) as refused:
        SavedChannel.read({"channel_id": "chat", "url": "https://chat.example/in", "actions": ["message.fly"]})
    assert refused.value.details["field"] == "channel.actions.0"
