"""Users, their passwords and their sessions: storage and tokens."""

import asyncio
import threading
from typing import Any, Literal

import pytest
from argon2 import PasswordHasher

from bollard.host.errors import Conflict, Forbidden, InvalidRequest, NotFound, Overloaded, Unauthenticated
from bollard.host.identity.caller import installation, rights_of
from bollard.host.identity.directory import open_identity
from bollard.host.identity.keys import KeyRequest
from bollard.host.identity.passwords import Passwords
from bollard.host.identity.sessions import digest_of
from bollard.host.limits import (
    LOGINS_OF_USER_PER_MINUTE,
    LOGINS_PER_MINUTE,
    PASSWORDS_AT_ONCE,
    PASSWORDS_WAITING,
    SESSION_S,
    SESSIONS_OF_USER,
)
from bollard.host.log.entries import Entry

PASSWORD = "correct horse battery"

ADMIN = installation()


async def test_a_user_logs_in_with_the_password_and_has_the_rights_of_the_role(office: Any) -> None:
    await office.user(role="operator")
    caller = office.caller(await office.login())
    assert (caller.workspace, caller.kind, caller.name, caller.role) == ("default", "session", "user:ann", "operator")
    assert caller.rights == rights_of("operator")


async def test_users_and_sessions_survive_a_restart(office: Any) -> None:
    await office.user()
    token = await office.login()
    await office.again()
    assert office.caller(token).user_id == "ann"
    assert office.caller(await office.login()).user_id == "ann"


async def test_no_password_and_no_token_is_in_the_log_or_stored_in_clear(office: Any) -> None:
    await office.user()
    token = await office.login()
    written = b"".join(row.data for row in office.store.records(0, 100))
    kept = b"".join(
        row.body + row.id.encode() for kind in ("password", "session") for row in office.store.all_kept(kind)
    )
    for secret in (PASSWORD, token, "$argon2"):
        assert secret.encode() not in written
    for secret in (PASSWORD, token):
        assert secret.encode() not in kept


@pytest.mark.parametrize(
    ("workspace", "user_id", "password"),
    [
        ("default", "ann", "wrong password"),
        ("default", "nobody", PASSWORD),
        ("default", "keyed", PASSWORD),
        ("default", "off", PASSWORD),
        ("nowhere", "ann", PASSWORD),
        ("default", "ann", ""),
        ("default", "", ""),
        ("default", "ann", "x" * 100_000),
    ],
)
async def test_every_failed_login_gets_the_same_error(
    memory_office: Any, workspace: str, user_id: str, password: str
) -> None:
    office = memory_office
    await office.user()
    await office.user("keyed", password=None)
    await office.user("off", disabled=True)
    with pytest.raises(Unauthenticated) as caught:
        await office.login(user_id, password, workspace)
    assert (caught.value.message, caught.value.hint, caught.value.details) == (
        "the workspace, the user or the password is wrong",
        "check all three and try again",
        {"reason": "login"},
    )


class Watched(PasswordHasher):
    """Records its calls, and answers on demand."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.costs: list[str] = []
        self.lets = threading.Event()
        self.lets.set()
        self.begun = threading.Event()
        self.at_once = self.most = 0
        self._counting = threading.Lock()

    def verify(self, hash: str, password: str) -> Literal[True]:  # noqa: A002 -- as the library calls it
        self.costs.append(hash.rsplit("$", 2)[0])
        return super().verify(hash, password)

    def hash(self, password: str, *, salt: bytes | None = None) -> str:
        with self._counting:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        self.begun.set()
        self.lets.wait(10)
        with self._counting:
            self.at_once -= 1
        return super().hash(password, salt=salt)


async def test_an_unknown_user_costs_as_much_hashing_as_a_known_one() -> None:
    watched = Watched()
    passwords = Passwords(watched)
    hashed = await passwords.hash(PASSWORD)
    assert await passwords.verify(hashed, PASSWORD)
    assert not await passwords.verify(hashed, "other")
    assert not await passwords.verify(None, PASSWORD)
    assert len(watched.costs) == 3
    assert len(set(watched.costs)) == 1  # the same algorithm at the same cost


async def test_logins_and_failures_are_in_the_log_without_the_typed_values(memory_office: Any) -> None:
    office = memory_office
    await office.user()
    await office.login()
    for user_id, workspace in (("ann", "default"), ("my secret password", "default"), ("ann", "nowhere")):
        with pytest.raises(Unauthenticated):
            await office.login(user_id, "wrong", workspace)
    await office.journal.commit(Entry())  # earlier entries are on disk with it
    (succeeded,) = office.records("login.succeeded")
    assert b'"user_id":"ann"' in succeeded.data
    failed = [row.data for row in office.records("login.failed")]
    assert [b'"user_id":"ann"' in data for data in failed] == [True, False, True]
    assert all(b"secret" not in data for data in failed)


async def test_a_login_above_the_rate_waits_and_then_succeeds(memory_office: Any) -> None:
    office = memory_office
    await office.user()
    for _ in range(LOGINS_PER_MINUTE):
        with pytest.raises(Unauthenticated):
            await office.login(password="wrong password")
    with pytest.raises(Overloaded) as caught:
        await office.login()
    assert 0 < caught.value.details["retry_after_s"] <= 60 / LOGINS_PER_MINUTE + 1
    session = await office.book.sessions.begin("default", "ann", PASSWORD, "10.0.0.9")
    assert office.caller(session.token) is not None  # tries of another address do not lock her out
    office.clock.advance(60)
    assert office.caller(await office.login()) is not None


async def test_a_session_expires(memory_office: Any) -> None:
    office = memory_office
    await office.user()
    token = await office.login()
    office.clock.advance(SESSION_S - 1)
    assert office.caller(token) is not None
    office.clock.advance(1)
    assert office.caller(token) is None
    await office.again()
    assert office.caller(token) is None


async def test_an_expired_caller_is_not_current(memory_office: Any) -> None:
    office = memory_office
    await office.user(role="operator")
    ann = office.caller(await office.login())
    made = await office.book.keys.make(KeyRequest(name="k", rights=("runs.read",), expires_in_s=60), ann)
    key = office.caller(made.token)
    assert office.book.callers.is_current(ann)
    assert office.book.callers.is_current(key)
    office.clock.advance(60)
    assert office.book.callers.is_current(ann)
    assert not office.book.callers.is_current(key)  # even without any use since
    office.clock.advance(SESSION_S - 60)
    assert not office.book.callers.is_current(ann)


async def test_a_logout_ends_one_session_permanently(office: Any) -> None:
    await office.user()
    first, second = await office.login(), await office.login()
    await office.book.sessions.end(office.book.sessions.find(digest_of(first)))
    assert office.caller(first) is None
    assert office.caller(second) is not None
    await office.again()
    assert office.caller(first) is None
    assert office.caller(second) is not None


async def test_a_session_beyond_the_limit_ends_the_oldest(memory_office: Any) -> None:
    office = memory_office
    await office.user()
    tokens = []
    for _ in range(SESSIONS_OF_USER + 1):
        office.clock.advance(60)
        tokens.append(await office.login())
    assert office.caller(tokens[0]) is None
    assert all(office.caller(token) is not None for token in tokens[1:])
    assert len(office.store.all_kept("session")) == SESSIONS_OF_USER


async def test_a_changed_role_applies_to_every_session_at_once(office: Any) -> None:
    await office.user(role="admin")
    token = await office.login()
    await office.user(role="viewer", password=None)
    assert office.caller(token).rights == rights_of("viewer")
    assert office.caller(token).role == "viewer"


@pytest.mark.parametrize("change", [{"disabled": True, "password": None}, {"password": "another password"}])
async def test_a_new_password_and_a_disabled_user_end_every_session(office: Any, change: dict[str, Any]) -> None:
    await office.user()
    token = await office.login()
    await office.user(**change)
    assert office.caller(token) is None
    assert office.store.all_kept("session") == []
    await office.again()
    assert office.caller(token) is None


async def test_a_password_change_keeps_only_the_current_session(memory_office: Any) -> None:
    office = memory_office
    await office.user()
    here, elsewhere = await office.login(), await office.login()
    with pytest.raises(Unauthenticated):
        await office.book.change_password(office.caller(here), "wrong", "another password", "::1")
    await office.book.change_password(office.caller(here), PASSWORD, "another password", "::1", but=digest_of(here))
    assert office.caller(here) is not None
    assert office.caller(elsewhere) is None
    assert office.caller(await office.login(password="another password")) is not None
    with pytest.raises(InvalidRequest, match="belongs to no user"):
        await office.book.change_password(ADMIN, "", "another password", "::1")


async def test_a_deleted_user_loses_password_and_sessions(office: Any) -> None:
    await office.user()
    token = await office.login()
    await office.book.delete_user("ann", ADMIN)
    assert office.caller(token) is None
    assert office.store.all_kept("password") == []
    await office.again()
    assert office.book.users.all("default") == []
    with pytest.raises(NotFound):
        await office.book.delete_user("ann", ADMIN)
    await office.user(password=None)
    with pytest.raises(Unauthenticated):
        await office.login()


async def test_an_edit_of_an_older_revision_is_refused_and_changes_nothing(memory_office: Any) -> None:
    office = memory_office
    await office.user()
    await office.user(role="viewer", password=None)
    with pytest.raises(Conflict) as caught:
        await office.book.save_user({"user_id": "ann", "role": "admin"}, ADMIN, edited=1)
    assert caught.value.details["revision"] == 2
    assert office.book.users.get("default", "ann").value.role == "viewer"


@pytest.mark.parametrize(
    "body",
    [
        {"user_id": "Ann", "role": "member"},
        {"user_id": "аnn", "role": "member"},
        {"user_id": "ann", "role": "owner"},
        {"user_id": "ann"},
        {"user_id": "ann", "role": "member", "admin": True},
        {"user_id": "ann", "role": "member", "name": "a\u202eb"},
        {"user_id": "ann", "role": "member", "disabled": "no"},
    ],
)
async def test_an_invalid_user_is_refused_by_field_and_not_saved(memory_office: Any, body: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await memory_office.book.save_user(body, ADMIN)
    assert str(caught.value.details["field"]).startswith("user.")
    assert caught.value.hint
    assert memory_office.book.users.all("default") == []


@pytest.mark.parametrize("password", ["", "short", "x" * 300, "aaaaaaaaaaaaaa", "alexander1"])
async def test_an_invalid_password_is_refused(memory_office: Any, password: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await memory_office.user("alexander", password=password)
    assert caught.value.details["field"] == "password"
    assert memory_office.book.users.all("default") == []
    assert memory_office.store.all_kept("password") == []


async def test_users_of_two_workspaces_are_separate(memory_office: Any) -> None:
    office = memory_office
    await office.book.workspaces.save({"workspace_id": "north"}, "admin-token")
    await office.user()
    await office.user(workspace="north", role="admin", password="another password")
    assert office.caller(await office.login()).role == "member"
    north = office.caller(await office.login(password="another password", workspace="north"))
    assert (north.workspace, north.role) == ("north", "admin")
    await office.book.delete_user("ann", installation("north"))
    assert office.book.users.find("default", "ann") is not None


async def test_concurrent_password_hashes_and_their_queue_are_limited() -> None:
    watched = Watched()
    watched.lets.clear()
    passwords = Passwords(watched)
    taken = [asyncio.create_task(passwords.hash(PASSWORD)) for _ in range(PASSWORDS_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await passwords.hash(PASSWORD)
    watched.lets.set()
    assert len(await asyncio.gather(*taken)) == PASSWORDS_WAITING
    assert 1 <= watched.most <= PASSWORDS_AT_ONCE
    assert await passwords.hash(PASSWORD)


async def test_a_login_during_a_password_change_leaves_no_session(gate: Any, office_on: Any) -> None:
    office = await office_on(gate.store)
    await office.user()
    gate.shut()
    entering = asyncio.create_task(office.login())
    await gate.arrival()  # the session is on its way to the disk
    changing = asyncio.create_task(office.user(password="another password"))
    await asyncio.sleep(0)
    gate.lift()
    token = await entering
    await changing
    assert office.caller(token) is None
    assert office.store.all_kept("session") == []
    await office.again()
    assert office.caller(token) is None


async def test_a_password_changed_during_its_check_opens_no_session(memory_office: Any) -> None:
    office = memory_office
    watched = Watched()
    office.book = open_identity(journal=office.journal, clock=office.clock, passwords=Passwords(watched))
    await office.user()
    watched.lets.clear()
    changing = asyncio.create_task(office.user(password="another password"))
    entering = asyncio.create_task(office.login())
    watched.lets.set()
    outcomes = await asyncio.gather(changing, entering, return_exceptions=True)
    if isinstance(outcomes[1], str):  # it came in first, and the new password ended it
        assert office.caller(outcomes[1]) is None
    else:
        assert isinstance(outcomes[1], Unauthenticated)
    assert office.store.all_kept("session") == []


async def test_a_role_changed_during_a_password_change_is_kept(memory_office: Any) -> None:
    office = memory_office
    watched = Watched()
    office.book = open_identity(journal=office.journal, clock=office.clock, passwords=Passwords(watched))
    await office.user(role="admin")
    ann = office.caller(await office.login())
    watched.lets.clear()
    watched.begun.clear()
    changing = asyncio.create_task(office.book.change_password(ann, PASSWORD, "another password", "::1"))
    await asyncio.to_thread(watched.begun.wait, 10)  # the old one was right, the new one is being hashed
    await office.user(role="viewer", password=None)
    watched.lets.set()
    await changing
    assert office.caller(await office.login(password="another password")).role == "viewer"


@pytest.mark.parametrize("meanwhile", ["disabled", "deleted", "another"])
async def test_the_password_of_a_disabled_or_deleted_user_is_not_changed(memory_office: Any, meanwhile: str) -> None:
    office = memory_office
    watched = Watched()
    office.book = open_identity(journal=office.journal, clock=office.clock, passwords=Passwords(watched))
    await office.user()
    ann = office.caller(await office.login())
    watched.lets.clear()
    watched.begun.clear()
    changing = asyncio.create_task(office.book.change_password(ann, PASSWORD, "another password", "::1"))
    await asyncio.to_thread(watched.begun.wait, 10)
    if meanwhile == "disabled":
        await office.user(password=None, disabled=True)
    else:
        await office.book.delete_user("ann", ADMIN)
    if meanwhile == "another":
        await office.user(password=None)
    watched.lets.set()
    with pytest.raises(Unauthenticated):
        await changing
    with pytest.raises(Unauthenticated):
        await office.login(password="another password")
    found = office.book.users.user("default", "ann")
    assert (None if found is None else found.disabled) == {"disabled": True, "deleted": None, "another": False}[
        meanwhile
    ]


async def test_failed_logins_of_one_address_do_not_lock_the_user_out_elsewhere(memory_office: Any) -> None:
    office = memory_office
    await office.user()
    for _ in range(LOGINS_OF_USER_PER_MINUTE + 1):
        with pytest.raises((Unauthenticated, Overloaded)):
            await office.login(password="wrong password")
    session = await office.book.sessions.begin("default", "ann", PASSWORD, "10.0.0.9")
    assert office.caller(session.token) is not None


async def test_addresses_of_one_ipv6_network_share_a_login_rate(memory_office: Any) -> None:
    office = memory_office
    await office.user()
    for number in range(LOGINS_PER_MINUTE):
        with pytest.raises(Unauthenticated):
            await office.book.sessions.begin("default", "ann", "wrong password", f"2001:db8::{number}")
    with pytest.raises(Overloaded):
        await office.book.sessions.begin("default", "ann", "wrong password", "2001:db8::ffff")


async def test_a_caller_cannot_change_users_with_more_rights(memory_office: Any) -> None:
    office = memory_office
    await office.user(role="admin")
    await office.user("vic", role="viewer")
    wanted = KeyRequest(name="people", rights=("users.write", *rights_of("viewer")))
    narrow = office.caller((await office.book.keys.make(wanted, ADMIN)).token)
    for body, password in (
        ({"user_id": "eve", "role": "admin"}, PASSWORD),  # a new one
        ({"user_id": "vic", "role": "member"}, None),  # raised
        ({"user_id": "ann", "role": "viewer"}, None),  # lowered by a caller with fewer rights
        ({"user_id": "ann", "role": "admin"}, "another password"),  # taken over
    ):
        with pytest.raises(Forbidden, match="has rights that you lack"):
            await office.book.save_user(body, narrow, password=password)
    with pytest.raises(Forbidden):
        await office.book.delete_user("ann", narrow)
    assert {saved.id: saved.value.role for saved in office.book.users.all("default")} == {
        "ann": "admin",
        "vic": "viewer",
    }
    assert office.caller(await office.login()) is not None
    await office.book.save_user({"user_id": "eve", "role": "viewer"}, narrow, password=PASSWORD)
    await office.book.delete_user("vic", narrow)
    admin = office.caller(await office.login())
    await office.book.save_user({"user_id": "bob", "role": "admin"}, admin, password=PASSWORD)
