"""The hub: bounded buffers, independent readers, and an end for every reader."""

import asyncio

import pytest

from bollard.host.limits import SUBSCRIBER_BYTES, SUBSCRIBER_FRAMES
from bollard.host.runs.hub import Hub, ReaderMemory, StreamRecord

IDLE_S = 20.0


def records(first: int, count: int, size: int = 10) -> list[StreamRecord]:
    return [StreamRecord(1, seq, "message.delta", b"x" * size) for seq in range(first, first + count)]


async def test_two_readers_both_get_all_records_in_order() -> None:
    hub = Hub()
    one, two = hub.subscribe("r"), hub.subscribe("r")
    hub.publish("r", records(1, 3))
    first = await one.take(IDLE_S)
    hub.publish("r", records(4, 2))
    hub.end("r")
    assert [record.seq for record in [*first, *await one.take(IDLE_S)]] == [1, 2, 3, 4, 5]
    assert [record.seq for record in await two.take(IDLE_S)] == [1, 2, 3, 4, 5]
    assert (await one.take(IDLE_S), await two.take(IDLE_S)) == ([], [])


async def test_a_waiting_reader_is_woken_by_a_record() -> None:
    hub = Hub()
    subscription = hub.subscribe("r")
    waiting = asyncio.create_task(subscription.take(IDLE_S))
    await asyncio.sleep(0)
    hub.publish("r", records(1, 1))
    assert [record.seq for record in await waiting] == [1]


async def test_a_waiting_reader_is_woken_by_the_end() -> None:
    hub = Hub()
    waiting = asyncio.create_task(hub.subscribe("r").take(IDLE_S))
    await asyncio.sleep(0)
    hub.end("r")
    assert await waiting == []
    assert hub.readers == 0


async def test_a_slow_reader_is_cut_by_frames_and_another_is_not() -> None:
    hub = Hub()
    slow, quick = hub.subscribe("r"), hub.subscribe("r")
    seen: list[int] = []
    for seq in range(1, SUBSCRIBER_FRAMES + 10):
        hub.publish("r", records(seq, 1))
        seen.extend(record.seq for record in await quick.take(IDLE_S))
    assert slow.behind
    assert not quick.behind
    assert seen == list(range(1, SUBSCRIBER_FRAMES + 10))
    # The content of the buffer is still valid, and without a hole.
    assert [record.seq for record in await slow.take(IDLE_S)] == list(range(1, SUBSCRIBER_FRAMES + 1))
    hub.publish("r", records(9999, 1))
    assert await slow.take(IDLE_S) == []


async def test_a_slow_reader_is_cut_by_bytes() -> None:
    hub = Hub()
    slow = hub.subscribe("r")
    hub.publish("r", records(1, 5, SUBSCRIBER_BYTES // 4))
    assert slow.behind
    assert [record.seq for record in await slow.take(IDLE_S)] == [1, 2, 3, 4]


async def test_a_fast_reader_is_never_cut() -> None:
    hub = Hub()
    reader = hub.subscribe("r")
    for seq in range(1, 20):
        hub.publish("r", records(seq, 1, SUBSCRIBER_BYTES // 2))
        await reader.take(IDLE_S)
    assert not reader.behind


async def test_a_reader_gets_no_records_of_another_run() -> None:
    hub = Hub()
    subscription = hub.subscribe("r")
    hub.publish("s", records(1, 1))
    hub.end("s")
    hub.publish("r", records(7, 1))
    assert [record.seq for record in await subscription.take(IDLE_S)] == [7]


@pytest.mark.parametrize("times", [1, 2])
async def test_a_reader_that_disconnects_is_removed(times: int) -> None:
    hub = Hub()
    stays, leaves = hub.subscribe("r"), hub.subscribe("r")
    for _ in range(times):
        leaves.close()
    assert hub.readers == 1
    hub.publish("r", records(1, 1))
    assert len(await stays.take(IDLE_S)) == 1
    stays.close()
    assert hub.readers == 0


async def test_the_records_held_for_all_readers_are_counted_and_their_overflow_is_reported() -> None:
    memory, told = ReaderMemory(limit=100), list[int]()
    memory.overflow = lambda: told.append(memory.held)
    hub = Hub(memory)
    one, two = hub.subscribe("r"), hub.subscribe("s")
    hub.publish("r", records(1, 4))
    hub.publish("s", records(1, 6))
    assert (memory.held, told) == (100, [])
    hub.publish("s", records(7, 1))
    assert (memory.held, told) == (110, [110])
    assert len(await two.take(IDLE_S)) == 7
    assert memory.held == 40
    one.close()  # also of a reader that leaves with something in its buffer
    assert memory.held == 0


async def test_a_reader_of_a_stopping_host_is_closing_from_the_start() -> None:
    hub = Hub()
    before = hub.subscribe("r")
    hub.close()
    assert before.closing
    assert hub.subscribe("r").closing
