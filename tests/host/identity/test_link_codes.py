"""Codes that link an actor of a chat to a user: once, for ten minutes, and only for a session of the user."""

import pytest

from bollard.host.errors import Forbidden, InvalidRequest, Overloaded
from bollard.host.identity.caller import installation
from bollard.host.scope import Actor

from .conftest import Office


async def test_a_code_works_once_and_survives_a_restart(office: Office) -> None:
    await office.user("ann")
    caller = office.caller(await office.login("ann"))
    code = await office.book.codes.for_actor("default", "room:a")
    assert code not in str(office.store.all_kept("link_code"))
    await office.again()
    await office.book.codes.redeem_as_user(caller, f" {code.lower()[:5]}-{code.lower()[5:]} ", None)
    user = office.book.links.user_of("default", Actor("room", "a"))
    assert user is not None
    assert user.user_id == "ann"
    with pytest.raises(InvalidRequest):
        await office.book.codes.redeem_as_user(caller, code, None)


async def test_a_code_expires_after_ten_minutes_and_fits_one_direction(office: Office) -> None:
    await office.user("ann")
    caller = office.caller(await office.login("ann"))
    code, _ = await office.book.codes.for_user(caller, None)
    with pytest.raises(InvalidRequest):
        await office.book.codes.redeem_as_user(caller, code, None)
    office.clock.advance(601)
    with pytest.raises(InvalidRequest):
        await office.book.codes.redeem_as_actor("default", "room:a", code)


async def test_a_sender_has_five_codes_a_minute(office: Office) -> None:
    for _ in range(5):
        with pytest.raises(InvalidRequest):
            await office.book.codes.redeem_as_actor("default", "room:a", "guess")
    with pytest.raises(Overloaded):
        await office.book.codes.redeem_as_actor("default", "room:a", "guess")
    assert await office.book.codes.for_actor("default", "room:b")


async def test_a_key_of_a_user_cannot_lend_the_rights_of_its_user(office: Office) -> None:
    await office.user("ann")
    session = office.caller(await office.login("ann"))
    key = type(session)(workspace="default", kind="key", name="key:1", user_id="ann", rights=frozenset())
    with pytest.raises(InvalidRequest):
        await office.book.codes.for_user(key, None)
    with pytest.raises(Forbidden):
        await office.book.codes.for_user(key, "ann")
    assert await office.book.codes.for_user(installation(), "ann")
