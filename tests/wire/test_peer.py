"""The JSON-RPC peer over every transport: memory, socket pair, WebSocket."""

import asyncio
from typing import Any

import pytest

from bollard.protocol import limits
from bollard.wire import (
    CallTimeout,
    ChannelClosed,
    FrameError,
    IncomingCall,
    PayloadTooLarge,
    Peer,
    RemoteError,
    StreamTransport,
    encode,
)
from bollard.wire.limits import (
    CONCURRENT_READS,
    HELD_RESPONSE_BYTES,
    SMALL_FRAME_BYTES,
    WRITE_FLUSH_BYTES,
    WRITE_HARD_LIMIT_BYTES,
    WRITE_HIGH_WATER_BYTES,
)
from bollard.wire.stream import LineCodec

PATIENCE_S = 120.0


@pytest.fixture
async def peers(wires: Any, make_listener: Any) -> tuple[Peer, Any, Peer, Any]:
    """Two started peers and their listeners."""
    left, right = await wires.pair()
    ours, theirs = make_listener(), make_listener()
    here, there = Peer(left, ours), Peer(right, theirs)
    here.start()
    there.start()
    return here, ours, there, theirs


@pytest.mark.requirement("P11-48")
async def test_a_call_is_answered_in_both_directions(peers: tuple[Peer, Any, Peer, Any]) -> None:
    here, _, there, _ = peers
    assert await here.call("m", {"n": 1}) == {"method": "m", "params": {"n": 1}}
    assert await there.call("m", {"n": "好😀\n"}) == {"method": "m", "params": {"n": "好😀\n"}}


async def test_an_error_arrives_with_its_fields(peers: tuple[Peer, Any, Peer, Any]) -> None:
    here, _, _, theirs = peers
    theirs.on_call = lambda call: call.fail(-32000, "no", {"code": "not_found", "message": "gone", "retryable": False})
    with pytest.raises(RemoteError) as caught:
        await here.call("m", {})
    assert (caught.value.code, caught.value.message) == (-32000, "no")
    assert caught.value.api_error.code == "not_found"


async def test_notifications_arrive_in_order_between_calls(peers: tuple[Peer, Any, Peer, Any]) -> None:
    here, _, _, theirs = peers
    for number in range(100):
        here.note("n", {"number": number})
    await here.call("m", {})
    assert [note.params["number"] for note in theirs.notes] == list(range(100))


async def test_concurrent_calls_get_their_own_answers_in_any_order(peers: tuple[Peer, Any, Peer, Any]) -> None:
    here, _, _, theirs = peers
    held: list[IncomingCall] = []
    theirs.on_call = held.append
    calls = [asyncio.create_task(here.call("m", {"n": number})) for number in range(50)]
    await theirs.until(lambda: len(held) == 50)
    for call in reversed(held):
        call.answer(call.params["n"])
    assert await asyncio.gather(*calls) == list(range(50))


async def test_a_second_answer_to_one_call_is_dropped(peers: tuple[Peer, Any, Peer, Any]) -> None:
    here, ours, _, theirs = peers

    def twice(call: IncomingCall) -> None:
        call.answer(1)
        call.answer(2)
        call.fail(-1, "no")

    theirs.on_call = twice
    assert await here.call("m", {}) == 1
    theirs.on_call = lambda call: call.answer(3)
    assert await here.call("m", {}) == 3
    assert not ours.faults


@pytest.mark.requirement("P11-49")
async def test_a_call_without_an_answer_in_time_is_abandoned_and_its_late_answer_has_no_effect(
    peers: tuple[Peer, Any, Peer, Any],
) -> None:
    here, ours, _, theirs = peers
    held: list[IncomingCall] = []
    theirs.on_call = held.append
    given_up: list[Any] = []
    with pytest.raises(CallTimeout) as caught:
        await here.call("slow", {}, timeout_s=0.01, given_up=given_up.append)
    assert (caught.value.method, caught.value.seconds) == ("slow", 0.01)
    await theirs.until(lambda: held)
    assert given_up == [held[0].id]
    held[0].answer("late")
    theirs.on_call = lambda call: call.answer("in time")
    assert await here.call("m", {}) == "in time"
    assert not ours.faults


async def test_cancelling_a_call_reports_its_id(peers: tuple[Peer, Any, Peer, Any]) -> None:
    here, ours, _, theirs = peers
    held: list[IncomingCall] = []
    theirs.on_call = held.append
    given_up: list[Any] = []
    call = asyncio.create_task(here.call("m", {}, given_up=given_up.append))
    await theirs.until(lambda: held)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert given_up == [held[0].id]
    held[0].answer("late")
    theirs.on_call = lambda call: call.answer(1)
    assert await here.call("m", {}) == 1
    assert not ours.faults


async def test_an_answered_call_is_not_abandoned(peers: tuple[Peer, Any, Peer, Any]) -> None:
    here, _, _, theirs = peers
    given_up: list[Any] = []
    await here.call("m", {}, timeout_s=PATIENCE_S, given_up=given_up.append)
    theirs.on_call = lambda call: call.fail(-1, "no")
    with pytest.raises(RemoteError):
        await here.call("m", {}, timeout_s=PATIENCE_S, given_up=given_up.append)
    assert not given_up


async def test_closing_fails_every_waiter_and_notifies_both_sides_once(peers: tuple[Peer, Any, Peer, Any]) -> None:
    here, ours, there, theirs = peers
    theirs.on_call = lambda call: None
    given_up: list[Any] = []
    calls = [asyncio.create_task(here.call("m", {}, given_up=given_up.append)) for _ in range(3)]
    await theirs.until(lambda: len(theirs.calls) == 3)
    there.close("enough")
    for call in calls:
        with pytest.raises(ChannelClosed):
            await call
    await ours.until(lambda: ours.reasons)
    await theirs.until(lambda: theirs.reasons)
    here.close("me too")
    there.close("again")
    assert (len(ours.reasons), len(theirs.reasons)) == (1, 1)
    assert not given_up
    with pytest.raises(ChannelClosed):
        await here.call("m", {})
    here.note("m", {})
    theirs.calls[0].answer("nobody hears this")


async def test_frames_queued_before_the_close_still_arrive(peers: tuple[Peer, Any, Peer, Any]) -> None:
    here, _, _, theirs = peers
    for number in range(1000):
        here.note("n", {"number": number})
    here.close("done")
    await theirs.until(lambda: theirs.reasons)
    assert len(theirs.notes) == 1000


async def test_no_frame_is_delivered_after_the_close(peers: tuple[Peer, Any, Peer, Any]) -> None:
    here, _, there, theirs = peers
    held: list[IncomingCall] = []

    def close_at_first(call: IncomingCall) -> None:
        held.append(call)
        there.close("one is enough")

    theirs.on_call = close_at_first
    calls = [asyncio.create_task(here.call("m", {})) for _ in range(5)]
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(outcome, ChannelClosed)
    assert len(held) == 1


# --- faults of the other side ---


@pytest.fixture
async def raw_and_peer(wires: Any, make_listener: Any, make_raw_side: Any) -> tuple[Any, Peer, Any]:
    left, right = await wires.pair()
    listener = make_listener()
    peer = Peer(right, listener)
    peer.start()
    raw = make_raw_side(left)
    raw.start()
    return raw, peer, listener


@pytest.mark.requirement("P11-43", "P11-48")
@pytest.mark.parametrize(
    ("frame", "fault"),
    [
        (b"", "syntax"),
        (b"garbage", "syntax"),
        (b"[]", "envelope"),
        (b'{"jsonrpc":"2.0","id":99,"result":1}', "envelope"),
        (b'{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}', "envelope"),
        (b'{"jsonrpc":"2.0","method":"m","params":{"a":1,"a":2}}', "duplicate_key"),
        (b'{"jsonrpc":"2.0","method":"m","params":{"a":NaN}}', "number"),
    ],
)
async def test_an_invalid_frame_is_a_fault_and_the_connection_continues(
    raw_and_peer: tuple[Any, Peer, Any], frame: bytes, fault: str
) -> None:
    raw, _, listener = raw_and_peer
    raw.send(frame)
    raw.call(1, "m")
    assert (await raw.answered(1))["result"]["method"] == "m"
    assert listener.faults == [fault]


async def test_a_frame_in_another_encoding_is_a_fault_and_the_connection_continues(
    raw_and_peer: tuple[Any, Peer, Any],
) -> None:
    raw, _, listener = raw_and_peer
    raw.send(b'"\xff"')
    raw.call(1, "m")
    await raw.answered(1)
    assert listener.faults == ["encoding"]


async def test_an_error_without_an_id_is_not_a_fault(raw_and_peer: tuple[Any, Peer, Any]) -> None:
    raw, _, listener = raw_and_peer
    raw.send(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}')
    raw.call(1, "m")
    await raw.answered(1)
    assert not listener.faults


async def test_the_id_of_an_unanswered_call_cannot_be_reused_until_its_answer(
    raw_and_peer: tuple[Any, Peer, Any],
) -> None:
    raw, _, listener = raw_and_peer
    held: list[IncomingCall] = []
    listener.on_call = held.append
    raw.call(7, "first")
    raw.call(7, "second")
    await listener.until(lambda: listener.faults)
    assert [call.method for call in held] == ["first"]
    held[0].answer("done")
    await raw.answered(7)
    raw.call(7, "third")
    await listener.until(lambda: len(held) == 2)
    held[0].answer("an old answer must not settle the new call")
    held[1].answer("third")
    await raw.until(lambda: len(raw.answers(7)) == 2)
    assert [answer["result"] for answer in raw.answers(7)] == ["done", "third"]


async def test_a_duplicate_answer_is_a_fault(raw_and_peer: tuple[Any, Peer, Any]) -> None:
    raw, peer, listener = raw_and_peer
    call = asyncio.create_task(peer.call("m", {}))
    asked = await raw.called("m")
    raw.answer(asked["id"], 1)
    raw.answer(asked["id"], 2)
    assert await call == 1
    await listener.until(lambda: listener.faults)
    assert listener.faults == ["envelope"]


async def test_more_unanswered_calls_than_allowed_are_faults(raw_and_peer: tuple[Any, Peer, Any]) -> None:
    raw, _, listener = raw_and_peer
    held: list[IncomingCall] = []
    listener.on_call = held.append
    for number in range(limits.CHANNEL_REQUESTS_IN_FLIGHT + 1):
        raw.call(number, "m")
    await listener.until(lambda: listener.faults)
    assert len(held) == limits.CHANNEL_REQUESTS_IN_FLIGHT
    held[0].answer(1)
    raw.call("again", "m")
    await listener.until(lambda: len(held) == limits.CHANNEL_REQUESTS_IN_FLIGHT + 1)
    assert len(listener.faults) == 1


async def test_calls_beyond_the_limit_of_the_peer_are_not_sent(peers: tuple[Peer, Any, Peer, Any]) -> None:
    here, ours, _, theirs = peers
    theirs.on_call = lambda call: None
    for _ in range(limits.CHANNEL_REQUESTS_IN_FLIGHT):
        call = asyncio.create_task(here.call("m", {}))
        call.add_done_callback(lambda done: done.exception())
    await theirs.until(lambda: len(theirs.calls) == limits.CHANNEL_REQUESTS_IN_FLIGHT)
    with pytest.raises(RemoteError):
        await here.call("m", {})
    assert not theirs.faults
    here.close("the test is over")
    await ours.until(lambda: ours.reasons)


# --- what cannot be sent ---


async def test_an_invalid_or_oversized_call_is_refused_and_not_sent(peers: tuple[Peer, Any, Peer, Any]) -> None:
    here, _, _, theirs = peers
    with pytest.raises(PayloadTooLarge):
        await here.call("m", {"a": "x" * limits.FRAME_BYTES})
    for value in (2**60, float("nan"), "\ud800", [0] * 10_000):
        with pytest.raises(FrameError):
            await here.call("m", {"a": value})
    assert await here.call("m", {}) == {"method": "m", "params": {}}
    assert len(theirs.calls) == 1
    assert not theirs.faults


@pytest.mark.parametrize("answer", ["x" * limits.FRAME_BYTES, 2**60, float("inf"), "\ud800", [0] * 10_000])
async def test_an_unsendable_answer_is_replaced_by_an_error(peers: tuple[Peer, Any, Peer, Any], answer: Any) -> None:
    here, ours, _, theirs = peers
    theirs.on_call = lambda call: call.answer(answer)
    with pytest.raises(RemoteError) as caught:
        await here.call("m", {})
    assert caught.value.code == -32603
    assert not ours.faults


@pytest.mark.parametrize("data", ["x" * limits.FRAME_BYTES, 2**60, "\ud800"])
async def test_an_unsendable_error_is_replaced_by_a_shorter_one(peers: tuple[Peer, Any, Peer, Any], data: Any) -> None:
    here, ours, _, theirs = peers
    theirs.on_call = lambda call: call.fail(-5, "no", data)
    with pytest.raises(RemoteError) as caught:
        await here.call("m", {})
    assert caught.value.code == -5
    assert not ours.faults


# --- batching ---


class RecordingStream(asyncio.Transport):
    """The asyncio side of a stream transport, kept in memory: its data, write by write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closing = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True


async def next_turn() -> None:
    """Everything that was scheduled up to now has run when this returns."""
    turned = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turned.set_result, None)
    await turned


@pytest.mark.requirement("P11-47")
async def test_frames_of_one_turn_are_sent_in_one_write(make_listener: Any) -> None:
    stream, transport = RecordingStream(), StreamTransport(LineCodec())
    transport.connection_made(stream)
    peer = Peer(transport, make_listener())
    peer.start()
    for number in range(100):
        peer.note("n", {"number": number})
    assert not stream.writes
    await next_turn()
    assert len(stream.writes) == 1
    assert stream.writes[0].count(b"\n") == 100
    await next_turn()
    assert len(stream.writes) == 1


async def test_answers_to_frames_of_one_read_are_sent_in_one_write(make_listener: Any) -> None:
    stream, transport = RecordingStream(), StreamTransport(LineCodec())
    transport.connection_made(stream)
    Peer(transport, make_listener()).start()
    calls = [encode({"jsonrpc": "2.0", "id": number, "method": "m"}) for number in range(20)]
    transport.data_received(b"\n".join((*calls, b"")))
    assert len(stream.writes) == 1
    assert stream.writes[0].count(b"\n") == 20


async def test_a_turn_with_many_writes_is_not_held_back(make_listener: Any) -> None:
    stream, transport = RecordingStream(), StreamTransport(LineCodec())
    transport.connection_made(stream)
    peer = Peer(transport, make_listener())
    peer.start()
    for _ in range(100):
        peer.note("n", {"text": "x" * 1024})
    held_back = 100 * 1024 - sum(map(len, stream.writes))
    assert held_back < WRITE_FLUSH_BYTES
    assert 1 < len(stream.writes) <= 110 * 1024 // WRITE_FLUSH_BYTES + 1


@pytest.mark.requirement("P11-47")
async def test_frames_sent_in_one_turn_arrive_together(peers: tuple[Peer, Any, Peer, Any]) -> None:
    here, _, _, theirs = peers
    await here.call("m", {})
    theirs.batches.clear()
    for number in range(50):
        here.note("n", {"number": number})
    await theirs.until(lambda: len(theirs.notes) == 50)
    assert theirs.batches == [50]


# --- slow and silent peers ---

BLOCK = {"text": "x" * 64 * 1024}
BLOCKS = 512  # 32 MiB, more than any socket buffer


@pytest.mark.requirement("P11-46")
async def test_producers_wait_for_a_peer_that_does_not_read_and_then_continue(wires: Any, make_listener: Any) -> None:
    left, right = await wires.pair()
    here, theirs = Peer(left, make_listener()), make_listener()
    there = Peer(right, theirs)
    here.start()
    there.start()
    await here.call("m", {})
    right.pause_reading()
    sent = 0
    blocked = asyncio.Event()

    async def produce() -> None:
        nonlocal sent
        for _ in range(BLOCKS):
            here.note("n", BLOCK)
            sent += 1
            if left.congested:
                blocked.set()
                await left.drain()

    producer = asyncio.create_task(produce())
    async with asyncio.timeout(PATIENCE_S):
        await blocked.wait()
    assert left.congested
    assert sent < BLOCKS // 2
    right.resume_reading()
    async with asyncio.timeout(PATIENCE_S):
        await producer
    await theirs.until(lambda: len(theirs.notes) == BLOCKS)
    assert not left.congested


async def test_a_waiting_producer_is_notified_of_a_lost_connection(wires: Any, make_listener: Any) -> None:
    left, right = await wires.pair()
    here = Peer(left, make_listener())
    here.start()
    while not left.congested:
        here.note("n", BLOCK)
        await next_turn()
    waiter = asyncio.create_task(left.drain())
    await next_turn()
    assert not waiter.done()
    right.close("gone")
    with pytest.raises(ChannelClosed):
        await waiter


@pytest.mark.requirement("P11-46")
async def test_a_peer_that_calls_and_never_reads_is_cut_at_the_hard_limit(
    wires: Any, make_listener: Any, make_raw_side: Any
) -> None:
    left, right = await wires.pair()
    raw = make_raw_side(left)  # never started: it reads nothing
    small = {"text": "x" * (SMALL_FRAME_BYTES - 50)}  # a larger answer would wait
    listener = make_listener(lambda call: call.answer(small))
    Peer(right, listener).start()
    asked = 0

    async def ask() -> None:
        nonlocal asked
        while not listener.reasons:
            heard = len(listener.calls)
            for _ in range(100):
                raw.call(asked, "m")
                asked += 1
            await listener.until(lambda heard=heard: listener.reasons or len(listener.calls) >= heard + 100)

    async with asyncio.timeout(PATIENCE_S):
        await ask()
    assert listener.reasons == ["the peer does not read"]
    assert asked * SMALL_FRAME_BYTES >= WRITE_HARD_LIMIT_BYTES


@pytest.mark.requirement("P11-46")
async def test_closing_does_not_wait_for_a_peer_that_does_not_read(wires: Any, make_listener: Any) -> None:
    left, _ = await wires.pair()
    listener = make_listener()
    here = Peer(left, listener)
    here.start()
    while not left.congested:
        here.note("n", BLOCK)
        await next_turn()
    here.close("enough")
    await listener.until(lambda: listener.reasons)
    assert listener.reasons == ["enough"]


async def test_a_paused_side_is_notified_of_its_own_close(wires: Any, make_listener: Any) -> None:
    left, _ = await wires.pair()
    listener = make_listener()
    here = Peer(left, listener)
    here.start()
    left.pause_reading()
    here.close("enough")
    await listener.until(lambda: listener.reasons)
    assert listener.reasons == ["enough"]


async def test_an_oversized_frame_is_a_fault_and_the_connection_continues(
    local_wires: Any, make_listener: Any, make_raw_side: Any
) -> None:
    left, right = await local_wires.pair()
    listener = make_listener()
    Peer(right, listener).start()
    raw = make_raw_side(left)
    raw.start()
    raw.send(b'"' + b"x" * limits.FRAME_BYTES + b'"')
    raw.call(1, "m")
    await raw.answered(1)
    assert listener.faults == ["oversized"]


def test_the_write_limits_are_in_order() -> None:
    assert WRITE_FLUSH_BYTES < WRITE_HIGH_WATER_BYTES < WRITE_HARD_LIMIT_BYTES
    assert limits.FRAME_BYTES * 2 < WRITE_HARD_LIMIT_BYTES
    assert limits.CHANNEL_REQUESTS_IN_FLIGHT * SMALL_FRAME_BYTES < WRITE_HARD_LIMIT_BYTES // 2
    assert CONCURRENT_READS * limits.FRAME_BYTES < HELD_RESPONSE_BYTES // 2


@pytest.mark.requirement("P11-25")
async def test_a_half_frame_at_the_end_of_the_stream_is_a_fault(make_listener: Any) -> None:
    stream, transport = RecordingStream(), StreamTransport(LineCodec())
    transport.connection_made(stream)
    listener = make_listener()
    Peer(transport, listener).start()
    transport.data_received(b'{"jsonrpc"')
    transport.connection_lost(None)
    assert listener.faults == ["half_frame"]
    assert listener.reasons == ["the peer closed the connection"]


async def test_a_connection_lost_before_its_start_is_reported_at_the_start(wires: Any, make_listener: Any) -> None:
    left, right = await wires.pair()
    right.close("at once")
    listener = make_listener()
    peer = Peer(left, listener)
    peer.start()
    await listener.until(lambda: listener.reasons)
    with pytest.raises(ChannelClosed):
        await peer.call("m", {})
