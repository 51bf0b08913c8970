"""Users and programs that use all features of one host at once, and remember the answers."""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tests.chaos.http_client import BROKEN, Client
from tests.simulation.history import History

from bollard.host.channels.signing import secret_bytes, sign
from bollard.host.runs.event import API_SOURCE

MODES = ("steer", "queue", "interrupt", "reject", "parallel")
"""One agent for each, called so; and one more that answers through a channel."""
CHAT = "chat"
STEPS = {"say": 4, "listen": 4, "count": 2, "upload": 2, "call": 1, "ask": 0.3}
"""The plans of a runner, and their frequencies."""
BUSY = {404, 409, 503}
"""Absent, outdated, or impossible at the moment: the request was refused, and nothing was promised."""
_LOOKS = 5
"""Looks in a row at a host without runs after which nothing more is on its way."""


class External:
    """A run that an external program executes: its results, and the acknowledged ones."""

    def __init__(self, run_id: str, client: Client) -> None:
        self.run_id = run_id
        self.client = client
        self.acknowledged = 0
        """How many results were."""
        self.ended: bool | None = False
        """`None` when it cannot be any more, because its host is gone."""


class Crowd:
    """All clients, and all answers that they got."""

    def __init__(self, host, dice, told, receiver) -> None:
        self.host = host
        self.dice = dice
        self.history = History()
        self.sent: dict[str, dict[str, Any]] = {}
        """Every event that was ever sent, acknowledged or not."""
        self.written: dict[int, dict[str, Any]] = {}
        """The same of those of the channel, with their answers."""
        self.externals: dict[str, External] = {}
        self.stopped = set[str]()
        self.revoked = set[str]()
        self.decided: dict[str, str] = {}
        """Approvals that were answered, and how."""
        self._told = str(told)
        self._receiver = receiver
        self._secret = ""
        self._numbers = iter(range(1_000_000))

    async def ask(self, method, path, body=None, headers=None, client=None) -> tuple[int, Any]:
        """An answer that promises something, or a refusal that one expects of a busy host."""
        async with (client or self.host.client).request(method, f"/api/v1/{path}", body, headers) as answer:
            found = await answer.json()
        assert answer.status < 300 or answer.status in BUSY, (method, path, answer.status, found)
        return answer.status, found

    async def settle_in(self) -> None:
        """The agents, the channel and its binding are saved."""
        access = {
            "permissions": {"agents": ["call"], "artifacts": ["write"], "tools": ["call", "detail"]},
            "resources": {"agents": {"add": ["parallel"]}, "tools": {"add": ["tool:local/medley/deliver"]}},
        }
        for name, mode in [*zip(MODES, MODES, strict=True), (CHAT, "queue")]:
            policy = {"access": access, "concurrency": {"mode": mode}, "state": {"scopes": ["runner"]}}
            body = {"runner_id": "plugin:local/medley/default", "config": {}, "policy": policy}
            await self.ask("PUT", f"agents/{name}", body)
        channel = {"url": self._receiver.url, "abilities": {"dedupe": "native"}}
        self._secret = (await self.ask("PUT", f"channels/{CHAT}", channel))[1]["secret"]
        await self.ask("PUT", f"bindings/{CHAT}", {"agent_id": CHAT, "scope": {"channel": CHAT}})

    # --- what they do ---

    def _plan(self) -> dict[str, Any]:
        steps = self.dice.choices(list(STEPS), weights=list(STEPS.values()), k=self.dice.randint(0, 6))
        return {"told": self._told, "steps": steps, "pause_ms": self.dice.choice([0, 5, 30])}

    async def talk(self) -> None:
        """A message for some agent in some conversation, or a repetition of an earlier one."""
        again = bool(self.sent) and self.dice.random() < 0.2
        found = await self.send(self.dice.choice(list(self.sent)) if again else self._new_message())
        if found is not None and found["run_id"] and self.dice.random() < 0.3:
            await self.host.client.watch(self.history.view(found["run_id"]))

    def _new_message(self) -> str:
        """Half of the messages are events; the others have an actor who can be asked."""
        name = f"e{next(self._numbers)}."
        said = {
            "id": name,
            "agent": self.dice.choice([*MODES, "steer"]),
            "conversation": self.dice.choice([None, "room", "room"]),
            "actor": {"id": self.dice.choice(["ann", "bob"])},
            "data": self._plan(),
        }
        event = {"source": "crowd", "type": "message.received", "text": name}
        self.sent[name] = said | (event if self.dice.random() < 0.5 else {"input": {"text": name}})
        return name

    async def send(self, name: str) -> dict[str, Any] | None:
        body = self.sent[name]
        status, found = await self.ask("POST", "events" if "source" in body else "runs", body)
        if status >= 300:
            return None
        source, steered = body.get("source", API_SOURCE), "steering" in found
        self.history.took(source, name, event_id=found["event_id"], run_id=found["run_id"], steered=steered)
        return found

    async def write(self, number: int | None = None) -> None:
        """A message through the channel, new or again."""
        number = next(self._numbers) if number is None else number
        self.written.setdefault(number, {})
        body = {
            "text": f"w{number}.",
            "conversation": f"c{number % 3}",
            "data": {"steps": ["say", "say"], "pause_ms": 5},
        }
        headers = sign(secret_bytes(self._secret), f"w{number}", int(time.time()), json.dumps(body).encode())
        status, found = await self.ask("POST", f"channels/{CHAT}/events", body, headers)
        if status < 300:
            first = self.written[number] = self.written[number] or found
            assert (first["event_id"], first["run_id"]) == (found["event_id"], found["run_id"]), (first, found)

    async def execute(self) -> None:
        """An external run, from its beginning to its end."""
        name = f"x{next(self._numbers)}"
        agent = self.dice.choice(MODES)
        body = {"agent": agent, "input": {"text": name}, "id": name, "execution": "external"}
        status, found = await self.ask("POST", "runs", body)
        if status >= 300 or "run_token" not in found:
            return
        token = found["run_token"]
        run = self.externals[name] = External(found["run_id"], Client(self.host.port, lambda: token, self.host.seen))
        for number in range(1, self.dice.randint(2, 6)):
            results = [said(name, each) for each in range(max(1, number - 1), number + 1)]  # one of them again
            status, found = await self.ask(
                "POST", f"runs/{run.run_id}/results", {"results": results}, client=run.client
            )
            if status >= 300:
                return
            run.acknowledged = found["last_sequence"]
        status, found = await self.ask("POST", f"runs/{run.run_id}/finalize", {}, client=run.client)
        run.ended = status < 300

    async def meddle(self) -> None:
        """A client cancels a run, or revokes its rights."""
        runs = list(self.history.accepted.values())[-8:]
        if not runs:
            return
        run_id = self.dice.choice(runs)
        if self.dice.random() < 0.5:
            if (await self.ask("POST", f"runs/{run_id}/cancel", {}))[0] < 300:
                self.stopped.add(run_id)
        elif (await self.ask("POST", f"runs/{run_id}/revoke", {"operations": ["agents.call"]}))[0] < 300:
            self.revoked.add(run_id)

    async def decide(self, later: float = 0.5) -> bool:
        """A client decides open approvals, or leaves some for later; returns whether there were any."""
        _, page = await self.ask("GET", "approvals?status=requested&limit=100")
        for item in page["items"]:
            if self.dice.random() >= later:
                decision = self.dice.choice(["allow_once", "allow_once", "deny"])
                path, body = f"approvals/{item['approval_id']}/decide", {"decision": decision, "digest": item["digest"]}
                if (await self.ask("POST", path, body))[0] < 300:
                    self.decided[item["approval_id"]] = decision
        return bool(page["items"])

    # --- all together ---

    async def storm(self) -> None:
        """Everything at once, until the host dies."""
        doing = (self.talk, self.talk, self.talk, self.write, self.execute, self.meddle, self.decide)
        await asyncio.gather(*(self._again(act) for act in doing))

    async def _again(self, act: Callable[[], Awaitable[Any]]) -> None:
        with contextlib.suppress(*BROKEN):
            while True:
                await act()
                await asyncio.sleep(self.dice.choice([0, 0.01, 0.05]))

    async def try_the_dead(self) -> None:
        """Runs that were executed outside when their host died take nothing more."""
        for name, run in self.externals.items():
            if run.ended is False:
                path, run.ended = f"runs/{run.run_id}", None
                results = {"results": [said(name, run.acknowledged + 1)]}
                assert (await self.ask("POST", f"{path}/results", results, client=run.client))[0] == 409
                assert (await self.ask("POST", f"{path}/cancel", {}))[0] == 409
                status, found = await self.ask("POST", f"{path}/finalize", {}, client=run.client)
                run.ended = True if status < 300 else None  # it had ended, and its answer was lost
                assert status == 409 or found["status"] == "completed", found

    async def settle(self) -> None:
        """Everything is sent again, everything is answered, and every run ends."""
        async with self.host.awaiting("everything to come to its end"):
            for name in self.sent:
                await self.send(name)
            for number in self.written:
                await self.write(number)
            quiet = 0
            while quiet < _LOOKS:  # a returned message has no run between its two runs
                busy = await self.decide(later=0) or any((await self.host.health())["runs"].values())
                quiet = 0 if busy or await self._undelivered() else quiet + 1
                await asyncio.sleep(0.05)
            await asyncio.gather(*(self.host.client.watch(view) for view in self.history.views if not view.ended))

    async def _undelivered(self) -> bool:
        _, page = await self.ask("GET", "deliveries?limit=100")
        return any(item["status"] not in ("sent", "failed", "unknown") for item in page["items"])


def said(name: str, number: int) -> dict[str, Any]:
    """One result of a run that is executed outside."""
    data = {"message": {"role": "assistant", "content": f"{name}-{number}."}, "message_id": f"{number}"}
    return {"sequence": number, "type": "message.completed", "data": data}
