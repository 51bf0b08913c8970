"""F01 for the outbox: the host is killed while answers are sent through a channel. No answer is lost; a channel that
deduplicates shows each once, and any other gets each at most once."""

import asyncio
import contextlib
import json
import random
import signal
import time

import pytest
from tests.chaos.receiver import failure_sentence

from bollard.host.channels.signing import secret_bytes, sign
from bollard.host.log.rebuild import rebuild

BROKEN = (OSError, EOFError, asyncio.IncompleteReadError)
FINAL = {"sent", "failed", "unknown"}


class Chat:
    """People who write through one channel, and the host that answers them."""

    def __init__(self, host, receiver, dedupe):
        self.host = host
        self.receiver = receiver
        self.dedupe = dedupe
        self.secret = ""
        self.accepted = {}
        self.sent = 0

    async def open(self):
        """The first start: the channel and its binding are saved."""
        await self.host.start()
        await self.host.ready("scripted")
        channel = {"url": self.receiver.url, "abilities": {"dedupe": self.dedupe}}
        self.secret = (await self._put("channels", channel))["secret"]
        await self._put("bindings", {"agent_id": "scripted", "scope": {"channel": "chat"}})
        await self.host.kill()

    async def _put(self, kind, body):
        async with self.host.client.request("PUT", f"/api/v1/{kind}/chat", body) as answer:
            found = await answer.json()
            assert answer.status == 201, found
            return found

    async def write(self, number):
        body = {"text": "go", "conversation": f"c{number % 3}", "data": {"answer": f"answer {number}"}}
        content = json.dumps(body).encode()
        headers = sign(secret_bytes(self.secret), f"msg-{number}", int(time.time()), content)
        async with self.host.client.request("POST", "/api/v1/channels/chat/events", body, headers) as answer:
            found = await answer.json()
            assert answer.status in (200, 202), found
            self.accepted[number] = found

    async def storm(self):
        """New messages until the host dies."""
        with contextlib.suppress(*BROKEN):
            while True:
                self.sent += 1
                await self.write(self.sent)

    async def settle(self):
        """Everything is sent again, every run ends and every delivery is over."""
        for number in range(1, self.sent + 1):
            await self.write(number)
        async with self.host.awaiting("every run and every delivery to be over"):
            while any((await self.host.health())["runs"].values()) or any(  # noqa: ASYNC110 -- another process
                item["status"] not in FINAL for item in await self.deliveries()
            ):
                await asyncio.sleep(0.05)

    async def deliveries(self):
        found, query = [], "limit=100"
        while True:
            page = await self.host.client.get(f"/api/v1/deliveries?{query}")
            found += page["items"]
            if not page["has_more"]:
                return found
            query = f"limit=100&cursor={page['next_cursor']}"


def said(host):
    """The deliveries of the log, by delivery id: messages, and failed runs without a further message. A rebuild must
    not change the outbox."""
    store = host.open_store()
    try:
        records = store.records(0, 100_000)
        messages = {
            f"{record.run_id}.{record.seq}": json.loads(record.data)["message"]["content"]
            for record in records
            if record.type == "message.completed"
        }
        ends = ((record, json.loads(record.data)) for record in records if record.type == "run.ended")
        messages |= {
            f"{record.run_id}.{record.seq}": failure_sentence(record.run_id, data.get("code"))
            for record, data in ends
            if data["status"] == "failed"
        }
        before = store.dump_projections()["outbox"]
        rebuild(store)
        assert store.dump_projections()["outbox"] == before
        return messages
    finally:
        store.close()


def points(seed, rounds):
    dice = random.Random(seed)
    return [
        f"{name}:{dice.randint(1, most)}"
        for _ in range(max(1, rounds // 4))
        for name, most in (
            ("delivery.before_send", 3),
            ("delivery.after_send", 3),
            ("journal.before_commit", 25),
            ("journal.after_commit", 25),
        )
    ]


@pytest.mark.parametrize("dedupe", ["native", "none"])
async def test_answers_are_sent_as_often_as_their_channel_allows_whenever_the_host_dies(
    make_host, scripted, receiver, seed, rounds, dedupe
):
    chat = Chat(make_host(scripted), receiver, dedupe)
    await chat.open()
    for point in points(seed, rounds):
        await chat.host.start(point)
        with contextlib.suppress(*BROKEN):
            await chat.host.ready("scripted")
            async with chat.host.awaiting("the host to die in the storm"):
                await chat.storm()
        assert await chat.host.died() == -signal.SIGKILL, point
    await chat.host.start()
    await chat.host.ready("scripted")
    await chat.settle()
    deliveries = {item["delivery_id"]: item for item in await chat.deliveries()}
    await chat.host.kill()
    messages = said(chat.host)
    assert deliveries.keys() == messages.keys(), "everything that there was to tell is in the outbox, and nothing else"
    arrived = {key.rpartition(".")[0]: count for key, count in receiver.arrived.items()}
    assert arrived.keys() <= messages.keys()
    for delivery_id, item in deliveries.items():
        if item["status"] == "sent":
            assert arrived[delivery_id] >= 1, item
            assert receiver.texts[f"{delivery_id}.0"] == messages[delivery_id]
    if dedupe == "native":
        assert {item["status"] for item in deliveries.values()} == {"sent"}
    else:
        assert max(arrived.values()) == 1, "it left twice"
        unknown = [item for item in deliveries.values() if item["status"] == "unknown"]
        assert unknown, "a host that dies after it sent does not know"
        assert len(unknown) <= 8 * len(points(seed, rounds))


@pytest.mark.parametrize(
    ("dedupe", "point", "status", "arrivals"),
    [
        ("native", "delivery.before_send:1", "sent", 1),
        ("native", "delivery.after_send:1", "sent", 2),
        ("none", "delivery.before_send:1", "unknown", 0),
        ("none", "delivery.after_send:1", "unknown", 1),
    ],
)
async def test_the_outcome_of_an_answer_in_flight_follows_the_dedupe_of_its_channel(
    make_host, scripted, receiver, dedupe, point, status, arrivals
):
    chat = Chat(make_host(scripted), receiver, dedupe)
    await chat.open()
    await chat.host.start(point)
    await chat.host.ready("scripted")
    chat.sent = 1
    with contextlib.suppress(*BROKEN):
        await chat.write(1)
    assert await chat.host.died() == -signal.SIGKILL
    await chat.host.start()
    await chat.host.ready("scripted")
    await chat.settle()
    (item,) = await chat.deliveries()
    assert (item["status"], sum(receiver.arrived.values()), len(receiver.arrived)) == (
        status,
        arrivals,
        min(arrivals, 1),
    )
    if status == "unknown":
        assert item["reason"]
