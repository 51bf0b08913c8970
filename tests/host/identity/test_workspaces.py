"""Workspaces: made and closed by the installation, never given again; and which user an actor is."""

from typing import Any

import pytest

from bollard.host.errors import Conflict, Forbidden, InvalidRequest, NotFound
from bollard.host.identity.caller import Caller, installation, rights_of
from bollard.host.identity.keys import KeyRequest
from bollard.host.scope import Actor

BY = "admin-token"


async def test_one_workspace_exists_from_the_start(office: Any) -> None:
    workspaces = office.book.workspaces
    assert workspaces.open_ids() == ["default"]
    assert workspaces.get("default").revision == 0
    assert not workspaces.is_open("north")


async def test_a_workspace_is_created_renamed_and_survives_a_restart(office: Any) -> None:
    await office.book.workspaces.save({"workspace_id": "north"}, BY)
    await office.book.workspaces.save({"workspace_id": "north", "name": "Norden"}, BY, 1)
    await office.again()
    assert office.book.workspaces.open_ids() == ["default", "north"]
    assert office.book.workspaces.get("north").value.name == "Norden"
    (first, second) = office.records("policy.changed")
    assert (first.workspace, second.workspace) == ("north", "north")


async def test_a_closed_workspace_refuses_its_tokens_and_its_id_is_not_reused(office: Any) -> None:
    await office.book.workspaces.save({"workspace_id": "north"}, BY)
    await office.user(workspace="north")
    token = await office.login(workspace="north")
    key = (await office.book.keys.make(KeyRequest(name="k", rights=("runs.read",)), installation("north"))).token
    assert office.caller(token) is not None
    await office.book.workspaces.close("north", BY)
    for _ in range(2):
        assert office.caller(token) is None
        assert office.caller(key) is None
        assert office.book.workspaces.open_ids() == ["default"]
        with pytest.raises(NotFound):
            office.book.workspaces.get("north")
        with pytest.raises(NotFound):
            await office.book.workspaces.close("north", BY)
        with pytest.raises(Conflict, match="belonged to a deleted workspace"):
            await office.book.workspaces.save({"workspace_id": "north"}, BY)
        await office.again()


async def test_the_first_workspace_cannot_be_closed(memory_office: Any) -> None:
    with pytest.raises(Conflict):
        await memory_office.book.workspaces.close("default", BY)
    assert memory_office.book.workspaces.is_open("default")


async def test_listeners_learn_of_opened_and_closed_workspaces(memory_office: Any) -> None:
    heard: list[tuple[str, str]] = []
    workspaces = memory_office.book.workspaces
    workspaces.watch(lambda each: heard.append(("opened", each)), lambda each: heard.append(("closed", each)))
    await workspaces.save({"workspace_id": "north"}, BY)
    await workspaces.save({"workspace_id": "north", "name": "Norden"}, BY)
    await workspaces.save({"workspace_id": "default", "name": "Home"}, BY)
    await workspaces.close("north", BY)
    assert heard == [("opened", "north"), ("closed", "north")]


@pytest.mark.parametrize(
    "body",
    [{}, {"workspace_id": "North"}, {"workspace_id": ""}, {"workspace_id": "../etc"}, {"workspace_id": "a", "x": 1}],
)
async def test_an_invalid_workspace_is_refused(memory_office: Any, body: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        await memory_office.book.workspaces.save(body, BY)
    assert memory_office.book.workspaces.open_ids() == ["default"]


# --- actors of channels ---


async def test_an_actor_of_a_channel_resolves_to_its_linked_user(office: Any) -> None:
    await office.user(role="operator")
    await office.book.links.save({"actor": "feishu:ou_1", "user_id": "ann"}, installation())
    await office.again()
    names = office.book.links.names("default", Actor("feishu", "ou_1"))
    assert names == {"feishu:ou_1", "feishu:*", "user:ann", "user:*", "role:viewer", "role:member", "role:operator"}
    assert office.book.links.names("default", Actor("feishu", "ou_2")) == {"feishu:ou_2", "feishu:*"}
    assert office.book.links.names("other", Actor("feishu", "ou_1")) == {"feishu:ou_1", "feishu:*"}


async def test_a_link_to_a_deleted_or_disabled_user_has_no_effect(memory_office: Any) -> None:
    office = memory_office
    await office.user()
    saved = await office.book.links.save({"actor": "feishu:ou_1", "user_id": "ann"}, installation())
    await office.user(password=None, disabled=True)
    assert office.book.links.user_of("default", Actor("feishu", "ou_1")) is None
    await office.user(password=None)
    assert office.book.links.user_of("default", Actor("feishu", "ou_1")).user_id == "ann"
    await office.book.delete_user("ann", installation())
    with pytest.raises(NotFound):
        office.book.links.get("default", saved.id)
    await office.user()  # another user of this name
    assert office.book.links.user_of("default", Actor("feishu", "ou_1")) is None


@pytest.mark.parametrize(("actor_type", "actor_id"), [("role", "admin"), ("user", "*"), ("a:b", "c"), ("", "x")])
async def test_an_actor_without_a_link_gets_no_role(memory_office: Any, actor_type: str, actor_id: str) -> None:
    await memory_office.user(role="admin")
    user = memory_office.book.links.user_of("default", Actor(actor_type, actor_id))
    assert user is None


@pytest.mark.parametrize("actor", ["user:bob", "role:admin", "key:1", "ou_1", "feishu:*", "feishu:", ""])
async def test_only_an_actor_of_a_channel_can_be_linked(memory_office: Any, actor: str) -> None:
    await memory_office.user()
    with pytest.raises(InvalidRequest):
        await memory_office.book.links.save({"actor": actor, "user_id": "ann"}, installation())
    with pytest.raises(InvalidRequest, match="there is no user bob"):
        await memory_office.book.links.save({"actor": "feishu:ou_1", "user_id": "bob"}, installation())
    assert memory_office.book.links.all("default") == []


async def test_a_caller_cannot_link_an_actor_to_a_user_with_more_rights(memory_office: Any) -> None:
    office = memory_office
    await office.user(role="admin")
    await office.user("vic", role="viewer")
    rights = frozenset({"users.write", *rights_of("viewer")})
    narrow = Caller(workspace="default", kind="key", name="key:1", rights=rights)
    with pytest.raises(Forbidden, match="has rights that you lack"):
        await office.book.links.save({"actor": "feishu:ou_1", "user_id": "ann"}, narrow)
    assert office.book.links.all("default") == []
    await office.book.links.save({"actor": "feishu:ou_1", "user_id": "vic"}, narrow)
    assert office.book.links.user_of("default", Actor("feishu", "ou_1")).user_id == "vic"
