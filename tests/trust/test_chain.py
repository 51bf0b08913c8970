"""The chain's verifier finds every change: to any field of any record, to their order, to their number."""

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.trust import ChainedRecord, Header, Report, genesis, link, sha256_of, verify_chain

WORKSPACE, CHAIN = "acme", "0190a"


def build(count: int, *, chain: str = CHAIN, workspace: str = WORKSPACE, salt: str = "") -> list[ChainedRecord]:
    """A chain as the journal writes it: records of runs and records of the workspace."""
    rows: list[ChainedRecord] = []
    previous = genesis(workspace, chain)
    for position in range(1, count + 1):
        data = f'{{"n":{position}{salt}}}'.encode()
        of_run = position % 3 != 0
        header = Header(
            workspace,
            chain,
            position,
            f"run_{position % 4}" if of_run else None,
            position if of_run else None,
            1 if of_run else None,
            position - 1 if position % 2 else None,
            "message.completed" if position % 2 else "run.started",
            position % 2 == 0,
            1_700_000_000_000 + position,
            sha256_of(data),
        )
        previous = link(previous, header)
        rows.append(ChainedRecord(header, data, previous))
    return rows


def check(rows: list[ChainedRecord], **more: Any) -> Report:
    return verify_chain(WORKSPACE, CHAIN, rows, **more)


def test_an_untouched_chain_verifies_to_its_end() -> None:
    rows = build(20)
    report = check(rows, heads={20: rows[-1].hash, 7: rows[6].hash})
    assert (report.fault, report.position, report.records, report.hash) == (None, 20, 20, rows[-1].hash)


def test_an_empty_chain_verifies() -> None:
    report = check([])
    assert report.fault is None
    assert (report.position, report.hash) == (0, genesis(WORKSPACE, CHAIN))


# --- every single mutation, by hypothesis ---

Mutation = Callable[[list[ChainedRecord], random.Random], list[ChainedRecord]]


def _other(value: object, chance: random.Random) -> object:
    match value:
        case bool():
            return not value
        case int():
            return value + chance.choice([-1, 1, 1000])
        case None:
            return chance.choice([1, "x"])
        case str():
            at = chance.randrange(len(value))
            swapped = chance.choice([letter for letter in "0123456789abcdef" if letter != value[at]])
            return chance.choice([value[:at] + swapped + value[at + 1 :], value + "0", value[:-1]])
        case _:
            raise TypeError(value)


def _edit_header(rows: list[ChainedRecord], chance: random.Random) -> list[ChainedRecord]:
    at = chance.randrange(len(rows))
    field = chance.choice(Header.__struct_fields__)
    header = rows[at].header
    edited = msgspec.structs.replace(header, **{field: _other(getattr(header, field), chance)})
    return [*rows[:at], msgspec.structs.replace(rows[at], header=edited), *rows[at + 1 :]]


def _edit_header_and_hash(rows: list[ChainedRecord], chance: random.Random) -> list[ChainedRecord]:
    """A forger who also computes the record's own hash anew, but not those behind it."""
    edited = _edit_header(rows, chance)
    at = next(index for index, (old, new) in enumerate(zip(rows, edited, strict=True)) if old != new)
    previous = rows[at - 1].hash if at else genesis(WORKSPACE, CHAIN)
    edited[at] = msgspec.structs.replace(edited[at], hash=link(previous, edited[at].header))
    return edited


def _edit_data(rows: list[ChainedRecord], chance: random.Random) -> list[ChainedRecord]:
    at = chance.randrange(len(rows))
    data = bytearray(rows[at].data or b"")
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return [*rows[:at], msgspec.structs.replace(rows[at], data=bytes(data)), *rows[at + 1 :]]


def _edit_hash(rows: list[ChainedRecord], chance: random.Random) -> list[ChainedRecord]:
    at = chance.randrange(len(rows))
    return [*rows[:at], msgspec.structs.replace(rows[at], hash=str(_other(rows[at].hash, chance))), *rows[at + 1 :]]


def _delete(rows: list[ChainedRecord], chance: random.Random) -> list[ChainedRecord]:
    at = chance.randrange(len(rows))
    return [*rows[:at], *rows[at + 1 :]]


def _insert(rows: list[ChainedRecord], chance: random.Random) -> list[ChainedRecord]:
    at = chance.randrange(len(rows) + 1)
    foreign = chance.choice([*rows, *build(3, salt="9"), *build(3, chain="other")])
    return [*rows[:at], foreign, *rows[at:]]


def _swap(rows: list[ChainedRecord], chance: random.Random) -> list[ChainedRecord]:
    one, other = chance.sample(range(len(rows)), 2)
    swapped = list(rows)
    swapped[one], swapped[other] = swapped[other], swapped[one]
    return swapped


def _truncate(rows: list[ChainedRecord], chance: random.Random) -> list[ChainedRecord]:
    return rows[: chance.randrange(len(rows))]


def _rewrite(rows: list[ChainedRecord], chance: random.Random) -> list[ChainedRecord]:
    """A forger who writes the whole chain anew: only the signed head is in the way."""
    return build(len(rows), salt=str(chance.randrange(10, 99)))


MUTATIONS: list[Mutation] = [
    _edit_header,
    _edit_header_and_hash,
    _edit_data,
    _edit_hash,
    _delete,
    _insert,
    _swap,
    _truncate,
    _rewrite,
]


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__.strip("_"))
@given(count=st.integers(2, 12), seed=st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_every_mutation_behind_a_signed_head_is_found(mutate: Mutation, count: int, seed: int) -> None:
    rows = build(count)
    mutated = mutate(rows, random.Random(seed))
    assert mutated != rows
    report = check(mutated, heads={count: rows[-1].hash})
    assert report.fault is not None
    assert report.fault.detail
    assert report.position <= count
    untouched = next(
        (index for index, (old, new) in enumerate(zip(rows, mutated, strict=False)) if old != new), len(mutated)
    )
    assert report.records >= min(untouched, count - 1) or report.fault.kind in ("head_mismatch", "truncated")


# --- what the fault says ---


def test_a_missing_record_is_named_by_its_position() -> None:
    rows = build(6)
    fault = check([*rows[:2], *rows[3:]]).fault
    assert fault is not None
    assert (fault.kind, fault.position) == ("missing", 3)


def test_a_duplicate_record_is_out_of_order() -> None:
    rows = build(4)
    fault = check([*rows[:3], rows[1], *rows[3:]]).fault
    assert fault is not None
    assert (fault.kind, fault.position) == ("order", 4)


def test_edited_data_is_distinguished_from_an_edited_header() -> None:
    rows = build(3)
    edited = [rows[0], msgspec.structs.replace(rows[1], data=b"{}"), rows[2]]
    fault = check(edited).fault
    assert fault is not None
    assert (fault.kind, fault.position) == ("data_edited", 2)


def test_a_record_of_another_chain_is_foreign() -> None:
    fault = check(build(3, chain="other")).fault
    assert fault is not None
    assert fault.kind == "foreign"


def test_a_chain_that_ends_before_its_signed_head_is_truncated() -> None:
    rows = build(9)
    fault = check(rows[:5], heads={9: rows[8].hash, 3: rows[2].hash}).fault
    assert fault is not None
    assert (fault.kind, fault.position) == ("truncated", 9)


def test_a_head_of_another_history_does_not_match() -> None:
    rows, other = build(5), build(5, salt="1")
    fault = check(rows, heads={4: other[3].hash}).fault
    assert fault is not None
    assert (fault.kind, fault.position) == ("head_mismatch", 4)


# --- starting in the middle, and dropped data ---


@for_each("start", range(10))
def test_a_verification_may_start_behind_any_trusted_record(start: int) -> None:
    rows = build(10)
    trusted = rows[start - 1].hash if start else None
    report = check(rows[start:], after_position=start, after_hash=trusted, heads={2: "old", 10: rows[-1].hash})
    if start < 2:
        assert report.fault is not None
        assert report.fault.kind == "head_mismatch"
    else:
        assert (report.fault, report.records) == (None, 10 - start)


def test_a_wrong_start_is_found_at_the_first_record() -> None:
    rows = build(6)
    fault = check(rows[3:], after_position=3, after_hash=rows[1].hash).fault
    assert fault is not None
    assert (fault.kind, fault.position) == ("edited", 4)


@given(dropped=st.sets(st.integers(0, 11)))
def test_a_chain_with_dropped_data_still_verifies(dropped: set[int]) -> None:
    rows = [msgspec.structs.replace(row, data=None) if index in dropped else row for index, row in enumerate(build(12))]
    report = check(rows, heads={12: rows[-1].hash})
    assert (report.fault, report.records, report.data_dropped) == (None, 12, len(dropped))


def test_a_header_with_dropped_data_is_still_bound() -> None:
    rows = [msgspec.structs.replace(row, data=None) for row in build(4)]
    forged = msgspec.structs.replace(rows[2].header, data_sha256="0" * 64)
    rows[2] = msgspec.structs.replace(rows[2], header=forged)
    fault = check(rows).fault
    assert fault is not None
    assert (fault.kind, fault.position) == ("edited", 3)


def test_chains_of_other_workspaces_and_incarnations_start_differently() -> None:
    assert len({genesis("a", "b"), genesis("a", "c"), genesis("ab", ""), genesis("", "ab"), genesis("b", "a")}) == 5
