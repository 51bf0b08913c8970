"""Enrolling: a code binds a name to a key once, on every kind of store, and nothing of the code is kept."""

import asyncio
from typing import Any

import pytest

from bollard.host.errors import Conflict, InvalidRequest, NotFound, Overloaded, Unauthenticated
from bollard.host.limits import RUNTIME_CODE_S, RUNTIME_CODES, RUNTIMES_OF_WORKSPACE


async def test_a_code_enrols_one_key_and_a_repeat_gets_the_same_answer(harbour: Any, make_remote: Any) -> None:
    repository, first, second = harbour.remote.repository, make_remote(1), make_remote(2)
    code = await harbour.invite()
    saved = await repository.enrol(code, first.public, harbour.proof(first, code))
    assert (saved.workspace, saved.value.name, saved.value.consented) == ("default", "box", None)
    assert await repository.enrol(code, first.public, harbour.proof(first, code)) == saved
    with pytest.raises(Unauthenticated):
        await repository.enrol(code, second.public, harbour.proof(second, code))
    assert [row.type for row in harbour.records("runtime.enrolled")] == ["runtime.enrolled"]
    await harbour.again()
    assert harbour.remote.repository.of_key(first.public).value.name == "box"
    with pytest.raises(Unauthenticated):
        await harbour.remote.repository.enrol(code, second.public, harbour.proof(second, code))


async def test_of_two_concurrent_enrolments_with_one_code_one_succeeds(harbour: Any, make_remote: Any) -> None:
    code, remotes = await harbour.invite(), [make_remote(1), make_remote(2)]
    outcomes = await asyncio.gather(
        *(harbour.remote.repository.enrol(code, each.public, harbour.proof(each, code)) for each in remotes),
        return_exceptions=True,
    )
    assert sorted(isinstance(outcome, Unauthenticated) for outcome in outcomes) == [False, True]
    assert len(harbour.remote.repository.all("default")) == 1


async def test_a_code_survives_a_restart_and_expires(harbour: Any, make_remote: Any, clock: Any) -> None:
    remote, code, late = make_remote(), await harbour.invite("early"), await harbour.invite("late")
    await harbour.again()
    await harbour.remote.repository.enrol(code, remote.public, harbour.proof(remote, code))
    clock.advance(RUNTIME_CODE_S)
    other = make_remote(2)
    with pytest.raises(Unauthenticated):
        await harbour.remote.repository.enrol(late, other.public, harbour.proof(other, late))
    await harbour.again()
    with pytest.raises(Unauthenticated):
        await harbour.remote.repository.enrol(late, other.public, harbour.proof(other, late))


async def test_another_code_for_a_name_invalidates_the_earlier_one(harbour: Any, make_remote: Any) -> None:
    remote, first, second = make_remote(), await harbour.invite(), await harbour.invite()
    await harbour.again()
    with pytest.raises(Unauthenticated):
        await harbour.remote.repository.enrol(first, remote.public, harbour.proof(remote, first))
    await harbour.remote.repository.enrol(second, remote.public, harbour.proof(remote, second))


async def test_an_enrolment_without_the_private_key_is_refused(quick_harbour: Any, make_remote: Any) -> None:
    repository, owner, thief = quick_harbour.remote.repository, make_remote(1), make_remote(2)
    code = await quick_harbour.invite()
    for proof in (quick_harbour.proof(thief, code), quick_harbour.proof(owner, "another"), "00" * 64, "", "no hex"):
        with pytest.raises(Unauthenticated):
            await repository.enrol(code, owner.public, proof)
    with pytest.raises(InvalidRequest) as refused:
        await repository.enrol(code, "no key", quick_harbour.proof(owner, code))
    assert refused.value.details["field"] == "public_key"
    await repository.enrol(code, owner.public, quick_harbour.proof(owner, code))


async def test_a_name_is_unique_and_free_after_a_revocation(harbour: Any, make_remote: Any) -> None:
    remote = make_remote()
    await harbour.enrol(remote)
    with pytest.raises(Conflict):
        await harbour.invite()
    assert harbour.remote.repository.find("other", "box") is None
    with pytest.raises(NotFound):
        await harbour.remote.repository.revoke("other", "box", "admin-token")
    await harbour.remote.repository.revoke("default", "box", "admin-token")
    assert harbour.remote.repository.of_key(remote.public) is None
    assert len(harbour.records("runtime.revoked")) == 1
    await harbour.enrol(remote)
    await harbour.again()
    assert harbour.remote.repository.of_key(remote.public).value.name == "box"


async def test_runtimes_and_codes_have_limits(quick_harbour: Any, make_remote: Any) -> None:
    for number in range(RUNTIME_CODES):
        await quick_harbour.invite(f"n{number}")
    with pytest.raises(Overloaded):
        await quick_harbour.invite("one-more")
    await quick_harbour.invite("n0")
    quick_harbour.clock.advance(RUNTIME_CODE_S)
    for number in range(RUNTIMES_OF_WORKSPACE):
        await quick_harbour.enrol(make_remote(number + 1), f"n{number}")
    with pytest.raises(Overloaded):
        await quick_harbour.invite("one-more")
    await quick_harbour.invite("elsewhere", workspace="second")


async def test_neither_the_log_nor_the_store_contains_the_code(harbour: Any, make_remote: Any) -> None:
    remote, code = make_remote(), await harbour.invite()
    await harbour.remote.repository.enrol(code, remote.public, harbour.proof(remote, code))
    waiting = await harbour.invite("second")
    for secret in (code, waiting):
        assert all(secret.encode() not in (row.data or b"") for row in harbour.store.records(0, 1000))
        kept = harbour.store.all_kept("runtime_code", None, harbour.clock.now_ms())
        assert all(secret.encode() not in row.body and secret not in row.id for row in kept)
    assert len(kept) == 1, "the used one is gone"
