"""`state.*`: scopes, compare-and-set, expiry and quotas."""

import asyncio
from typing import Any

import pytest

from bollard.host.log.entries import ExpectationResult, StateExpectation
from bollard.host.run_api.refusal import write_down
from bollard.host.run_api.storage import STATE_TTL_S
from bollard.protocol import limits


async def test_a_value_reads_back_the_same_and_each_write_has_a_later_version(house: Any) -> None:
    run = await house.begin()

    first = await house.ask(run, "state.set", scope="conversation", key="mood", value={"happy": [1, None, "ü"]})
    second = await house.ask(run, "state.set", scope="conversation", key="mood", value=None)
    found = await house.ask(run, "state.get", scope="conversation", key="mood")

    assert (first["existed"], second["existed"]) == (False, True)
    assert 0 < first["version"] < second["version"]
    assert found == {"value": None, "version": second["version"]}
    written = house.records(run, "state.updated")
    assert [record["version"] for record in written] == [first["version"], second["version"]]


async def test_a_value_survives_its_run(house: Any) -> None:
    run = await house.begin()
    await house.ask(run, "state.set", scope="conversation", key="k", value=1)
    await house.end(run)

    again = await house.begin()

    assert (await house.ask(again, "state.get", scope="conversation", key="k"))["value"] == 1


@pytest.mark.requirement("P04-08")
@pytest.mark.parametrize(
    ("scope", "foreign"),
    [
        ("actor", {"actor_id": "bob"}),
        ("actor", {"actor_type": "bot"}),
        ("actor", {"bot": "second"}),
        ("conversation", {"conversation": "other"}),
        ("conversation", {"thread": "aside"}),
        ("subject", {"subject_id": "o-2"}),
        ("runner", {"bot": "second"}),
    ],
)
async def test_state_is_invisible_to_other_scopes(house: Any, scope: str, foreign: dict[str, Any]) -> None:
    about = {"subject_type": "order", "subject_id": "o-1"}
    ann = await house.begin(**about)
    other = await house.begin(**{**about, **foreign})
    await house.ask(ann, "state.set", scope=scope, key="secret", value="of ann")

    refused = await house.refusal(other, "state.get", scope=scope, key="secret")
    never = await house.refusal(other, "state.get", scope=scope, key="never")

    assert refused.bytes == never.bytes
    assert (await house.ask(other, "state.list", scope=scope))["keys"] == []
    assert (await house.ask(other, "state.delete", scope=scope, key="secret")) == {"existed": False}
    assert (await house.ask(other, "state.set", scope=scope, key="secret", value=0, if_version=0))["existed"] is False
    assert (await house.ask(ann, "state.get", scope=scope, key="secret"))["value"] == "of ann"


async def test_the_state_of_an_actor_is_the_same_in_every_conversation(house: Any) -> None:
    here, there = await house.begin(), await house.begin(conversation="other")
    await house.ask(here, "state.set", scope="actor", key="name", value="Ann")

    assert (await house.ask(there, "state.get", scope="actor", key="name"))["value"] == "Ann"


@pytest.mark.requirement("P04-08")
async def test_two_agents_of_one_runner_do_not_share_state(house: Any, make_agent: Any) -> None:
    one, two = await house.begin(make_agent("one")), await house.begin(make_agent("two"))
    await house.ask(one, "state.set", scope="runner", key="k", value=1)

    assert (await house.refusal(two, "state.get", scope="runner", key="k")).code == "not_found"


@pytest.mark.requirement("P06-15")
async def test_of_two_concurrent_compare_and_set_calls_one_wins_and_the_other_gets_the_version(house: Any) -> None:
    runs = [await house.begin(), await house.begin()]
    read = (await house.ask(runs[0], "state.set", scope="conversation", key="n", value=0))["version"]

    outcomes = await asyncio.gather(
        *(house.ask(run, "state.set", scope="conversation", key="n", value=1, if_version=read) for run in runs),
        return_exceptions=True,
    )

    (won,) = [outcome for outcome in outcomes if isinstance(outcome, dict)]
    (lost,) = [outcome for outcome in outcomes if not isinstance(outcome, dict)]
    assert won["existed"]
    assert lost.code == "invalid_argument"
    assert lost.details == {"field": "if_version", "reason": "version", "version": won["version"]}
    refused = [record for run in runs for record in house.records(run, "state.refused")]
    assert [(record["scope"], record["key"], record["version"]) for record in refused] == [("conversation", "n", read)]


@pytest.mark.requirement("P06-15")
@pytest.mark.parametrize("gone", ["expired", "swept", "deleted"])
async def test_a_version_of_a_deleted_value_is_never_reused(house: Any, gone: str) -> None:
    ann, bob = await house.begin(), await house.begin()
    lock = {"scope": "runner", "key": "lock"}
    held = await house.ask(ann, "state.set", **lock, value="ann", if_version=0, ttl=1)
    if gone == "deleted":
        await house.ask(ann, "state.delete", **lock)
    house.clock.advance(1)
    if gone == "swept":
        with house.store.write() as transaction:
            transaction.drop_expired(house.clock.now_ms(), 10)
    await house.ask(bob, "state.set", **lock, value="bob", if_version=0)

    refused = await house.refusal(ann, "state.set", **lock, value="ann again", if_version=held["version"])
    kept = await house.refusal(ann, "state.delete", **lock, if_version=held["version"])

    assert (refused.details["reason"], kept.details["reason"]) == ("version", "version")
    assert (await house.ask(bob, "state.get", **lock))["value"] == "bob"


async def test_concurrent_writes_of_one_run_are_checked_in_order(house: Any) -> None:
    run = await house.begin()

    plain = await asyncio.gather(
        *(house.ask(run, "state.set", scope="conversation", key="n", value=value) for value in range(5))
    )
    newest = max(written["version"] for written in plain)
    compared = await asyncio.gather(
        *(house.ask(run, "state.set", scope="conversation", key="n", value=0, if_version=newest) for _ in range(5)),
        return_exceptions=True,
    )

    assert len({written["version"] for written in plain}) == 5
    assert sum(written["existed"] for written in plain) == 4
    assert sum(isinstance(outcome, dict) for outcome in compared) == 1


async def test_the_last_space_of_a_scope_is_given_once(house: Any) -> None:
    run, large = await house.begin(), "x" * (limits.STATE_VALUE_BYTES - 2)
    for number in range(14):
        await house.ask(run, "state.set", scope="conversation", key=f"k{number}", value=large)

    outcomes = await asyncio.gather(
        *(house.ask(run, "state.set", scope="conversation", key=f"l{number}", value=large) for number in range(4)),
        return_exceptions=True,
    )

    assert sum(isinstance(outcome, dict) for outcome in outcomes) == 1


@pytest.mark.requirement("P06-15")
async def test_version_zero_requires_an_absent_value(house: Any) -> None:
    run = await house.begin()

    first = await house.ask(run, "state.set", scope="conversation", key="k", value=1, if_version=0)
    again = await house.refusal(run, "state.set", scope="conversation", key="k", value=2, if_version=0)
    absent = await house.refusal(run, "state.set", scope="conversation", key="other", value=2, if_version=3)

    assert again.details["version"] == first["version"] > 0
    assert absent.details["version"] == 0
    assert (await house.ask(run, "state.get", scope="conversation", key="k"))["value"] == 1


@pytest.mark.requirement("P06-15")
async def test_an_expired_value_is_not_found(house: Any) -> None:
    run = await house.begin()
    await house.ask(run, "state.set", scope="conversation", key="k", value=1, ttl=60)
    found = await house.ask(run, "state.get", scope="conversation", key="k")
    now = house.clock.now_ms() / 1000

    house.clock.advance(60)

    assert found["expires_at"] == now + 60
    assert (await house.refusal(run, "state.get", scope="conversation", key="k")).code == "not_found"
    assert (await house.ask(run, "state.list", scope="conversation"))["keys"] == []
    assert (await house.ask(run, "state.delete", scope="conversation", key="k")) == {"existed": False}
    again = await house.ask(run, "state.set", scope="conversation", key="k", value=2, if_version=0)
    kept = await house.ask(run, "state.get", scope="conversation", key="k")
    assert again == {"version": kept["version"], "existed": False}
    assert "expires_at" not in kept


async def test_a_value_is_deleted_once_and_only_at_its_version(house: Any) -> None:
    run = await house.begin()
    here = (await house.ask(run, "state.set", scope="conversation", key="k", value=1))["version"]

    refused = await house.refusal(run, "state.delete", scope="conversation", key="k", if_version=here + 1)
    deleted = await house.ask(run, "state.delete", scope="conversation", key="k", if_version=here)
    again = await house.ask(run, "state.delete", scope="conversation", key="k")
    absent = await house.refusal(run, "state.delete", scope="conversation", key="k", if_version=here)

    assert refused.details["version"] == here
    assert (deleted, again) == ({"existed": True}, {"existed": False})
    assert absent.details["version"] == 0
    assert len(house.records(run, "state.deleted")) == 1


@pytest.mark.requirement("P06-14")
async def test_a_value_and_a_scope_have_their_limits(house: Any) -> None:
    run = await house.begin()
    large = "x" * (limits.STATE_VALUE_BYTES - 2)

    too_large = await house.refusal(run, "state.set", scope="conversation", key="k", value=large + "x")
    for number in range(15):
        await house.ask(run, "state.set", scope="conversation", key=f"k{number}", value=large)
    refused = await house.refusal(run, "state.set", scope="conversation", key="k15", value=large)
    replaced = await house.ask(run, "state.set", scope="conversation", key="k0", value=large)
    elsewhere = await house.ask(run, "state.set", scope="actor", key="k15", value=large)

    assert too_large.code == "payload_too_large"
    assert refused.code == "payload_too_large"
    assert refused.details["reason"] == "quota"
    assert replaced["existed"]
    assert not elsewhere["existed"]


@pytest.mark.requirement("P06-14")
async def test_an_expired_value_frees_its_quota_at_once(house: Any) -> None:
    run, large = await house.begin(), "x" * (limits.STATE_VALUE_BYTES - 2)
    for number in range(15):
        await house.ask(run, "state.set", scope="conversation", key=f"k{number}", value=large, ttl=1)
    refused = await house.refusal(run, "state.set", scope="conversation", key="new", value=large)

    house.clock.advance(1)

    assert refused.details["reason"] == "quota"
    assert (await house.ask(run, "state.list", scope="conversation"))["keys"] == []
    assert not (await house.ask(run, "state.set", scope="conversation", key="new", value=large))["existed"]


async def test_keys_are_listed_by_a_literal_prefix(house: Any) -> None:
    run = await house.begin()
    keys = ["%", "a", "a%", "a%b", "a_", "a_b", "ab", "a\\", "b", "é", "鹦鹉", "🦜"]
    for key in keys:
        await house.ask(run, "state.set", scope="conversation", key=key, value=1)

    async def listed(prefix: str) -> list[str]:
        return (await house.ask(run, "state.list", scope="conversation", prefix=prefix))["keys"]

    assert await listed("") == sorted(keys)
    for prefix in [*keys, "zz", "a\0", "*", "x" * 2000]:
        assert await listed(prefix) == sorted(key for key in keys if key.startswith(prefix)), prefix


async def test_keys_are_paged_including_the_longest_ones(house: Any) -> None:
    run = await house.begin()
    keys = sorted(f"{mark * 255}{number}" for mark in "é🦜\x01" for number in range(3))
    for key in keys:
        await house.ask(run, "state.set", scope="conversation", key=key, value=1)

    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await house.ask(run, "state.list", scope="conversation", limit=2, **cursor)
        seen += page["keys"]
        if not page["has_more"]:
            break
        cursor = {"cursor": page["next_cursor"]}

    assert seen == keys


async def test_a_cursor_of_another_scope_prefix_or_run_is_refused(house: Any) -> None:
    run, other = await house.begin(), await house.begin()
    for scope in ("conversation", "actor"):
        for key in ("a1", "a2"):
            await house.ask(run, "state.set", scope=scope, key=key, value=1)
            await house.ask(run, "storage.set", area="plugin", key=key, content_base64="")

    async def cursor(of: Any, **params: Any) -> str:
        return (await house.ask(of, "state.list", limit=1, **params))["next_cursor"]

    good = await cursor(run, scope="conversation")
    signed, _, key = good.partition(".")
    foreign = [
        await cursor(run, scope="actor"),
        await cursor(run, scope="conversation", prefix="a"),
        await cursor(other, scope="conversation"),
        (await house.ask(run, "storage.list", area="plugin", limit=1))["next_cursor"],
        f"{signed}.YTI=",
        f"{signed}.é",
        signed,
        f".{key}",
        "",
    ]

    assert (await house.ask(run, "state.list", scope="conversation", cursor=good))["keys"] == ["a2"]
    refusals = [await house.refusal(run, "state.list", scope="conversation", cursor=each) for each in foreign]
    assert {refused.code for refused in refusals} == {"invalid_argument"}
    assert len({refused.bytes for refused in refusals}) == 1


@pytest.mark.parametrize(
    ("action", "params", "field"),
    [
        ("state.set", {"key": "a\0b", "value": 1}, "key"),
        ("state.get", {"key": "a\0b"}, "key"),
        ("state.delete", {"key": "a\0b"}, "key"),
        ("state.set", {"key": "k", "value": 1, "ttl": STATE_TTL_S + 1}, "ttl"),
        ("state.set", {"key": "k", "value": 1, "ttl": 0}, "ttl"),
        ("state.set", {"key": "", "value": 1}, "key"),
        ("state.set", {"key": "k", "value": 1, "if_version": -1}, "if_version"),
    ],
)
async def test_an_invalid_key_or_value_is_refused(
    memory_house: Any, action: str, params: dict[str, Any], field: str
) -> None:
    run = await memory_house.begin()

    refused = await memory_house.refusal(run, action, scope="conversation", **params)

    assert (refused.code, refused.details["field"]) == ("invalid_argument", field)


async def test_an_ended_run_writes_no_state(memory_house: Any) -> None:
    run = await memory_house.begin()
    await memory_house.end(run)

    refused = await memory_house.refusal(run, "state.set", scope="conversation", key="k", value=1)

    assert (refused.code, refused.message) == ("not_found", "there is no such run")


async def test_expiry_is_judged_by_the_time_of_the_record(house: Any) -> None:
    run = await house.begin()
    first = await house.ask(run, "state.set", scope="conversation", key="k", value=1, ttl=60)
    asked_at = house.clock.now_ms()
    house.clock.advance(60)
    expects = StateExpectation(
        record=0,
        otherwise=("state.refused", b"{}"),
        scope_key=run.grant.state_keys["conversation"],
        key="k",
        now_ms=asked_at,  # a slow caller
        version=first["version"],
        size=2,
        quota=100,
    )
    data = {"scope": "conversation", "key": "k", "value": 2}

    judged = await write_down(run, "state.updated", data, expects=expects)

    assert judged == ExpectationResult(0, "version")
    assert (await house.refusal(run, "state.get", scope="conversation", key="k")).code == "not_found"
