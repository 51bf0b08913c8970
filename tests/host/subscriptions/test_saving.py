"""Saved subscriptions: in the log without their secret, and the same after a rebuild and a restart."""

from typing import Any

import pytest

from bollard.host.egress.client import EgressClient
from bollard.host.errors import Conflict, NotFound
from bollard.host.limits import SUBSCRIPTIONS_OF_WORKSPACE
from bollard.host.log.rebuild import rebuild
from bollard.host.log.saved_resources import SavedChanges
from bollard.host.subscriptions.delivery_rows import RECEIVER, Receiver
from bollard.host.subscriptions.subscription_repository import SubscriptionRepository

BODY: Any = {"url": "https://example.org/hook", "types": ["run.failed"]}


def repository(journal: Any, clock: Any) -> SubscriptionRepository:
    return SubscriptionRepository(SavedChanges(journal, clock), clock, egress=EgressClient())


async def test_a_subscription_survives_a_rebuild_and_a_restart_with_its_secret(
    store: Any, open_journal: Any, clock: Any
) -> None:
    journal = open_journal(store)
    first = repository(journal, clock)
    saved, secret = await first.save(BODY, "default", "alerts", by="ann", edited=None)
    assert secret is not None
    assert not any(secret.encode() in (row.data or b"") for row in store.records(0, 100))
    before = store.dump_projections()["subscriptions"]
    await journal.close()
    rebuild(store)
    assert store.dump_projections()["subscriptions"] == before
    again = repository(journal, clock)
    await again.load(store)
    assert again.get("default", "alerts") == saved
    assert again.get("default", "alerts").value.secret == secret


async def test_a_deleted_subscription_leaves_neither_secret_nor_state(
    store: Any, open_journal: Any, clock: Any
) -> None:
    subscriptions = repository(open_journal(store), clock)
    await subscriptions.save(BODY, "default", "alerts", by="ann", edited=None)
    with store.write() as transaction:
        transaction.keep([Receiver().put("default", "alerts", 1)])
    await subscriptions.delete("default", "alerts", by="ann")
    assert (store.all_kept("subscription_secret"), store.all_kept(RECEIVER)) == ([], [])
    with pytest.raises(NotFound):
        subscriptions.get("default", "alerts")


async def test_the_host_switches_a_subscription_off_and_a_person_switches_it_on(
    memory_store: Any, open_journal: Any, clock: Any
) -> None:
    subscriptions = repository(open_journal(memory_store), clock)
    _, secret = await subscriptions.save(BODY, "default", "alerts", by="ann", edited=None)
    await subscriptions.switch_off("default", "alerts", "gone")
    off = subscriptions.get("default", "alerts")
    assert (off.value.enabled, off.value.problem, off.revision) == (False, "gone", 2)
    assert subscriptions.enabled("default") == []
    body = {**off.value.to_wire(), "enabled": True}
    on, new_secret = await subscriptions.save(body, "default", "alerts", by="ann", edited=2)
    assert (on.value.enabled, on.value.problem, on.value.secret, new_secret) == (True, None, secret, None)


async def test_a_workspace_has_a_limited_number_of_subscriptions(
    memory_store: Any, open_journal: Any, clock: Any
) -> None:
    subscriptions = repository(open_journal(memory_store), clock)
    for number in range(SUBSCRIPTIONS_OF_WORKSPACE):
        await subscriptions.save(BODY, "default", f"s{number}", by="ann", edited=None)
    with pytest.raises(Conflict) as caught:
        await subscriptions.save(BODY, "default", "more", by="ann", edited=None)
    assert caught.value.reason == "subscription_limit"
