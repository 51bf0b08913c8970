"""F01 for host events: the host is killed while ends of runs start another agent and leave as webhooks. Each end starts
one run, and arrives at least once under one id."""

import asyncio
import contextlib
import signal

import pytest

BROKEN = (OSError, EOFError, asyncio.IncompleteReadError)


class Chain:
    """A first agent, a second one that is bound to its end, and a receiver of the same events."""

    def __init__(self, host, receiver):
        self.host = host
        self.receiver = receiver
        self.sent = 0

    async def open(self):
        await self.host.start()
        await self.host.ready("scripted")
        runner = {"runner_id": "plugin:local/scripted/default", "policy": {"concurrency": {"mode": "parallel"}}}
        await self._put("agents/second", runner)
        kinds = {"field": "event_type", "values": ["run.completed"]}
        of_first = {"field": "data.agent_id", "values": ["scripted"]}
        await self._put("bindings/chain", {"agent_id": "second", "filters": [kinds, of_first]})
        wanted = {"url": self.receiver.url, "types": ["run.completed"], "agents": ["scripted"]}
        await self._put("subscriptions/ends", wanted)
        await self.host.kill()

    async def _put(self, path, body):
        async with self.host.client.request("PUT", f"/api/v1/{path}", body) as answer:
            found = await answer.json()
            assert answer.status == 201, found

    async def write(self, number):
        body = {"agent": "scripted", "id": f"message-{number}", "input": {"text": "go"}}
        async with self.host.client.request("POST", "/api/v1/runs", body) as answer:
            found = await answer.json()
            assert answer.status in (200, 202), found

    async def storm(self):
        """New messages until the host dies."""
        with contextlib.suppress(*BROKEN):
            while True:
                self.sent += 1
                await self.write(self.sent)

    async def settle(self):
        for number in range(1, max(self.sent, 5) + 1):
            await self.write(number)
        async with self.host.awaiting("every end to start its run and to arrive"):
            while True:
                runs = {run["run_id"] for run in await self._all("runs?agent=scripted&status=completed")}
                raised = await self.raised()
                idle = not any((await self.host.health())["runs"].values())
                if idle and runs and runs == raised.keys() and runs == self.arrived():
                    return raised
                await asyncio.sleep(0.2)  # another process

    def arrived(self):
        return {key.removesuffix("-completed") for key in self.receiver.arrived}

    async def raised(self):
        """By run of the first agent, the events of its end."""
        found = {}
        for event in await self._all("events?"):
            if event["source"] == "bollard:events":
                found.setdefault(event["id"].removesuffix("-completed"), []).append(event)
        return found

    async def _all(self, path):
        found, cursor = [], ""
        while True:
            page = await self.host.client.get(f"/api/v1/{path}&limit=100{cursor}".replace("?&", "?"))
            found += page["items"]
            if not page["has_more"]:
                return found
            cursor = f"&cursor={page['next_cursor']}"


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("feed.after_take:2", marks=pytest.mark.smoke),
        "webhook.after_send:2",
        "dispatcher.after_accept:4",
        "journal.before_commit:20",
        "journal.after_commit:23",
    ],
)
async def test_each_end_of_a_run_starts_one_run_and_arrives_whenever_the_host_dies(
    make_host, scripted, receiver, point
):
    chain = Chain(make_host(scripted), receiver)
    await chain.open()
    await chain.host.start(point)
    with contextlib.suppress(*BROKEN):
        await chain.host.ready("scripted")
        async with chain.host.awaiting("the host to die in the storm"):
            await chain.storm()
    assert await chain.host.died() == -signal.SIGKILL, point
    await chain.host.start()
    await chain.host.ready("scripted")
    raised = await chain.settle()
    assert [len(events) for events in raised.values()] == [1] * len(raised)
    assert {event["dispatch"] for events in raised.values() for event in events} == {"run"}
