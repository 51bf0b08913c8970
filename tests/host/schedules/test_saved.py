"""Saved schedules: a rebuild of the log finds them and their last ticks, and their limits hold."""

from collections.abc import Awaitable, Callable

import pytest
from tests.doubles.memory_channel import MemoryChannel
from tests.doubles.memory_store import MemoryStore
from tests.host.schedules.conftest import Times

from bollard.host.channels.channel import Abilities
from bollard.host.channels.registry import ChannelRepository
from bollard.host.errors import Conflict
from bollard.host.log.rebuild import rebuild
from bollard.host.log.saved_resources import SavedChanges
from bollard.host.runs.event import ReplyRoute
from bollard.host.schedules.limits import PROPOSED_SCHEDULES
from bollard.host.schedules.tick import route_of
from bollard.host.store.store import Store

Open = Callable[[Store], Awaitable[Times]]


async def test_a_rebuild_of_the_log_finds_every_schedule_and_its_last_tick(store: Store, open_times: Open) -> None:
    times = await open_times(store)
    saved = await times.save(every_s=60, zone="Asia/Shanghai", data={"n": 1}, missed="all")
    await times.save("gone", every_s=60)
    await times.repository.delete("default", "gone", by="test")
    await times.go(61)
    await times.stage.close()
    before = times.rows()
    rebuild(store)
    again = await open_times(store)
    assert again.repository.everywhere() == [saved]
    assert again.rows() == before
    await again.turn()
    assert again.started() == ["09:01:00"]


async def test_a_schedule_whose_zone_is_gone_stops_no_start(memory_store: MemoryStore, open_times: Open) -> None:
    times = await open_times(memory_store)
    await times.save(every_s=60)
    row = {"schedule_id": "old", "every_s": 60, "zone": "Mars/Olympus", "agent_id": "parrot"}
    await times.repository._save("default", "old", lambda _: times.repository._from_body(row, "default"), by="test")
    again = await open_times(memory_store)
    await again.go(61)
    assert (again.started("s"), again.started("old")) == (["09:01:00"], [])


async def test_an_answer_to_a_tick_knows_what_its_channel_can_show(memory_store: MemoryStore, open_times: Open) -> None:
    times = await open_times(memory_store)
    channels = ChannelRepository(SavedChanges(times.stage.journal, times.clock), times.clock)
    abilities = Abilities(dedupe="native", supports_edit=True, supports_buttons=True, max_message_size=500)
    channels.put("default", "chat", MemoryChannel(abilities))
    route = route_of(await times.save(every_s=60, reply_target="chat:room:1"), channels)
    assert route is not None
    assert (route.channel, route.target, route.max_message_size) == ("chat", "room:1", 500)
    assert route.supports_edit
    assert route.platform_capabilities["supports_buttons"] is True
    assert route_of(await times.save(every_s=60, reply_target="gone:x"), channels) == ReplyRoute(
        channel="gone", target="x"
    )


async def test_agents_may_create_only_some_of_the_schedules(memory_store: MemoryStore, open_times: Open) -> None:
    times = await open_times(memory_store)
    body = {"every_s": 3600, "agent_id": "parrot"}

    async def propose(number: int) -> None:
        await times.repository.propose(body, "default", f"p{number}", run_id="run_1", by="run:run_1")

    for number in range(PROPOSED_SCHEDULES):
        await propose(number)
    with pytest.raises(Conflict) as caught:
        await propose(PROPOSED_SCHEDULES)
    assert caught.value.reason == "proposed_schedule_limit"
    with pytest.raises(Conflict) as caught:
        await propose(0)
    assert caught.value.reason == "schedule_exists"
    # A person who changes the input answers for it; a pause does not.
    paused = await times.repository.save({**body, "paused": True}, "default", "p0", by="ann")
    assert paused.value.proposed_by == "run_1"
    changed = await times.repository.save({**body, "text": "another"}, "default", "p0", by="ann")
    assert changed.value.proposed_by is None


async def test_the_ticks_of_a_proposed_schedule_are_untrusted(memory_store: MemoryStore, open_times: Open) -> None:
    times = await open_times(memory_store)
    body = {"every_s": 60, "agent_id": "parrot"}
    await times.repository.propose(body, "default", "p", run_id="run_1", by="run:run_1")
    await times.save(every_s=60)
    await times.go(61)
    assert times.rows("p")[0].flow != 0
    assert times.rows("s")[0].flow == 0
