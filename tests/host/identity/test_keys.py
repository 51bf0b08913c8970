"""API keys: shown once, kept as a digest, never more than their maker, and noted when used."""

import re
from typing import Any

import pytest

from bollard.host.errors import Forbidden, InvalidRequest, NotFound
from bollard.host.identity.caller import Caller, installation
from bollard.host.identity.keys import KeyRequest
from bollard.host.limits import KEY_LIFE_MAX_S, KEY_LIFE_S, KEY_USE_S
from bollard.host.log.entries import Entry
from bollard.host.scope import Actor

ADMIN = installation()
CI = KeyRequest(name="ci", rights=("runs.read", "runs.create"))
CI_READS = KeyRequest(name="ci", rights=("runs.read",))


def member(user_id: str = "ann", **more: Any) -> KeyRequest:
    return KeyRequest(name=user_id, rights=("runs.read",), **more)


async def test_a_key_has_its_rights_and_survives_a_restart(office: Any) -> None:
    made = await office.book.keys.make(CI, ADMIN)
    assert re.fullmatch(r"blk_[0-9a-f]{16}_[0-9a-f]{64}", made.token)
    await office.again()
    caller = office.caller(made.token)
    assert (caller.kind, caller.name, caller.workspace) == ("key", f"key:{made.saved.id}", "default")
    assert caller.rights == {"runs.read", "runs.create"}
    assert office.caller(made.token + "0") is None
    assert office.caller(made.token[:-1]) is None


async def test_the_token_is_not_stored_on_disk(office: Any) -> None:
    made = await office.book.keys.make(CI, ADMIN)
    secret = made.token.rpartition("_")[2].encode()
    assert all(secret not in row.data for row in office.store.records(0, 100))
    assert [b'"kind":"key"' in row.data for row in office.records("token.issued")] == [True]


async def test_a_key_has_no_more_rights_than_its_maker(memory_office: Any) -> None:
    office = memory_office
    await office.user(role="member")
    ann = office.caller(await office.login())
    with pytest.raises(Forbidden, match=r"lack: agents\.write"):
        await office.book.keys.make(KeyRequest(name="k", rights=("runs.read", "agents.write")), ann)
    assert office.book.keys.all("default") == []
    made = await office.book.keys.make(member(), ann)
    other = office.caller(made.token)
    assert (other.user_id, other.role, other.actor) == ("ann", "member", Actor("user", "ann"))
    with pytest.raises(Forbidden):
        await office.book.keys.make(CI, other)  # nor has a key a key that may more than itself


async def test_a_users_key_has_the_rights_of_the_user(memory_office: Any) -> None:
    office = memory_office
    await office.user(role="operator")
    ann = office.caller(await office.login())
    made = await office.book.keys.make(KeyRequest(name="k", rights=("runs.read", "agents.write")), ann)
    await office.user(role="viewer", password=None)
    assert office.caller(made.token).rights == {"runs.read"}
    await office.user(role="operator", password=None)
    assert office.caller(made.token).rights == {"runs.read", "agents.write"}
    await office.user(role="operator", password=None, disabled=True)
    assert office.caller(made.token) is None
    await office.user(role="operator", password=None)
    assert office.caller(made.token) is not None


async def test_the_keys_of_a_user_are_deleted_with_the_user(office: Any) -> None:
    await office.user(role="operator")
    await office.user("bob", role="operator")
    ann, bob = office.caller(await office.login()), office.caller(await office.login("bob"))
    made = await office.book.keys.make(KeyRequest(name="k", rights=("runs.read",)), ann)
    others = await office.book.keys.make(KeyRequest(name="k", rights=("runs.read",)), bob)
    assert office.caller(made.token) is not None
    await office.book.delete_user("ann", ADMIN)
    assert office.caller(made.token) is None
    await office.user(role="admin")  # another user of this name
    for _ in range(2):
        assert office.caller(made.token) is None
        assert [saved.id for saved in office.book.keys.all("default")] == [others.saved.id]
        await office.again()
    assert office.caller(others.token) is not None
    assert made.saved.id not in {row.id for row in office.store.all_kept("key_use")}
    said = [row.data for row in office.records("policy.changed") if made.saved.id.encode() in row.data]
    assert [b'"action":"deleted"' in data for data in said] == [False, True]


async def test_a_key_made_by_a_key_expires_no_later_than_its_maker(memory_office: Any) -> None:
    office = memory_office
    short = await office.book.keys.make(
        KeyRequest(name="s", rights=("runs.read", "keys.write"), expires_in_s=60), ADMIN
    )
    made = await office.book.keys.make(CI_READS, office.caller(short.token))
    assert made.saved.value.expires_ms == short.saved.value.expires_ms
    shorter = KeyRequest(name="k", rights=("runs.read",), expires_in_s=5)
    made = await office.book.keys.make(shorter, office.caller(short.token))
    assert made.saved.value.expires_ms == office.clock.now_ms() + 5000


async def test_a_key_expires(memory_office: Any) -> None:
    office = memory_office
    made = await office.book.keys.make(member(expires_in_s=60), ADMIN)
    office.clock.advance(59)
    assert office.caller(made.token) is not None
    office.clock.advance(1)
    assert office.caller(made.token) is None
    assert (await office.book.keys.make(member(), ADMIN)).saved.value.expires_ms == office.clock.now_ms() + round(
        KEY_LIFE_S * 1000
    )


@pytest.mark.parametrize("seconds", [0, -1, KEY_LIFE_MAX_S + 1, float("inf"), float("nan")])
async def test_a_key_with_an_invalid_expiry_is_refused(memory_office: Any, seconds: float) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await memory_office.book.keys.make(member(expires_in_s=seconds), ADMIN)
    assert caught.value.details["field"] == "expires_in_s"
    assert memory_office.book.keys.all("default") == []


async def test_a_deleted_key_is_refused_at_once_and_after_a_restart(office: Any) -> None:
    made = await office.book.keys.make(CI, ADMIN)
    await office.book.keys.delete_as(ADMIN, made.saved.id)
    assert office.caller(made.token) is None
    await office.again()
    assert office.caller(made.token) is None
    with pytest.raises(NotFound):
        await office.book.keys.delete_as(ADMIN, made.saved.id)
    with pytest.raises(NotFound):
        office.book.keys.get("default", made.saved.id)


async def test_a_caller_with_fewer_rights_cannot_delete_a_key(memory_office: Any) -> None:
    office = memory_office
    made = await office.book.keys.make(KeyRequest(name="k", rights=("users.write",)), ADMIN)
    operator = Caller(workspace="default", kind="key", name="key:1", rights=frozenset({"keys.write"}))
    with pytest.raises(Forbidden):
        await office.book.keys.delete_as(operator, made.saved.id)
    assert office.caller(made.token) is not None


async def test_the_last_use_is_saved_at_most_once_a_minute(office: Any) -> None:
    made = await office.book.keys.make(CI, ADMIN)
    uses, key_id = office.book.uses, made.saved.id
    assert uses.last("default", key_id) is None
    first = office.clock.now_ms()
    for _ in range(100):
        office.caller(made.token)
    assert uses.last("default", key_id) == first
    office.clock.advance(KEY_USE_S - 1)
    office.caller(made.token)
    assert uses.last("default", key_id) == first
    office.clock.advance(1)
    await office.journal.commit(Entry())
    commits = office.journal.numbers.entries
    office.caller(made.token)
    office.caller(made.token)
    await office.journal.commit(Entry())
    assert office.journal.numbers.entries - commits == 2
    await office.again()
    assert office.book.uses.last("default", key_id) == office.clock.now_ms()
    await office.book.keys.delete_as(ADMIN, key_id)
    assert office.store.all_kept("key_use") == []
