"""An approval in a conversation, over kills of the host: the click counts once, and its outcome is shown afterwards."""

import contextlib
import json
import time

from tests.chaos.http_client import BROKEN
from tests.chaos.test_parked_calls import ACCESS, AGENT, until

from bollard.host.channels.signing import secret_bytes, sign
from bollard.host.log.rebuild import rebuild

CARDS = {"dedupe": "native", "supports_buttons": True}


class Room:
    """A channel with one person, who is linked to a user."""

    def __init__(self, host, receiver):
        self.host = host
        self.receiver = receiver
        self.secret = ""

    async def open(self):
        await self.host.start()
        await self.host.ready(AGENT)
        policy = {"access": ACCESS, "audience": {"approve": {"who": "everyone"}}}
        await self.save("PUT", f"agents/{AGENT}", {"runner_id": f"plugin:local/{AGENT}/default", "policy": policy})
        self.secret = (await self.save("PUT", "channels/room", {"url": self.receiver.url, "abilities": CARDS}))[
            "secret"
        ]
        await self.save("PUT", "bindings/room", {"agent_id": AGENT, "scope": {"channel": "room"}})
        await self.save("PUT", "users/ann", {"role": "member"})
        await self.save("POST", "actors", {"actor": "room:ann", "user_id": "ann"})

    async def save(self, method, path, body):
        async with self.host.client.request(method, f"/api/v1/{path}", body) as answer:
            found = await answer.json()
            assert answer.status in (200, 201), found
            return found

    async def send(self, number, **body):
        body = {"conversation": "table", "actor": {"id": "ann"}, **body}
        headers = sign(secret_bytes(self.secret), number, int(time.time()), json.dumps(body).encode())
        async with self.host.client.request("POST", "/api/v1/channels/room/events", body, headers) as answer:
            found = await answer.json()
            assert answer.status in (200, 202), found
            return found

    async def click(self, number, interaction, button):
        return await self.send(
            number, type="interaction.submitted", data={"interaction_id": interaction, "button": button}
        )

    async def shown(self, ending):
        """The key of the operation with this ending, when it has arrived."""

        async def look():
            return [key for key in self.receiver.arrived if key.endswith(ending)]

        (key,) = await until(look, bool)
        return key


async def test_a_kill_between_the_decision_and_its_update_loses_neither(make_host, plugin_path, receiver, tmp_path):
    host, ledger = make_host(plugin_path(AGENT)), tmp_path / "delivered"
    room = Room(host, receiver)
    await room.open()
    run_id = (await room.send("msg-1", text="go", data={"ledger": str(ledger), "parcel": "one"}))["run_id"]
    interaction = (await room.shown(".opened.0")).removesuffix(".opened.0")
    await host.kill()

    await host.start("delivery.before_send:2")  # the first is the notice that the run was lost
    await until(lambda: host.client.get(f"/api/v1/runs/{run_id}"), lambda run: run["status"] == "failed")
    with contextlib.suppress(*BROKEN):
        await room.click("msg-2", interaction, "allow_once")
    await host.died()
    assert not [key for key in receiver.arrived if ".closed." in key]

    await host.start()
    closed = await room.shown(".closed.0")
    assert receiver.texts[closed] == "deliver: allowed by user:ann."
    approval = f"/api/v1/approvals/{interaction.partition('.')[0]}"
    await until(lambda: host.client.get(approval), lambda found: found["status"] == "used")
    assert ledger.read_text() == "one\n"
    for number in ("msg-2", "msg-3"):  # the same click again, and another one
        again = await room.click(number, interaction, "deny")
        assert (again["outcome"], again["reason"]["reason"]) == ("refused", "already_executed")
    await host.kill()
    assert receiver.arrived[closed] == 1

    store = host.open_store()
    try:
        before = store.dump_projections()
        rebuild(store)
        assert store.dump_projections() == before
    finally:
        store.close()
