"""Another try, and only while nothing of an answer was handed on. Time is the test's own."""

import asyncio
from dataclasses import dataclass, field

import pytest
from tests.host.models.answers import SPOKEN, TEXT
from tests.host.models.conftest import Open
from tests.host.models.provider import KEY, PATIENCE_S, Provider, Reply, call, whole

from bollard.host.errors import ModelFailed
from bollard.host.models.backends import Retrying, open_backend, pause_s
from bollard.host.models.calls import provider_addresses
from bollard.host.models.failures import Reason, failed

BUSY = Reply([b"busy"], status=503, kind="text/plain", framing="length")
STREAM = SPOKEN[0].stream


@dataclass
class Waits:
    """A sleep that takes no time, and remembers."""

    seconds: list[float] = field(default_factory=list[float])

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.sleep(0)


def patient(there: Provider, tries: int) -> tuple[Retrying, Waits]:
    waits = Waits()
    backend = open_backend(there.spec(tries=1), provider_addresses)
    return Retrying(backend, tries, sleep=waits.sleep, chance=lambda: 0.5), waits


async def test_a_busy_provider_is_retried_with_growing_delays(there: Provider) -> None:
    backend, waits = patient(there, tries=4)
    there.say(BUSY, BUSY, BUSY, Reply([STREAM]))
    chunks = [chunk async for chunk in backend.stream(call(), KEY)]
    assert "".join(str(chunk.content) for chunk in chunks) == TEXT
    assert waits.seconds == [0.375, 0.75, 1.5]
    there.say(BUSY, whole(SPOKEN[0].whole))
    assert (await backend.invoke(call(), KEY)).content == TEXT
    await backend.close()


async def test_the_last_failure_is_reported_after_all_tries(there: Provider) -> None:
    backend, waits = patient(there, tries=2)
    there.say(BUSY, whole({"error": {"message": "slow down"}}, status=429))
    with pytest.raises(ModelFailed) as told:
        await backend.invoke(call(), KEY)
    assert told.value.details["reason"] == "rate_limited"
    assert len(waits.seconds) == 1
    assert len(there.asked) == 2
    await backend.close()


async def test_the_retry_time_of_a_provider_is_obeyed_up_to_a_limit(there: Provider) -> None:
    backend, waits = patient(there, tries=3)
    there.say(whole({}, status=429, retry_after="7"), whole(SPOKEN[0].whole))
    await backend.invoke(call(), KEY)
    assert waits.seconds == [7.25]
    there.say(whole({}, status=429, retry_after="3600"))
    with pytest.raises(ModelFailed) as told:
        await backend.invoke(call(), KEY)
    assert told.value.details["retry_after_s"] == 3600.0
    assert told.value.retryable, "the caller may wait that long"
    assert len(waits.seconds) == 1
    await backend.close()


@pytest.mark.parametrize("status", [400, 401, 404, 501])
async def test_a_permanent_failure_is_not_retried(status: int, there: Provider) -> None:
    backend, waits = patient(there, tries=5)
    there.say(whole({"error": {"message": "no"}}, status=status))
    with pytest.raises(ModelFailed):
        await backend.invoke(call(), KEY)
    assert (len(there.asked), waits.seconds) == (1, [])
    await backend.close()


async def test_a_partly_delivered_answer_is_never_retried(there: Provider) -> None:
    backend, waits = patient(there, tries=5)
    said = b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'
    there.say(Reply([said, b'data: {"error": {"type": "server_error"}}\n\n']))
    chunks = backend.stream(call(), KEY)
    assert (await anext(chunks)).content == "x"
    with pytest.raises(ModelFailed) as told:
        await anext(chunks)
    assert told.value.details["emitted"] is True
    assert told.value.details["reason"] == "overloaded"
    assert (len(there.asked), waits.seconds, told.value.retryable) == (1, [], False)
    await backend.close()


async def test_an_error_before_the_first_word_of_a_stream_is_retried(there: Provider) -> None:
    backend, waits = patient(there, tries=2)
    empty = b'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n'
    there.say(Reply([empty, b'data: {"error": {"type": "server_error"}}\n\n']), Reply([STREAM]))
    chunks = [chunk async for chunk in backend.stream(call(), KEY)]
    assert "".join(str(chunk.content) for chunk in chunks) == TEXT
    assert len(waits.seconds) == 1
    await backend.close()


async def test_the_wait_for_a_retry_can_be_cancelled(there: Provider, opened: Open) -> None:
    there.say(whole({}, status=429, retry_after="15"))
    asking = asyncio.create_task(opened(tries=2).invoke(call(), KEY))
    await there.until_asked()
    async with asyncio.timeout(PATIENCE_S):
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert len(there.asked) == 1


@pytest.mark.parametrize("reason", ["rate_limited", "overloaded", "timeout", "unreachable"])
def test_the_delay_grows_to_a_limit_and_has_jitter(reason: Reason) -> None:
    error = failed(reason, "x")
    assert [pause_s(error, tried, 99, 0.0) for tried in (1, 2, 3, 50)] == [0.25, 0.5, 1.0, 10.0]
    assert pause_s(error, 50, 99, 1.0) == 20.0
    assert pause_s(error, 3, 3, 0.0) is None
    assert pause_s(failed("broken_answer", "x"), 1, 3, 0.0) is None
